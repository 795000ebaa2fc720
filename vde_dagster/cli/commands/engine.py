"""`vde engine start`, `status`, `stop` and `prepare`: the Spark that stays in the background."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import typer

from vde_dagster.cli.help import SentenceGroup
from vde_dagster.cli.options import on_project
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.spark.session.settings import SessionSettings, WarmSettings
    from vde_dagster.spark.session.warm import WarmEngine

engine = typer.Typer(
    cls=SentenceGroup, help="Keep a Spark in the background, which commands and runs share."
)


@engine.command("start")
@on_project
def start(workspace: Workspace, output: Output) -> None:
    """Start the engine of this project, unless it runs.

    Example: vde engine start
    """
    from vde_dagster.spark.session.connect import require_client
    from vde_dagster.spark.session.session import require_spark
    from vde_dagster.spark.session.warm import find_engine, join_engine

    settings, warm = _settings(workspace)
    require_client(settings.master)
    require_spark(settings)
    if find_engine(warm.folder) is None:
        output.note("starting Spark")
    _tell(output, join_engine(settings, warm, start=True))


@engine.command("status")
@on_project
def status(workspace: Workspace, output: Output) -> None:
    """Say whether the engine runs, since when, and with how much memory.

    Example: vde engine status
    """
    from vde_dagster.spark.session.warm import find_engine, find_engines

    folder = _settings(workspace)[1].folder
    found = find_engine(folder)
    _tell(output, found, [engine for engine in find_engines(folder) if engine != found])


@engine.command("stop")
@on_project
def stop(workspace: Workspace, output: Output) -> None:
    """End the engine, and what runs on it.

    Example: vde engine stop
    """
    from vde_dagster.spark.session.warm import stop_engines

    found = stop_engines(_settings(workspace)[1].folder)
    output.result({"stopped": bool(found)}, "stopped" if found else "no engine ran")


@engine.command("prepare")
@on_project
def prepare(workspace: Workspace, output: Output) -> None:
    """Make Spark start in half the time on this machine, which an idle engine does by itself.

    It takes about two minutes; meant for images and CI.

    Example: vde engine prepare
    """
    from vde_dagster.spark.session.connect import require_client
    from vde_dagster.spark.session.prepare import prepare_starts
    from vde_dagster.spark.session.session import require_spark

    settings = _settings(workspace)[0]
    require_client(settings.master)
    require_spark(settings)
    output.note("looking at how Spark starts, and what it loads")
    archive, made = prepare_starts(settings)
    size = archive.stat().st_size
    output.result(
        {"archive": str(archive), "bytes": size, "made": made},
        f"{archive} ({size / 1e6:.0f} MB) {'is made' if made else 'was there'}",
    )


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


def _tell(output: Output, found: WarmEngine | None, others: Sequence[WarmEngine] = ()) -> None:
    data: dict[str, Any] = {"running": found is not None}
    told = "no engine runs"
    if found is not None:
        data |= _data(found)
        told = f"the engine runs ({_described(found)})"
    for engine in others:
        told += f"\nanother one of older settings waits for its last users ({_described(engine)})"
    if others:
        data["ending"] = list(map(_data, others))
    output.result(data, told)


def _described(engine: WarmEngine) -> str:
    size = engine.memory
    minutes = int((datetime.now(timezone.utc) - engine.started).total_seconds() // 60)
    return f"process {engine.pid}, for {minutes} min" + (f", {size / 1e9:.1f} GB" if size else "")


def _data(engine: WarmEngine) -> dict[str, Any]:
    started = engine.started.isoformat()
    return {"pid": engine.pid, "started": started, "bytes": engine.memory}
