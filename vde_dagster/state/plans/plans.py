"""Plans and their status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, bindparam, case, delete, func, select, update

from vde_dagster.base.times import instant_text
from vde_dagster.errors import ConflictError, StoreError, UsageError
from vde_dagster.planning.plan.plan import Plan, PlanKind
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import StoredPlan, dump_plan, load_readable_plan, load_stored_plan
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.log import Act
from vde_dagster.state.db.log import record as log_act
from vde_dagster.state.db.outbox import add_record
from vde_dagster.state.db.rows import among, row_from_value, upsert, value_from_row
from vde_dagster.state.environments.versions import kept_since
from vde_dagster.state.plans.snapshots import SnapshotStore

PlanStatus = Literal["planned", "applying", "applied", "failed", "superseded", "rejected"]

OPEN_PLANS = ("planned", "applying", "failed")

_ALLOWED: dict[str, tuple[str, ...]] = {
    "applying": ("planned", "failed", "applying"),
    "applied": ("planned", "failed", "applying", "applied"),
    "failed": ("planned", "failed", "applying"),
    "superseded": ("planned", "failed", "applying", "superseded"),
    "rejected": ("planned", "failed"),
}
_ACTS: dict[str, Act] = {
    PlanKind.PLAN.value: "apply",
    PlanKind.RESTATEMENT.value: "restate",
    PlanKind.RUN.value: "run",
}
_MOST_WAITING = 30
"""Maximum number of open plans that `waiting` checks, newest first."""
_BY_ID = select(schema.plans).where(schema.plans.c.plan_id == bindparam("of"))
_MOST_COMPARED = 5
"""Maximum number of open plans that a new plan is compared with, newest first."""
CLOSED = ("superseded", "rejected")
"""Statuses of plans that were not applied, and wait for no approval."""
OUT_OF_TIME = "it was not applied within the grace time"
"""The janitor's reason for closing a plan that may still be applied by its id or file."""


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """Status of a stored plan, without its content.

    Args:
        message: For a failed or superseded plan, the reason. For a rejected plan, the author and
            the reason. Otherwise None.
    """

    id: str
    environment: str
    kind: str
    base_version: int
    status: PlanStatus
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    message: str | None


