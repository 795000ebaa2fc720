"""Auditing what an apply wrote, before anybody may use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vde_dagster.base.failures import FailedAudit
from vde_dagster.errors import AuditFailedError
from vde_dagster.execution.events import AuditFinished, Event
from vde_dagster.execution.failure_report import failed_audit
from vde_dagster.execution.plan_tasks import PlanTasks
from vde_dagster.execution.warehouse import Warehouse
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.project.audit_order import AuditOrder
from vde_dagster.project.model import Audit


@dataclass(frozen=True, slots=True)
class Auditor:
    """Runs the audits of one plan's models; called from several threads.

    Args:
        tasks: Makes the audits' queries.
        warehouse: Runs them, and keeps what they find.
        emit: Takes events from any thread.
        order: Says which audits are late.
    """

    tasks: PlanTasks
    warehouse: Warehouse
    emit: Callable[[Event], None]
    order: AuditOrder = field(default_factory=AuditOrder)

    def audit(
        self,
        snapshot: Snapshot,
        table: PhysicalTable | None,
        interval: Interval,
        branch: str | None,
        *,
        late: bool = False,
    ) -> None:
        """Run a model's audits on one range of its table, or on the query of a view.

        Args:
            snapshot: The model.
            table: Its table; None for a view.
            interval: The range (UTC).
            branch: The branch that has the range, or None for the table's own.
            late: Whether it is the turn of the late ones, see `AuditOrder`, and not of all others.

        Raises:
            AuditFailedError: A blocking audit found rows; the others have run all the same.
        """
        failures: list[str] = []
        found: list[FailedAudit] = []

        def chosen(audit: Audit) -> bool:
            return self.order.is_late(snapshot.name, audit.reads) is late

        for audit, task in self.tasks.audits(snapshot, table, interval, branch, chosen):
            result = self.warehouse.engine().audit(task)
            self.warehouse.store.audits.save(task, table.id if table else None, result)
            self.emit(AuditFinished(snapshot, table, audit, interval, result))
            if result.failed_rows and audit.blocking:
                failures.append(f"{audit.label} found {result.failed_rows} rows")
                found.append(failed_audit(audit, result))
        if failures:
            raised = AuditFailedError(
                f"{snapshot.name}, {interval.text}: " + ", ".join(failures),
                hint="the failing rows are kept with the plan",
            )
            raised.audits = tuple(found)
            raise raised
