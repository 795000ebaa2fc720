"""Reviewed plans by pull request, and deployed plans by commit, in the state's database.

They are never read from comments, which users may edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from vde_dagster.api.plans import PRODUCTION

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace

metadata = sa.MetaData()

checks = sa.Table(
    "vde_ci_checks",
    metadata,
    sa.Column("project", sa.String(255), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("plan_id", sa.String(64), nullable=False),
    sa.Column("commit_id", sa.String(64), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)

deploys = sa.Table(
    "vde_ci_deploys",
    metadata,
    sa.Column("project", sa.String(255), primary_key=True),
    sa.Column("commit_id", sa.String(64), primary_key=True),
    sa.Column("plan_id", sa.String(64), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)


@dataclass(frozen=True, slots=True)
class ReviewedPlan:
    """A plan that a passed check stored; `plan_id` is empty if production would not change."""

    plan_id: str
    commit: str


def store_reviewed_plan(workspace: Workspace, number: int, plan_id: str, commit: str) -> None:
    database, now = workspace.store.database, _now_microseconds(workspace)
    key = {"project": _project_key(workspace), "number": number}
    row = {**key, "plan_id": plan_id, "commit_id": commit, "at": now}
    database.ensure_tables(metadata)
    database.run_transaction(
        lambda conn: database.upsert(conn, checks, [row], "plan_id", "commit_id", "at"),
        name="ci.keep_seen",
    )


def delete_reviewed_plan(workspace: Workspace, number: int) -> None:
    key = {"project": _project_key(workspace), "number": number}
    workspace.store.database.ensure_tables(metadata)
    workspace.store.database.run_transaction(
        lambda conn: conn.execute(sa.delete(checks).where(*_key_conditions(checks, key))),
        name="ci.forget_seen",
    )


def load_reviewed_plan(workspace: Workspace, number: int) -> ReviewedPlan | None:
    row = _newest_row(workspace, checks, number=number)
    return None if row is None else ReviewedPlan(row.plan_id, row.commit_id)


def find_checked_pull_request(workspace: Workspace, commits: Sequence[str]) -> int | None:
    """Return the pull request whose newest check passed for one of the commits, or None."""
    found = (_newest_row(workspace, checks, commit_id=commit) for commit in commits)
    return next((int(row.number) for row in found if row is not None), None)


def store_deployment(workspace: Workspace, commit: str, plan_id: str, before: str | None) -> str:
    """Store the id of the plan that deploys a commit, unless another process was first.

    Args:
        plan_id: Empty if the deployment changes nothing.
        before: The result of an earlier call of `deploying_plan_id`.

    Returns:
        The stored id: `plan_id`, or the id that another process stored meanwhile.
    """
    database, now = workspace.store.database, _now_microseconds(workspace)
    key = {"project": _project_key(workspace), "commit_id": commit}

    def work(conn: sa.Connection) -> str:
        row = conn.execute(sa.select(deploys).where(*_key_conditions(deploys, key))).first()
        if row is not None and row.plan_id != before:
            return str(row.plan_id)
        database.upsert(conn, deploys, [{**key, "plan_id": plan_id, "at": now}], "plan_id", "at")
        return plan_id

    database.ensure_tables(metadata)
    return database.run_transaction(work, name="ci.keep_deploy")


def deploying_plan_id(workspace: Workspace, commit: str) -> str | None:
    """Return the id of a commit's plan: empty for no changes, None before the deployment."""
    row = _newest_row(workspace, deploys, commit_id=commit)
    return None if row is None else str(row.plan_id)


def load_deployments(workspace: Workspace) -> dict[str, str]:
    """Return the `deploying_plan_id` of all commits whose deployments began, by commit."""
    database = workspace.store.database
    if not database.has_table(deploys.name):
        return {}
    query = sa.select(deploys.c.commit_id, deploys.c.plan_id)
    own = query.where(deploys.c.project == _project_key(workspace))
    return {row.commit_id: row.plan_id for row in database.rows(own)}


def is_applied(workspace: Workspace, plan_id: str | None) -> bool:
    """Return whether a deployment is complete.

    Args:
        plan_id: The result of `deploying_plan_id` for the deployed commit.
    """
    if not plan_id:
        return plan_id is not None
    record = workspace.store.plans.record(plan_id)
    if record is None:
        # The janitor deletes old plans, but the log is kept.
        return workspace.store.log.was_published(PRODUCTION, plan_id)
    return record.status == "applied"


def _newest_row(workspace: Workspace, table: sa.Table, **key: Any) -> Any:
    database = workspace.store.database
    if not database.has_table(table.name):
        return None
    full_key = {"project": _project_key(workspace), **key}
    return database.row(
        sa.select(table).where(*_key_conditions(table, full_key)).order_by(table.c.at.desc())
    )


def _now_microseconds(workspace: Workspace) -> int:
    passed = workspace.store.database.clock.now() - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return passed // timedelta(microseconds=1)


def _project_key(workspace: Workspace) -> str:
    identity = workspace.settings.identity
    return identity.id or identity.name


def _key_conditions(table: sa.Table, key: dict[str, Any]) -> list[Any]:
    return [table.c[name] == value for name, value in key.items()]
