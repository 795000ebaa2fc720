"""Commands of the background Spark: `vde engine start`, `status`, `stop` and `prepare`."""

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

engine = typer.Typer(cls=SentenceGroup, help="Manage the background Spark of commands and runs.")


@engine.command("start")
@on_project
def start(workspace: Workspace, output: Output) -> None:
    """Start the project's engine, unless it is running.

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
    _print_status(output, join_engine(settings, warm, start=True))


@engine.command("status")
@on_project
def status(workspace: Workspace, output: Output) -> None:
    """Show whether the engine is running, since when, and its memory.

    Example: vde engine status
    """
    from vde_dagster.spark.session.warm import find_engine, find_engines

    folder = _settings(workspace)[1].folder
    found = find_engine(folder)
    _print_status(output, found, [engine for engine in find_engines(folder) if engine != found])


@engine.command("stop")
@on_project
def stop(workspace: Workspace, output: Output) -> None:
    """Stop the engine and its running work.

    Example: vde engine stop
    """
    from vde_dagster.spark.session.warm import stop_engines

    found = stop_engines(_settings(workspace)[1].folder)
    output.result({"stopped": bool(found)}, "stopped" if found else "no engine was running")


@engine.command("prepare")
@on_project
def prepare(workspace: Workspace, output: Output) -> None:
    """Build an archive that halves Spark's start time on this machine.

    It takes about two minutes and is meant for images and CI. An idle engine builds the archive,
    too.

    Example: vde engine prepare
    """
    from vde_dagster.spark.session.connect import require_client
    from vde_dagster.spark.session.prepare import prepare_starts
    from vde_dagster.spark.session.session import require_spark

    settings = _settings(workspace)[0]
    require_client(settings.master)
    require_spark(settings)
    output.note("recording which classes Spark loads at its start")
    archive, made = prepare_starts(settings)
    size = archive.stat().st_size
    output.result(
        {"archive": str(archive), "bytes": size, "made": made},
        f"{archive} ({size / 1e6:.0f} MB) {'was created' if made else 'already exists'}",
    )


def _settings(workspace: Workspace) -> tuple[SessionSettings, WarmSettings]:
    from vde_dagster.spark.session.settings import SessionSettings

    settings = SessionSettings.from_settings(workspace.settings)
    if settings.warm is None:
        raise UsageError(
            f"the project cannot have an engine: Spark runs elsewhere (spark.master is "
            f"'{settings.master}'), or the system has no file locks",
            hint='an engine requires a local master: set spark.master = "local[*]"',
        )
    return settings, settings.warm


def _print_status(
    output: Output, found: WarmEngine | None, others: Sequence[WarmEngine] = ()
) -> None:
    data: dict[str, Any] = {"running": found is not None}
    text = "no engine is running"
    if found is not None:
        data |= _data(found)
        text = f"the engine is running ({_engine_text(found)})"
    for engine in others:
        text += (
            f"\nan engine with older settings ends when no command uses it ({_engine_text(engine)})"
        )
    if others:
        data["ending"] = list(map(_data, others))
    output.result(data, text)


def _engine_text(engine: WarmEngine) -> str:
    size = engine.memory
    minutes = int((datetime.now(timezone.utc) - engine.started).total_seconds() // 60)
    return f"process {engine.pid}, up {minutes} min" + (f", {size / 1e9:.1f} GB" if size else "")


def _data(engine: WarmEngine) -> dict[str, Any]:
    started = engine.started.isoformat()
    return {"pid": engine.pid, "started": started, "bytes": engine.memory}
