"""A launcher whose runs have another process and folder and few variables, as in a container."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.launcher import LaunchRunContext, RunLauncher
from dagster._serdes import ConfigurableClass, ConfigurableClassData

from vde_dagster.orchestration.dagster_private import run_arguments
from vde_dagster_tests.orchestration.servers import REPOSITORY


class ElsewhereLauncher(RunLauncher, ConfigurableClass):
    """Runs `dagster api execute_run` in a folder, and waits for its end.

    Args:
        folder: Where the container has the project.
        environment: All variables of the container, except those of this repository's Python.
    """

    def __init__(
        self, folder: str, environment: dict[str, str], inst_data: ConfigurableClassData | None
    ) -> None:
        super().__init__()
        self._inst_data = inst_data
        self.folder, self.environment = folder, environment

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> Any:
        return {"folder": str, "environment": dg.Permissive({})}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> ElsewhereLauncher:
        return cls(config_value["folder"], dict(config_value["environment"]), inst_data)

    def launch_run(self, context: LaunchRunContext) -> None:
        words = run_arguments(context.dagster_run, self._instance)
        python = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
        subprocess.run(
            [sys.executable, "-m", "dagster", *words[words.index("api") :]],
            cwd=self.folder,
            env={**python, **self.environment},
            check=False,
            timeout=300,
            capture_output=True,
        )

    def terminate(self, run_id: str) -> bool:
        return False
