"""`vde engine start`, `status` and `stop`: the Spark that stays in the background."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import typer

from vde_dagster.cli.options import on_project
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.spark.session.settings import SessionSettings
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

    settings = _settings(workspace)
    require_spark(settings)
    output.note("starting Spark")
    found, _ = join_engine(settings)
    output.result(_json(found), f"the engine runs ({_in_words(found)})")


@engine.command("status")
@on_project
def status(workspace: Workspace, output: Output) -> None:
    """Say whether the engine runs, since when, and with how much memory.

    Example: vde engine status
    """
    from vde_dagster.spark.session.warm import find_engine

    warm = _settings(workspace).warm
    assert warm is not None
    found = find_engine(warm.folder)
    output.result(
        _json(found), f"the engine runs ({_in_words(found)})" if found else "no engine runs"
    )


@engine.command("stop")
@on_project
def stop(workspace: Workspace, output: Output) -> None:
    """End the engine, and what runs on it.

    Example: vde engine stop
    """
    from vde_dagster.spark.session.warm import stop_engine

    warm = _settings(workspace).warm
    assert warm is not None
    found = stop_engine(warm.folder)
    output.result({"stopped": found is not None}, "stopped" if found else "no engine ran")


def _settings(workspace: Workspace) -> SessionSettings:
    from vde_dagster.spark.session.settings import SessionSettings

    settings = SessionSettings.of(workspace.settings)
    if settings.warm is None:
        raise UsageError(
            f"Spark runs elsewhere (spark.master is '{settings.master}'), or the system has no "
            "locks of files, so the project has no engine of its own",
            hint="an engine is for a master of this machine: local[*]",
        )
    return settings


def _json(found: WarmEngine | None) -> dict[str, Any]:
    if found is None:
        return {"running": False}
    return {
        "running": True,
        "pid": found.pid,
        "started": found.started.isoformat(),
        "bytes": found.memory,
    }


def _in_words(found: WarmEngine) -> str:
    minutes = int((datetime.now(timezone.utc) - found.started).total_seconds() // 60)
    memory = f", {found.memory / 1e9:.1f} GB" if found.memory else ""
    return f"process {found.pid}, for {minutes} min{memory}"
