"""The plan for production that people saw on a pull request, kept in the state's database.

It is not read back from a comment, which others may edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, delete, select

from vde_dagster.state.db.rows import Instant

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

metadata = MetaData()

checks = Table(
    "vde_ci_checks",
    metadata,
    Column("project", String(255), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("plan_id", String(64), nullable=False),
    Column("commit_id", String(64), nullable=False),
    Column("at", Instant, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest check of a pull request that passed.

    Args:
        plan_id: The stored plan for production; empty where it would change nothing.
        commit: What was checked.
        at: When (UTC).
    """

    plan_id: str
    commit: str
    at: datetime


def keep_seen(workspace: Workspace, number: int, plan_id: str, commit: str) -> None:
    """Keep the plan that people see from now on."""
    key = {"project": _project(workspace), "number": number}
    now = workspace.store.database.clock.now()

    def work(conn: Connection) -> None:
        metadata.create_all(conn)
        conn.execute(delete(checks).where(*_is(key)))
        conn.execute(checks.insert().values(**key, plan_id=plan_id, commit_id=commit, at=now))

    workspace.store.database.run_transaction(work, name="ci.keep_seen")


def forget_seen(workspace: Workspace, number: int) -> None:
    """Forget the plan of a pull request whose newest commit did not pass."""
    key = {"project": _project(workspace), "number": number}

    def work(conn: Connection) -> None:
        metadata.create_all(conn)
        conn.execute(delete(checks).where(*_is(key)))

    workspace.store.database.run_transaction(work, name="ci.forget_seen")


def seen_plan(workspace: Workspace, number: int) -> Seen | None:
    """Return what people saw, or None."""
    key = {"project": _project(workspace), "number": number}
    database = workspace.store.database
    if not database.has_table(checks.name):
        return None
    row = database.row(select(checks).where(*_is(key)))
    return None if row is None else Seen(row.plan_id, row.commit_id, row.at)


def _project(workspace: Workspace) -> str:
    identity = workspace.settings.identity
    return identity.id or identity.name


def _is(key: dict[str, Any]) -> list[Any]:
    return [checks.c[name] == value for name, value in key.items()]
