"""The engine protocol of an apply; `vde_dagster.spark.SparkEngine` is the real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from vde_dagster.base.names import ModelName
from vde_dagster.planning.engine_tasks import (
    AnalysedQuery,
    AuditResult,
    AuditTask,
    FillResult,
    FillTask,
)
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable

if TYPE_CHECKING:
    import pyarrow as pa


class Engine(Protocol):
    """Runs work on the warehouse. All methods may be called from several threads at once."""

    def analyze(
        self, sql: str, before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> tuple[tuple[str, str], ...]:
        """Return (column, Spark SQL type) of a query, without running it.

        Statements before and after it run in a session that nothing else sees.
        """
        ...

    def prepare(self, sql: str, before: Sequence[str] = ()) -> AnalysedQuery:
        """Analyse a query, once for its columns and for the fill that follows; as `analyze`."""
        ...

    def create_table(
        self,
        table: PhysicalTable,
        snapshot: Snapshot,
        columns: tuple[tuple[str, str], ...],
        *,
        branch: str | None = None,
    ) -> None:
        """Create a physical table, with the branch that is written first; nothing if it exists."""
        ...

    def evolve_layout(self, table: PhysicalTable, snapshot: Snapshot, previous: Snapshot) -> None:
        """Give an existing table the layout of a snapshot, in place."""
        ...

    def fill(self, task: FillTask) -> FillResult:
        """Fill one range of a table in one Iceberg commit."""
        ...

    def cherry_pick(self, task: FillTask, result: FillResult) -> FillResult | None:
        """Commit to a task's base what its fill committed to its branch; no row is looked at again.

        None, and no commit, where others have changed the same files there since.
        """
        ...

    def audit(self, task: AuditTask) -> AuditResult:
        """Count and sample the rows that fail an audit."""
        ...

    def query(
        self, sql: str, limit: int | None = None
    ) -> tuple[tuple[tuple[str, str], ...], Sequence[tuple[Any, ...]]]:
        """Run a query and return its (column, type)s and its rows."""
        ...

    def query_arrow(self, sql: str, limit: int | None = None) -> pa.Table:
        """Run a query and return its rows as Arrow has them."""
        ...

    def run_statement(self, statement: str) -> None:
        """Run a statement in a session that nothing else sees."""
        ...

    def run_python(
        self,
        snapshot: Snapshot,
        sources: Mapping[ModelName, str],
        interval: Interval,
        execution_time: datetime,
        before: Sequence[str] = (),
    ) -> tuple[tuple[tuple[str, str], ...], Sequence[tuple[Any, ...]]]:
        """Run a Python model over given queries and return its (column, type)s and its rows."""
        ...

    def begin(self, plan_id: str) -> None:
        """Let a plan run again that was cancelled before."""
        ...

    def cancel(self, plan_id: str) -> object:
        """Stop everything that runs for a plan."""
        ...

    def close(self) -> None:
        """Stop the engine."""
        ...
