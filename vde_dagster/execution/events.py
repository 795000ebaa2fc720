"""Events and result of an apply, as values for progress bars, logs and Dagster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.execution.unit_testing.run_test import TestResult
from vde_dagster.planning.changes.refresh import Refresh
from vde_dagster.planning.checks.diagnostics import audit_place
from vde_dagster.planning.engine_tasks import AuditResult, FillResult
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.model import Audit


@dataclass(frozen=True, slots=True)
class ApplyStarted:
    """An apply has locked the plan's environment, and created records of the plan's tables."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class UnitTestFinished:
    """A unit test has ended, or it was skipped because it had passed before."""

    snapshot: Snapshot
    result: TestResult
    remembered: bool


@dataclass(frozen=True, slots=True)
class ModelStarted:
    """Work on a model's missing intervals begins."""

    snapshot: Snapshot
    table: PhysicalTable
    missing: IntervalSet


@dataclass(frozen=True, slots=True)
class IntervalFilled:
    """A range of a table was filled, or its fill was skipped.

    If the rows are on a branch, the range counts as filled only after the publication.

    Args:
        refresh: How its rows were computed, for a model that may refresh from changes.
    """

    snapshot: Snapshot
    table: PhysicalTable
    interval: Interval
    result: FillResult
    recovered: bool = False
    skipped: Skipped | None = None
    refresh: Refresh | None = None


@dataclass(frozen=True, slots=True)
class AuditFinished:
    """An audit of a table's range, or of a view, has run.

    Args:
        table: The audited table, or None for a view.
    """

    snapshot: Snapshot
    table: PhysicalTable | None
    audit: Audit
    interval: Interval
    result: AuditResult

    @property
    def place(self) -> SourceLocation:
        return audit_place(self.snapshot.model, self.audit)


@dataclass(frozen=True, slots=True)
class MemoryLacked:
    """A model ran out of memory, and is computed again while no other model runs.

    Args:
        batch: The batch being filled, if any.
        most: Units per batch from now on, or None if the batch cannot be divided.
    """

    # Models that ran at the same time may have used the memory.
    name: ModelName
    batch: Interval | None
    most: int | None
    why: str

    @property
    def text(self) -> str:
        """Text such as `marts.daily: out of memory; retrying alone`."""
        at = f" ({self.batch.text})" if self.batch is not None else ""
        units = "interval" if self.most == 1 else "intervals"
        less = f", at most {self.most} {units} at a time" if self.most else ""
        return f"{self.name}{at}: {self.why}; retrying alone{less}"


@dataclass(frozen=True, slots=True)
class ModelFinished:
    snapshot: Snapshot
    table: PhysicalTable | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelFailed:
    name: ModelName
    error: Exception
    skipped: tuple[ModelName, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """The apply has published the environment's new version."""

    environment: Environment
    plan: Plan
    seconds: float


@dataclass(frozen=True, slots=True)
class VirtualUpdateRan:
    """Result of a statement that runs after views are published."""

    environment: str
    model: ModelName
    statement: str
    error: str | None

    @property
    def sentence(self) -> str:
        return f"{self.model}: {self.error}"


Event = (
    ApplyStarted
    | UnitTestFinished
    | ModelStarted
    | IntervalFilled
    | MemoryLacked
    | AuditFinished
    | ModelFinished
    | ModelFailed
    | Published
    | VirtualUpdateRan
)


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """Result of an apply.

    Args:
        plan: The plan with the tables that it really used.
        environment: The published version; the current version if there was nothing to do.
        failed_statements: Failed statements on the published views.
        skipped: Saved costs, by model that was skipped because its inputs had not changed.
        refreshes: Method of the last fill of each model that may refresh from changes.
    """

    plan: Plan
    environment: Environment | None
    published: bool
    seconds: float
    failed_statements: tuple[VirtualUpdateRan, ...] = ()
    skipped: Mapping[ModelName, Skipped] = field(default_factory=dict)
    refreshes: Mapping[ModelName, Refresh] = field(default_factory=dict)

    @property
    def computed(self) -> int:
        """Number of computed models."""
        return len(self.plan.builds) - len(self.plan.recorded) - len(self.skipped)
