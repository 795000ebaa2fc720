"""An engine without Spark that notes what it is asked to do."""

from __future__ import annotations

from vde_dagster.planning.engine_tasks import AuditResult, AuditTask, FillResult, FillTask
from vde_dagster_tests.execution.fake_workspace import FakeSpark


class Recorder(FakeSpark):
    """Notes what is done, in order, with the SQL of audits."""

    def __init__(self) -> None:
        super().__init__()
        self.did: list[str] = []
        self.audited: dict[str, str] = {}

    def fill(self, task: FillTask) -> FillResult:
        self.did.append(f"fill {task.snapshot.name.name}")
        return super().fill(task)

    def audit(self, task: AuditTask) -> AuditResult:
        what = f"{task.audit.partition('(')[0]} {task.model.name}"
        self.did.append(what)
        self.audited[what] = task.query
        return super().audit(task)
