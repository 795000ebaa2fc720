"""Results of audits, with samples of the failing rows."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.planning.engine_tasks import AuditResult, AuditTask
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.outbox import add_record
from vde_dagster.state.db.rows import among, chunks, is_model, value_from_row


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Stored result of one audit of one range of a table.

    Args:
        table_id: The physical table, or None for a view.
        environment: The environment of an audit run, or None for an audit of a plan.
    """

    number: int
    plan_id: str
    table_id: str | None
    model: ModelName
    audit: str
    blocking: bool
    interval: Interval
    result: AuditResult
    recorded_at: datetime
    environment: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class AuditRun:
    """A run of an environment's audits by `vde audit`. Results store the run's id as a plan id."""

    id: str
    environment: str
    version: int


@dataclass(frozen=True, slots=True)
class AuditStore:
    database: Database

    def save(
        self,
        task: AuditTask,
        table_id: str | None,
        result: AuditResult,
        *,
        run: AuditRun | None = None,
    ) -> None:
        """Store an audit's result, in place of an earlier result for the same plan and range."""
        table = schema.audit_results
        key = {
            "plan_id": task.plan_id,
            "model_namespace": task.model.namespace,
            "model_name": task.model.name,
            "audit": task.audit,
            "start_at": task.interval.start,
            "end_at": task.interval.end,
        }

        def work(conn: Connection) -> None:
            conn.execute(table.delete().where(*(table.c[name] == key[name] for name in key)))
            conn.execute(
                insert(table).values(
                    **key,
                    table_id=table_id,
                    blocking=task.blocking,
                    failed_rows=result.failed_rows,
                    sample=json.dumps(list(result.sample)),
                    seconds=result.seconds,
                    recorded_at=self.database.clock.now(),
                    environment=run.environment if run else None,
                    version=run.version if run else None,
                )
            )

        self.database.run_transaction(work, name="state.save_audit_result")

    def finish(self, run: AuditRun) -> None:
        """Write an outbox record about the end of an audit run."""
        about = {"run": run.id, "environment": run.environment, "version": run.version}
        self.database.run_transaction(
            lambda conn: add_record(self.database, conn, "audit", **about),
            name="state.finish_audits",
        )

    def failing(self, table_id: str) -> list[AuditRecord]:
        """Return the failed audits of a table's visible rows, oldest first.

        A failed audit is left out if later results of the same audit, also for visible rows, cover
        its range.
        """
        failed = self.results(table_id=table_id, failed=True)
        if not failed:
            return []
        first = min(record.number for record in failed)
        newer = self.results(table_id=table_id, after=first)
        seen = self._visible_plans(table_id, {record.plan_id for record in (*failed, *newer)})
        found: list[AuditRecord] = []
        covered: dict[str, IntervalSet] = {}
        for record in sorted((*failed[:1], *newer), key=lambda one: -one.number):
            if record.environment is None and record.plan_id not in seen:
                continue
            ranges = covered.get(record.audit, IntervalSet())
            if record.result.failed_rows and not ranges.contains(record.interval):
                found.append(record)
            covered[record.audit] = ranges | IntervalSet((record.interval,))
        return found[::-1]

    def newest(
        self, table_ids: Collection[str], until: datetime | None = None
    ) -> dict[str, list[AuditRecord]]:
        """Return the newest result of each audit of each table, without samples.

        `until` leaves out results recorded later (UTC).
        """
        table = schema.audit_results.c
        newest = select(func.max(table.seq)).group_by(
            table.table_id, table.model_namespace, table.model_name, table.audit
        )
        if until is not None:
            newest = newest.where(table.recorded_at <= until)
        found: dict[str, list[AuditRecord]] = {}
        with self.database.reading() as conn:
            for part in chunks(sorted(table_ids)):
                numbers = newest.where(table.table_id.in_(part))
                query = select(schema.audit_results).where(table.seq.in_(numbers))
                for row in conn.execute(query.order_by(table.seq)):
                    found.setdefault(row.table_id, []).append(_record(row, ()))
        return found

    def audited(self, table_id: str, model: ModelName) -> dict[str, str]:
        """Return, by audit of a table, the id of the plan or audit run with the newest result."""
        table = schema.audit_results.c
        newest = (
            select(func.max(table.seq))
            .where(table.table_id == table_id, is_model(schema.audit_results, model))
            .group_by(table.audit)
        )
        query = select(table.audit, table.plan_id).where(table.seq.in_(newest))
        return {row.audit: row.plan_id for row in self.database.rows(query)}

    def audited_until(
        self, environment: str, names: Collection[ModelName]
    ) -> dict[ModelName, datetime]:
        """Return, by model, the latest end (UTC) of the ranges audited in applied plans."""
        table, plans = schema.audit_results.c, schema.plans.c
        query = (
            select(table.model_namespace, table.model_name, func.max(table.end_at).label("until"))
            .join_from(schema.audit_results, schema.plans, plans.plan_id == table.plan_id)
            .where(
                plans.environment == environment,
                plans.status == "applied",
                table.model_name.in_(sorted({name.name for name in names})),
            )
            .group_by(table.model_namespace, table.model_name)
        )
        found = {
            ModelName(row.model_namespace, row.model_name): row.until
            for row in self.database.rows(query)
        }
        return {name: found[name] for name in names if name in found}

    def _visible_plans(self, table_id: str, plan_ids: set[str]) -> set[str]:
        fills, plans = schema.fills.c, schema.plans.c
        visible: set[str] = set()
        with self.database.reading() as conn:
            # Readers see the rows of these plans.
            filled = select(fills.plan_id).where(fills.table_id == table_id).distinct()
            visible.update(conn.execute(filled).scalars())
            applied = select(plans.plan_id).where(plans.status == "applied")
            visible |= {row[0] for row in among(conn, applied, plans.plan_id, plan_ids - visible)}
        return visible

    def results(
        self,
        *,
        plan_id: str | None = None,
        table_id: str | None = None,
        failed: bool = False,
        after: int | None = None,
    ) -> list[AuditRecord]:
        """Return the audit results of a plan, a table, or a table in a plan, oldest first."""
        if plan_id is None and table_id is None:
            raise UsageError("audit results need a plan, a table, or both")
        table = schema.audit_results
        query = select(table).order_by(table.c.seq)
        if plan_id is not None:
            query = query.where(table.c.plan_id == plan_id)
        if table_id is not None:
            query = query.where(table.c.table_id == table_id)
        if failed:
            query = query.where(table.c.failed_rows > 0)
        if after is not None:
            query = query.where(table.c.seq > after)
        return [_record(row, tuple(json.loads(row.sample))) for row in self.database.rows(query)]


def _record(row: Row[Any], sample: tuple[dict[str, str | None], ...]) -> AuditRecord:
    return value_from_row(
        AuditRecord,
        row,
        number=row.seq,
        model=ModelName(row.model_namespace, row.model_name),
        interval=Interval(row.start_at, row.end_at),
        result=AuditResult(row.failed_rows, sample, row.seconds),
    )
