"""Auditing what an apply wrote, before anybody may use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vde_dagster.base.failures import FailedAudit
from vde_dagster.errors import AuditFailedError
from vde_dagster.execution.events import AuditFinished, Event
from vde_dagster.execution.failure_report import failed_audit
from vde_dagster.execution.plan_tasks import PlanTasks
from vde_dagster.execution.warehouse import Warehouse
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable


@dataclass(frozen=True, slots=True)
class Auditor:
    """Runs the audits of one plan's models; called from several threads.

    Args:
        tasks: Makes the audits' queries.
        warehouse: Runs them, and keeps what they find.
        emit: Takes events from any thread.
    """

    tasks: PlanTasks
    warehouse: Warehouse
    emit: Callable[[Event], None]

    def audit(
        self,
        snapshot: Snapshot,
        table: PhysicalTable | None,
        interval: Interval,
        branch: str | None,
    ) -> None:
        """Run a model's audits on one range of its table, or on the query of a view.

        Raises:
            AuditFailedError: A blocking audit found rows; the others have run all the same.
        """
        failures: list[str] = []
        found: list[FailedAudit] = []
        for audit, task in self.tasks.audits(snapshot, table, interval, branch):
            result = self.warehouse.engine().audit(task)
            self.warehouse.store.audits.save(task, table.id if table else None, result)
            self.emit(AuditFinished(snapshot, table, audit, interval, result))
            if result.failed_rows and audit.blocking:
                failures.append(f"{audit.label} found {result.failed_rows} rows")
                found.append(failed_audit(audit, result))
        if failures:
            raised = AuditFailedError(
                f"{snapshot.name}, {interval}: " + ", ".join(failures),
                hint="the failing rows are kept with the plan",
            )
            raised.audits = tuple(found)
            raise raised
