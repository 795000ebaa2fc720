"""Starting the ready process, from a process that used the warm engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.spark.ready.protocol import SOCKET

if TYPE_CHECKING:
    from vde_dagster.project.settings import Settings

_LOG = "commands.log"
COMMON_MODULES = (
    "vde_dagster.cli.app:prepare",
    "vde_dagster.execution.apply.apply",
    "vde_dagster.execution.query.query",
    "vde_dagster.execution.unit_testing.run_test",
    "vde_dagster.planning.plan.planner",
)
"""Modules that commands need after an edit of a model; every ready process imports them."""


def start_ready_process(settings: Settings, modules: Callable[[], Sequence[str]]) -> None:
    """Start the project's ready process if it is missing and the warm engine runs.

    Args:
        modules: Returns names of modules to import. With `module:function`, the process also calls
            this function once, after the import.
    """
    if sys.platform != "linux":
        return
    from vde_dagster.spark.session.settings import WarmSettings
    from vde_dagster.spark.session.warm import environment_without_client, find_engine

    warm = WarmSettings.from_settings(settings)
    if warm is None or not warm.warm_up or (warm.folder / SOCKET).exists():
        return
    if find_engine(warm.folder) is None:
        return
    with (warm.folder / _LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "vde_dagster.spark.ready.process", str(warm.folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment_without_client(),
            start_new_session=True,
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps([*modules(), *COMMON_MODULES]).encode())


def imported_modules() -> list[str]:
    """Return the imported modules that belong to installed packages, not to a project."""
    installed = (sys.prefix + os.sep, sys.base_prefix + os.sep, str(Path(__file__).parents[2]))
    return [
        name
        for name, module in list(sys.modules.items())
        if name != "__main__" and (getattr(module, "__file__", None) or "").startswith(installed)
    ]