@dataclass(frozen=True, slots=True)
class PlanStore:
    database: Database
    snapshots: SnapshotStore

    def save(self, plan: Plan, *, once: bool = False) -> str:
        """Store a plan and its snapshots.

        Args:
            once: Whether to store nothing if an equal proposal is already waiting. For example, two
                sensors may create the same proposal.

        Returns:
            The plan's id, or the id of the equal proposal.

        Raises:
            StoreError: The state has another plan, or another definition, under one of the ids.
        """
        row = row_from_value(
            plan,
            schema.plans,
            plan_id=plan.id,
            kind=plan.kind.value,
            status="planned",
            payload=dump_plan(plan),
        )

        def work(conn: Connection) -> str:
            for waiting in self._waiting_proposals(plan, conn) if once else ():
                if _work(waiting) == _work(plan):
                    return waiting.id
                newer = f"the plan {plan.id} of the same files has later intervals"
                self.set_status(waiting.id, "superseded", newer, conn)
            # With the plan, so that the janitor never finds snapshots that no plan refers to yet.
            # A definition that an environment shows keeps its stored id, and is not
            # saved again.
            own = [snapshot for key, snapshot in plan.snapshots.items() if key == snapshot.id]
            self.snapshots.save(own, conn)
            found = self._content(plan.id, conn)
            if found is None:
                upsert(conn, schema.plans, [row])
                add_record(self.database, conn, "plan", plan=plan.id)
            elif found != StoredPlan(replace(plan, snapshots={}), tuple(plan.snapshots)):
                raise StoreError(
                    f"the state has another plan with the id {plan.id}, which cannot be applied",
                    hint=f"find out who wrote the other plan (vde log), and plan again: vde plan "
                    f"{plan.environment}",
                )
            return plan.id

        return self.database.run_transaction(work, name="state.save_plan")

    def _waiting_proposals(self, plan: Plan, connection: Connection) -> list[Plan]:
        table = schema.plans
        query = (
            select(table.c.payload)
            .where(
                table.c.environment == plan.environment,
                table.c.status == "planned",
                table.c.base_version == plan.base_version,
            )
            .order_by(table.c.created_at.desc())
            .limit(_MOST_COMPARED)
        )
        stored = [load_readable_plan(row.payload) for row in connection.execute(query)]
        found = [one.plan for one in stored if one is not None]
        return [one for one in found if one.id != plan.id and _proposed(one) == _proposed(plan)]

    def load(self, plan_id: str) -> Plan:
        """Read a plan with its snapshots.

        Raises:
            UsageError: No plan has this id.
            StoreError: The content of the plan's row, or of a snapshot, does not match its id.
        """
        with self.database.reading() as conn:
            return self._load(plan_id, conn)

    def find(self, plan_id: str) -> Plan | None:
        """Read a plan, or return None if it or one of its snapshots was deleted, or is damaged.

        Raises:
            StoreError: The state cannot be read.
        """
        # Errors of the database become StoreError only outside of this block.
        with self.database.reading() as conn, suppress(UsageError, StoreError):
            return self._load(plan_id, conn)
        return None

    def _load(self, plan_id: str, connection: Connection) -> Plan:
        stored = self._content(plan_id, connection)
        if stored is None:
            raise UsageError(
                f"the plan '{plan_id}' does not exist", hint="create a plan: vde plan ENV"
            )
        snapshots = self.snapshots.load(stored.snapshot_ids, connection)
        lacking = [key for key in stored.snapshot_ids if key not in snapshots]
        if lacking:
            raise StoreError(
                f"the plan '{plan_id}' needs snapshots that were cleaned up: {', '.join(lacking)}",
                hint=f"plan again: vde plan {stored.plan.environment}",
            )
        return replace(stored.plan, snapshots=snapshots)

    def foreign(self) -> Iterator[tuple[str, str]]:
        """Yield (id, reason) of plans that are unreadable, or that other programs changed."""
        for row in self.database.rows(select(schema.plans).order_by(schema.plans.c.plan_id)):
            try:
                _stored(row)
            except StoreError as error:
                yield row.plan_id, error.message

    def _content(self, plan_id: str, connection: Connection) -> StoredPlan | None:
        row = self.database.row(_BY_ID, connection, of=plan_id)
        return None if row is None else _stored(row)

    def recent(self, environment: str | None = None, limit: int = 20) -> list[PlanRecord]:
        """Return the status of the latest plans, newest first."""
        table = schema.plans
        query = select(table).order_by(table.c.created_at.desc(), table.c.plan_id).limit(limit)
        if environment is not None:
            query = query.where(table.c.environment == environment)
        return [_record(row) for row in self.database.rows(query)]

    def between(self, since: datetime, until: datetime) -> list[PlanRecord]:
        """Return the status of plans created before `until` and finished at `since` or later (UTC).

        A plan that is being applied counts as finished later. Any other unfinished plan counts as
        finished when it was created.
        """
        table = schema.plans
        began, ended = table.c.created_at, func.coalesce(table.c.finished_at, table.c.created_at)
        overlaps = (ended >= since) | (table.c.status == "applying")
        query = select(table).where(began < until, overlaps).order_by(began, table.c.plan_id)
        return [_record(row) for row in self.database.rows(query)]

    def record(self, plan_id: str, connection: Connection | None = None) -> PlanRecord | None:
        row = self.database.row(_BY_ID, connection, of=plan_id)
        return _record(row) if row is not None else None

    def is_applied(self, plan_id: str) -> bool:
        record = self.record(plan_id)
        return record is not None and record.status == "applied"

    def started(self) -> list[PlanRecord]:
        """Return, for each environment, the newest started plan that can still be applied.

        A plan that failed is included; runs and restatements are not.
        """
        table = schema.plans
        query = (
            select(table)
            .where(table.c.kind == "plan", table.c.status.in_(("applying", "failed")))
            .order_by(table.c.started_at)
        )
        with self.database.reading() as conn:
            found = [_record(row) for row in conn.execute(query)]
            past = self.find_dead([record.id for record in found], conn)
        latest = {record.environment: record for record in found if record.id not in past}
        return list(latest.values())

    def find_dead(self, plan_ids: Iterable[str], connection: Connection | None = None) -> set[str]:
        """Return the given plans that were not published and wait for no approval.

        Such a plan is not stored, was superseded or rejected, or is outdated (see `current_base`).
        """
        past = set(plan_ids)
        plans, heads = schema.plans, schema.environments
        alive = plans.c.status.not_in(CLOSED) & has_current_base()
        query = (
            select(plans.c.plan_id)
            .outerjoin(heads, plans.c.environment == heads.c.environment)
            .where((plans.c.status == "applied") | alive)
        )
        past -= {
            row.plan_id for row in self.database.among(query, plans.c.plan_id, past, connection)
        }
        return past

    def waiting(self, files: str) -> list[Plan]:
        """Return the plans that wait for an approval, oldest first.

        `files` is the hash of the project's files: plans of other files are left out.
        """
        table = schema.plans.c
        query = (
            select(table.plan_id)
            .where(table.kind != PlanKind.RUN.value, table.status.in_(("planned", "failed")))
            .order_by(table.created_at.desc(), table.plan_id)
            .limit(_MOST_WAITING)
        )
        found: list[str] = [row.plan_id for row in self.database.rows(query)]
        closed = self.closed_to_approval(found, files)
        plans = (self.find(plan_id) for plan_id in reversed(found) if plan_id not in closed)
        return [plan for plan in plans if plan is not None]

    def statuses(self, plan_ids: Iterable[str]) -> dict[str, str]:
        table = schema.plans.c
        query = select(table.plan_id, table.status)
        return {row[0]: row[1] for row in self.database.among(query, table.plan_id, plan_ids)}

    def closed_to_approval(self, plan_ids: Iterable[str], files: str) -> set[str]:
        """Return the given plans that can no longer be approved.

        A plan is closed if it waits for no approval (see `past`), was made only for review, or was
        made from files with another hash than `files`.
        """
        asked = set(plan_ids)
        closed = self.find_dead(asked)
        table = schema.plans.c
        wanted = select(table.plan_id, table.environment, table.started_at, table.payload).where(
            table.status.in_(("planned", "failed"))
        )
        begun = select(table.environment, func.max(table.started_at)).group_by(table.environment)
        with self.database.reading() as conn:
            latest = {row[0]: row[1] for row in conn.execute(begun)}
            for row in among(conn, wanted, table.plan_id, asked - closed):
                stored = load_readable_plan(row.payload)
                plan = stored.plan if stored is not None else None
                if plan is None:
                    stays = False
                elif plan.proposal is not None:
                    stays = plan.proposal.matches_files(files)
                else:
                    # A failed run or restatement stays open until other work
                    # begins in its environment.
                    failed = plan.kind is not PlanKind.PLAN and row.started_at is not None
                    stays = failed and row.started_at == latest[row.environment]
                if not stays:
                    closed.add(row.plan_id)
        return closed

    def set_status(
        self,
        plan_id: str,
        status: PlanStatus,
        message: str | None = None,
        connection: Connection | None = None,
        *,
        who: str | None = None,
        approved: bool = False,
    ) -> None:
        """Change a plan's status to applying, applied, failed, superseded or rejected.

        A failed plan may be applied again; an applied, superseded or rejected plan may not, except
        one that the janitor closed as `OUT_OF_TIME`.

        Args:
            who: Author of the change, for the log.
            approved: Whether the person who applies the plan has read exactly this plan.

        Raises:
            UsageError: No plan has this id.
            ConflictError: The plan's status does not allow the new status.
        """

        def work(conn: Connection) -> None:
            record = self.record(plan_id, conn)
            if record is None:
                raise UsageError(
                    f"the plan '{plan_id}' does not exist", hint="plan again: vde plan ENV"
                )
            if record.status == "rejected":
                raise _was_rejected(record)
            late = (record.status, record.message) == ("superseded", OUT_OF_TIME)
            if ("planned" if late else record.status) not in _ALLOWED[status]:
                raise ConflictError(
                    f"the plan {plan_id} is {record.status} and cannot become {status}",
                    hint=f"plan again: vde plan {record.environment}",
                )
            now = self.database.clock.now()
            values: dict[str, Any] = {"status": status, "message": message}
            values["started_at" if status == "applying" else "finished_at"] = now
            conn.execute(
                update(schema.plans).where(schema.plans.c.plan_id == plan_id).values(**values)
            )
            if status in ("failed", "rejected"):
                add_record(self.database, conn, status, plan=plan_id)
            if status in ("applying", "rejected"):
                said = {"plan": plan_id, "message": message, "approved": approved or None}
                act: Act = "reject" if status == "rejected" else _ACTS[record.kind]
                log_act(self.database, conn, act, record.environment, who=who, detail=said)

        self.database.run(connection, work, name="state.set_plan_status")

    def reject(self, plan_id: str, who: str, why: str = "") -> PlanRecord:
        """Reject a plan, so that it can never be applied."""
        reason = " ".join(why.split())

        def work(conn: Connection) -> PlanRecord:
            message = f"rejected by {who}: {reason}" if reason else f"rejected by {who}"
            self.set_status(plan_id, "rejected", message, conn, who=who)
            conn.execute(delete(schema.pending).where(schema.pending.c.plan_id == plan_id))
            record = self.record(plan_id, conn)
            assert record is not None
            return record

        return self.database.run_transaction(work, name="state.reject_plan")

    def require_open(self, plan_id: str) -> None:
        """Raise ConflictError, with author, time and reason, if a plan was rejected."""
        record = self.record(plan_id)
        if record is not None and record.status == "rejected":
            raise _was_rejected(record)

    def git_branch(self, environment: str) -> str | None:
        """Return the Git branch that an environment is named after; empty if a user chose the name.

        None means that the branch is unknown, or that the environment does not exist or expired.
        """
        table, head = schema.plans.c, schema.environments.c
        # Another branch may take the name of an expired environment.
        over = head.expires_at <= self.database.clock.now()
        live = select(head.environment).where(
            head.environment == environment, head.live, over.is_not(True)
        )
        latest = (
            select(table.payload)
            .where(
                table.environment == environment,
                table.kind == PlanKind.PLAN.value,
                table.status == "applied",
            )
            .order_by(table.finished_at.desc())
            .limit(1)
        )
        with self.database.reading() as conn:
            if not conn.execute(live).scalar():
                return None
            payload = conn.execute(latest).scalar()
        stored = load_readable_plan(payload) if payload is not None else None
        return stored.plan.branch if stored is not None else None

    def find_rejected(self, plan: Plan) -> str | None:
        """Return the id of a rejected plan with exactly the same models, or None."""
        table = schema.plans.c
        query = (
            select(table.plan_id, table.payload)
            .where(table.environment == plan.environment, table.status == "rejected")
            .order_by(table.created_at.desc())
        )
        for row in self.database.rows(query):
            stored = load_readable_plan(row.payload)
            if stored is not None and _definitions(stored.plan) == _definitions(plan):
                return str(row.plan_id)
        return None


