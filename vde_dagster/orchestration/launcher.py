"""Run launcher that forks each run from a process that has done all imports.

Dagster's own launcher starts a Python process for each run, which imports Dagster, this package and
Spark's client for three seconds before its first step. If the project has a warm engine, a run is a
fork of the project's ready process (`vde_dagster.spark.ready`) and executes `dagster api
execute_run`, as Dagster's launchers for containers do. Otherwise Dagster's own launcher starts the
run.

Configuration in `dagster.yaml`:

    run_launcher:
      module: vde_dagster.orchestration.launcher
      class: WarmRunLauncher
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg

from vde_dagster.errors import VdeError
from vde_dagster.orchestration import dagster_private
from vde_dagster.orchestration.instance import PROJECT_VARIABLE
from vde_dagster.project.loading.loader import read_settings
from vde_dagster.spark.ready.client import run_in_copy
from vde_dagster.spark.ready.keep import start_ready_process
from vde_dagster.spark.ready.protocol import receive

PROCESS_TAG = "vde/process"
"""Tag with a run, its process, and the process's start time in clock ticks since boot."""
_ENDED = "The run's process ended unexpectedly."
MODULES = (
    "alembic.command",
    *dagster_private.RUN_MODULES,
    "pyarrow.dataset",
    "pyiceberg.catalog",
    "pyiceberg.io.pyarrow",
    "pyiceberg.view.metadata",
    "pyspark.sql.connect.session",
    "rich.traceback",
    "sqlglot.dialects.trino",
    "upath.implementations.local",
    "vde_dagster.execution.plans.finish_plan",
    "vde_dagster.execution.plans.make_plans",
    "vde_dagster.lakehouse.commit_rows",
    "vde_dagster.orchestration.definitions",
    "vde_dagster.orchestration.events.applying",
    "vde_dagster.orchestration.pages.preview",
    "vde_dagster.spark.engine",
)
"""Modules that the ready process imports in advance."""


class WarmRunLauncher(dagster_private.DefaultRunLauncher):
    """Launches runs as copies of a project's ready process, if that process runs.

    Args:
        project: Folder of the project; defaults to `VDE_PROJECT`, or to the working directory.
    """

    def __init__(
        self,
        inst_data: dagster_private.ConfigurableClassData | None = None,
        project: str | None = None,
    ) -> None:
        super().__init__(inst_data)
        self._root = Path(project or os.environ.get(PROJECT_VARIABLE) or Path.cwd())

    @classmethod
    def config_type(cls) -> dagster_private.UserConfigSchema:
        return {"project": dg.Field(dg.StringSource, is_required=False)}

    @classmethod
    def from_config_value(
        cls, inst_data: dagster_private.ConfigurableClassData, config_value: Mapping[str, Any]
    ) -> WarmRunLauncher:
        return cls(inst_data, **config_value)

    def launch_run(self, context: dagster_private.LaunchRunContext) -> None:
        """Launch a run, unless another daemon of this machine took the same run from the queue."""
        run = context.dagster_run
        claim = _claim(Path(self._instance.root_directory), run.run_id)
        if claim is None:
            message = "Another daemon launched this run: only one daemon of an instance is needed."
            self._instance.report_engine_event(message, run)
            return
        try:
            if not self._launched(run):
                super().launch_run(context)
        except BaseException:
            claim.unlink()
            raise

    def terminate(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        pid = None if run is None else _process(run)
        if run is None or run.is_finished or pid is None:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        self._instance.report_run_canceling(run)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> dagster_private.CheckRunHealthResult:
        is_ours = run.tags.get(PROCESS_TAG, "").startswith(run.run_id)
        if is_ours and _process(run) is None:
            return dagster_private.CheckRunHealthResult(dagster_private.WorkerStatus.FAILED, _ENDED)
        return dagster_private.CheckRunHealthResult(dagster_private.WorkerStatus.RUNNING)

    def _launched(self, run: dg.DagsterRun) -> bool:
        origin = run.job_code_origin
        if origin is None or origin.repository_origin.executable_path != sys.executable:
            return False  # Another Python has different modules.
        words = dagster_private.run_arguments(run, self._instance)
        with open(os.devnull, "rb") as nothing:
            streams = [(nothing.fileno(), "utf-8", None), (1, "utf-8", None), (2, "utf-8", None)]
            found = run_in_copy(self._root, __name__, words[words.index("api") :], streams)
        if found is None:
            with suppress(VdeError, OSError):  # The run reports the error itself.
                start_ready_process(read_settings(self._root), lambda: (__name__, *MODULES))
            return False
        connection, pid = found
        tag = f"{run.run_id} {pid} {_began(pid)}"
        self._instance.add_run_tags(run.run_id, {PROCESS_TAG: tag})
        self._run_ids.add(run.run_id)
        threading.Thread(
            target=self._attend, args=(connection, run.run_id), name=run.run_id, daemon=True
        ).start()
        return True

    def _attend(self, connection: socket.socket, run_id: str) -> None:
        with connection, suppress(OSError, EOFError):
            receive(connection)
        with suppress(Exception):  # The instance may have been closed before this thread ends.
            run = self._instance.get_run_by_id(run_id)
            if run is not None and not run.is_finished:
                self._instance.report_run_failed(run, _ENDED)


_CLAIMED_SECONDS = 3600.0
"""Time for which the launch of a run is remembered."""


def _claim(home: Path, run_id: str) -> Path | None:
    """Create the file that marks a run as launched, or return None if the file exists."""
    folder = home / "launched"
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # Another daemon deletes them, too.
            if file.stat().st_mtime < time.time() - _CLAIMED_SECONDS:
                file.unlink()
    claim = folder / run_id
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        return None
    return claim


def _process(run: dg.DagsterRun) -> int | None:
    """Return the id of a run's process; None if it ended or another launcher started it."""
    owner, pid, began = [*run.tags.get(PROCESS_TAG, "").split(" "), "", ""][:3]
    # A re-execution copies the run's tags.
    return int(pid) if owner == run.run_id and began and _began(int(pid)) == began else None


def _began(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def call(arguments: Sequence[str]) -> int:
    return dagster_private.run_command(arguments)
