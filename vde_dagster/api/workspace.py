"""The opened project, estimates and attachments of plans, and records in the state's database."""

from vde_dagster.execution.events import AuditFinished, UnitTestFinished
from vde_dagster.execution.handles import Handles
from vde_dagster.execution.plans.keepers import Keeper
from vde_dagster.execution.plans.plan_file import Attachment
from vde_dagster.execution.workspace import Workspace
from vde_dagster.state.db.outbox import OutboxRecord
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster.state.plans.audits import AuditRecord

__all__ = [
    "Attachment",
    "AuditFinished",
    "AuditRecord",
    "FillRecord",
    "Handles",
    "Keeper",
    "OutboxRecord",
    "UnitTestFinished",
    "Workspace",
]
