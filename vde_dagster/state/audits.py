"""What audits found, with samples of the rows that failed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.work import AuditResult, AuditTask
from vde_dagster.state import schema
from vde_dagster.state.database import Database


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One audit of one range, as it was kept.

    Args:
        plan_id: The plan on whose behalf it ran.
        table_id: The physical table, or None for a view.
        model: The audited model.
        audit: The audit's label.
        blocking: Whether failing rows stop a publication.
        interval: The audited range (UTC).
        result: What was found.
        recorded_at: When (UTC).
    """

    plan_id: str
    table_id: str | None
    model: ModelName
    audit: str
    blocking: bool
    interval: Interval
    result: AuditResult
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class AuditStore:
    """Reading and writing audit results.

    Args:
        database: Where they are.
    """

    database: Database

    def save(
        self,
        task: AuditTask,
        table_id: str | None,
        result: AuditResult,
        connection: Connection | None = None,
    ) -> None:
        """Keep what an audit found; a repetition for the same plan and range replaces it."""
        table = schema.audit_results

        def work(conn: Connection) -> None:
            conn.execute(
                table.delete().where(
                    table.c.plan_id == task.plan_id,
                    table.c.model_namespace == task.model.namespace,
                    table.c.model_name == task.model.name,
                    table.c.audit == task.audit,
                    table.c.start_at == task.interval.start,
                    table.c.end_at == task.interval.end,
                )
            )
            conn.execute(
                insert(table).values(
                    plan_id=task.plan_id,
                    table_id=table_id,
                    model_namespace=task.model.namespace,
                    model_name=task.model.name,
                    audit=task.audit,
                    blocking=task.blocking,
                    start_at=task.interval.start,
                    end_at=task.interval.end,
                    failed_rows=result.failed_rows,
                    sample=json.dumps(list(result.sample)),
                    seconds=result.seconds,
                    recorded_at=self.database.clock.now(),
                )
            )

        self.database.run(connection, work, name="state.save_audit_result")

    def results(
        self, *, plan_id: str | None = None, table_id: str | None = None
    ) -> list[AuditRecord]:
        """Return the audit results of a plan, of a table, or of both, oldest first.

        Raises:
            UsageError: Neither was given.
        """
        if plan_id is None and table_id is None:
            raise UsageError("audit results are asked for by plan, by table, or by both")
        table = schema.audit_results
        query = select(table).order_by(table.c.seq)
        if plan_id is not None:
            query = query.where(table.c.plan_id == plan_id)
        if table_id is not None:
            query = query.where(table.c.table_id == table_id)
        with self.database.reading() as conn:
            return [
                AuditRecord(
                    plan_id=row.plan_id,
                    table_id=row.table_id,
                    model=ModelName(row.model_namespace, row.model_name),
                    audit=row.audit,
                    blocking=row.blocking,
                    interval=Interval(row.start_at, row.end_at),
                    result=AuditResult(row.failed_rows, tuple(json.loads(row.sample)), row.seconds),
                    recorded_at=row.recorded_at,
                )
                for row in conn.execute(query)
            ]