def has_current_base() -> ColumnElement[bool]:
    """Build the SQL condition that the environment has not changed since the plan was made.

    The condition is for queries that outer join plans with their environments. `current_base`
    defines which changes count.
    """
    plans, heads = schema.plans.c, schema.environments.c
    current = func.coalesce(case((heads.live, heads.version), else_=0), 0)
    unchanged = heads.live & kept_since(plans.environment, plans.base_version)
    return (plans.base_version == current) | unchanged


def _definitions(plan: Plan) -> tuple[object, ...]:
    return {name: entry.snapshot_id for name, entry in plan.entries.items()}, plan.statements


def _proposed(plan: Plan) -> tuple[object, ...]:
    options = (plan.kind, plan.start, plan.end, plan.branch, plan.kept)
    models = [(one.name, one.builds, one.restate, one.records_only) for one in plan.models]
    return plan.proposal, options, models, _definitions(plan)


def _work(plan: Plan) -> list[object]:
    return [(one.name, one.intervals) for one in plan.models]


def _was_rejected(record: PlanRecord) -> ConflictError:
    when = instant_text(record.finished_at) if record.finished_at else "earlier"
    return ConflictError(
        f"the plan {record.id} was {record.message} ({when})",
        hint="change the project as the reason for the rejection requires, then run: "
        f"vde plan {record.environment}",
    )


def _stored(row: Any) -> StoredPlan:
    stored = load_stored_plan(row.payload)
    plan = stored.plan
    made = (plan.id, plan.environment, plan.kind.value, plan.base_version)
    for name, value in zip(("plan_id", "environment", "kind", "base_version"), made, strict=True):
        if getattr(row, name) != value:
            raise StoreError(
                f"plan {row.plan_id} has {name} '{getattr(row, name)}' in its row, but "
                f"'{value}' in its content: a program other than vde wrote it",
                hint=f"plan again: vde plan {plan.environment}",
            )
    return stored


def _record(row: Any) -> PlanRecord:
    return value_from_row(PlanRecord, row, id=row.plan_id)
