"""Syncs into PostgreSQL that are stopped (`SIGSTOP`) at a statement, for good."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import sqlalchemy as sa

from vde_dagster.plugins.sync import postgresql
from vde_dagster_tests.execution.workers import start
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.stalls import seconds_until_ended
from vde_dagster_tests.sync.world import Shop


def make_synced(root: Path, url: str) -> Path:
    """Publish a shop with a sync into a database, in batches of two customers."""
    shop = Shop(root)
    shop.define(sink="postgresql", to={"prod": {"url": url, "table": "latest"}}, batch=2)
    shop.publish()
    return shop.folder.root


Stop = tuple[str, int, bool]
"""A statement's kind (`SELECT`, `batch of INSERT`), its passage, and whether to stop behind it."""


def sync(project: Path, stop: Stop | None, marker: Path, idle_seconds: float) -> None:
    """Run the sync, whose server ends silent transactions soon, and stop at a statement.

    Args:
        project: The project of `make_synced`.
        stop: The statement on the target at which it stops.
        marker: A file that is made before it stops; without a stop, each statement's kind, a line
            each.
        idle_seconds: How long a transaction may be silent.
    """
    postgresql.IDLE_SECONDS = idle_seconds
    kinds: list[str] = []

    def stop_at(*, after: bool) -> None:
        if stop == (kinds[-1], kinds.count(kinds[-1]), after):
            marker.touch()
            os.kill(os.getpid(), signal.SIGSTOP)

    def before(_: object, __: object, text: str, ___: object, ____: object, many: bool) -> None:
        kinds.append(f"{'batch of ' if many else ''}{text.split()[0]}")
        stop_at(after=False)

    def listen(conn: sa.Connection) -> None:
        if conn.engine.url.drivername == "postgresql+psycopg":
            sa.event.listen(conn, "before_cursor_execute", before)
            sa.event.listen(conn, "after_cursor_execute", lambda *_: stop_at(after=True))

    sa.event.listen(sa.Engine, "engine_connect", listen)
    shop = Shop.__new__(Shop)
    shop.folder, shop.how = ProjectFolder(project), {}
    shop.sync()
    marker.write_text("\n".join(kinds))


def passed_statements(project: Path, log: Path) -> list[str]:
    """Run the sync, and return the kinds of the statements on its target, in order."""
    process = start(sync, project, None, log, 60.0)
    process.join()
    assert process.exitcode == 0
    return log.read_text().splitlines()


def seconds_held(
    project: Path, url: str, stop: Stop, idle_seconds: float, patience: float
) -> float | None:
    """Stop a sync, and return for how long its transaction stays open; None beyond the patience."""
    kind, number, after = stop
    marker = project / f"stopped-{kind}-{number}-{after}"
    process = start(sync, project, stop, marker, idle_seconds)
    return seconds_until_ended(process, marker, url, patience)
