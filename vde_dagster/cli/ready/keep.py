"""Starting the ready process, after a command that used the warm engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.cli.ready.protocol import SOCKET

if TYPE_CHECKING:
    from vde_dagster.project.settings import Settings

_WARM = "vde_dagster.spark.session.warm"
_LOG = "commands.log"
_DOORS = (
    "vde_dagster.execution.apply.apply",
    "vde_dagster.execution.query.query",
    "vde_dagster.execution.unit_testing.run_test",
    "vde_dagster.planning.plan.planner",
)
"""What the commands of an edit import; whatever the command that starts it had is added."""


def keep_ready(settings: Settings) -> None:
    """Start the ready process where the engine runs that this command used, unless it is there."""
    if sys.platform != "linux" or _WARM not in sys.modules:
        return
    from vde_dagster.spark.session.settings import WarmSettings
    from vde_dagster.spark.session.warm import environment_before, find_engine

    warm = WarmSettings.of(settings)
    if warm is None or not warm.warm_up or (warm.folder / SOCKET).exists():
        return
    if find_engine(warm.folder) is None:
        return
    with (warm.folder / _LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "vde_dagster.cli.ready_process", str(warm.folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment_before(),
            start_new_session=True,
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(_modules()).encode())


def _modules() -> list[str]:
    """Return the modules of this process that are installed: a project's own are read anew."""
    installed = (sys.prefix + os.sep, sys.base_prefix + os.sep, str(Path(__file__).parents[2]))
    own = [
        name
        for name, module in list(sys.modules.items())
        if name != "__main__" and (getattr(module, "__file__", None) or "").startswith(installed)
    ]
    return [*own, *_DOORS]
