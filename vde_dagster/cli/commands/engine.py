"""`vde engine start`, `status` and `stop`: the Spark that stays in the background."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import typer

from vde_dagster.cli.options import on_project
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.spark.session.settings import SessionSettings, WarmSettings
    from vde_dagster.spark.session.warm import WarmEngine

engine = typer.Typer(help="Keep a Spark in the background, which commands and runs share.")


@engine.command("start")
@on_project
def start(workspace: Workspace, output: Output) -> None:
    """Start the engine of this project, unless it runs.

    Example: vde engine start
    """
    from vde_dagster.spark.session.session import require_spark
    from vde_dagster.spark.session.warm import join_engine

    settings, warm = _settings(workspace)
    require_spark(settings)
    output.note("starting Spark")
    _tell(output, join_engine(settings, warm, start=True))


@engine.command("status")
@on_project
def status(workspace: Workspace, output: Output) -> None:
    """Say whether the engine runs, since when, and with how much memory.

    Example: vde engine status
    """
    from vde_dagster.spark.session.warm import find_engine

    _tell(output, find_engine(_settings(workspace)[1].folder))


@engine.command("stop")
@on_project
def stop(workspace: Workspace, output: Output) -> None:
    """End the engine, and what runs on it.

    Example: vde engine stop
    """
    from vde_dagster.spark.session.warm import stop_engine

    found = stop_engine(_settings(workspace)[1].folder)
    output.result({"stopped": found is not None}, "stopped" if found else "no engine ran")


def _settings(workspace: Workspace) -> tuple[SessionSettings, WarmSettings]:
    from vde_dagster.spark.session.settings import SessionSettings

    settings = SessionSettings.of(workspace.settings)
    if settings.warm is None:
        raise UsageError(
            f"Spark runs elsewhere (spark.master is '{settings.master}'), or the system has no "
            "locks of files, so the project has no engine of its own",
            hint="an engine is for a master of this machine: local[*]",
        )
    return settings, settings.warm


def _tell(output: Output, found: WarmEngine | None) -> None:
    if found is None:
        output.result({"running": False}, "no engine runs")
        return
    size = found.memory
    minutes = int((datetime.now(timezone.utc) - found.started).total_seconds() // 60)
    memory = f", {size / 1e9:.1f} GB" if size else ""
    output.result(
        {"running": True, "pid": found.pid, "started": found.started.isoformat(), "bytes": size},
        f"the engine runs (process {found.pid}, for {minutes} min{memory})",
    )
