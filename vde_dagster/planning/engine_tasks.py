"""Tasks of an engine: fills, audits and views, as values with everything that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.resolver import Columns
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import Output
from vde_dagster.planning.tables.nested_fields import ShownFields
from vde_dagster.planning.tables.table import PhysicalTable, TableRef

if TYPE_CHECKING:
    from vde_dagster.semantics.refresh.merged import MergeableAggregate


@dataclass(frozen=True, slots=True)
class AnalysedQuery:
    """A query that an engine has analyzed.

    Args:
        columns: (column, Spark SQL type) of the query's result, in order.
        handle: The engine's own form of the query, or None.
    """

    columns: tuple[tuple[str, str], ...]
    # The handle is used by a fill that follows at once.
    handle: object = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """The keys whose rows a fill computes again.

    Args:
        key: Output columns of the query that form the key.
        query: Spark SQL that returns the keys' values, as `k0`, `k1`, …
    """

    key: tuple[str, ...]
    query: str


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The rows that a fill adds to and removes from a table.

    Args:
        query: Spark SQL of the rows, in the columns of the model's query, with 1 or -1 in
            `vde_sign`. Equal rows of both signs cancel out.
        only_added: Whether all signs are 1.
        since: The Iceberg snapshot of the model's table that the changes apply to.
    """

    query: str
    only_added: bool
    since: int | None = None


@dataclass(frozen=True, slots=True)
class ChangedGroups:
    """The values that a fill merges into a table's aggregates, group by group.

    Args:
        key, totals, count: See `semantics.refresh.merged.GroupSteps`.
        query: Spark SQL of the values to merge into each group's aggregates.
        since: The Iceberg snapshot of the model's table that the changes apply to.
    """

    key: tuple[str, ...]
    totals: tuple[MergeableAggregate, ...]
    count: str
    query: str
    since: int | None = None


Changes = ChangedKeys | ChangedRows | ChangedGroups
"""How a table's rows differ from those of its last fill."""


@dataclass(frozen=True, slots=True)
class FillTask:
    """A task to fill one range of a table, or the whole table for kinds without intervals.

    Args:
        columns: (output column of the snapshot, physical column), in physical order.
        interval: The range to fill (UTC). For a table that is written as a whole, the range
            recorded as filled.
        query: Spark SQL with parents resolved and time variables replaced; None for Python models
            and seeds.
        sources: Spark SQL queries that return the rows of each parent, for Python models.
        branch: The Iceberg branch to write to, or None for `main`.
        execution_time: The run's current time (UTC).
        before: Statements that run before the query, in a session used only by this task.
        after: Statements that run in that session after the rows are written.
        anew: Whether the fill replaces all rows of the table. Set only for kinds that otherwise
            keep earlier rows.
        digest_sets: Sets of physical columns to compute digests for.
        digest_ranges: The ranges of the interval that get separate digests.
        base: The branch that is copied to create `branch`; None to copy the table's branch.
        completes: Whether the plan fills no later interval of the table.
        changed: The changes that the fill applies, see `Meaning.refreshes`; None if it computes all
            rows.
        is_small: Whether the fill certainly reads few rows.
    """

    plan_id: str
    snapshot: Snapshot
    table: PhysicalTable
    columns: tuple[tuple[str, str], ...]
    interval: Interval
    query: str | None
    sources: dict[ModelName, str]
    branch: str | None
    execution_time: datetime
    prepared: AnalysedQuery | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    anew: bool = False
    digest_sets: tuple[Columns, ...] = ()
    digest_ranges: tuple[Interval, ...] = ()
    base: str | None = None
    completes: bool = True
    changed: Changes | None = None
    is_small: bool = False


def notebook_path(plan_id: str, table_id: str, interval: Interval) -> str:
    """Return the path in the project's folder where a fill may save its executed notebook."""
    ends = (f"{end:%Y%m%dT%H%M%S}" for end in (interval.start, interval.end))
    return f".vde/pages/{plan_id}/{'_'.join((table_id, *ends))}.ipynb"


@dataclass(frozen=True, slots=True)
class FillResult:
    """The result of one fill: its rows, commit and duration.

    Args:
        rows: Rows that the fill computed and wrote, or None if they were not counted.
        iceberg_snapshot_id: The commit with these rows; None if nothing was committed.
        seconds: Wall-clock duration; None if unknown.
        bytes: Bytes that the commit added, if its summary has this number.
        output: Digests of the written rows, if requested and computed.
        task_seconds: Total run time of the engine's tasks; None if the engine does not report it.
        bytes_read: Size of the files that the tasks scanned, without files of changed rows; None if
            the size of any file is unknown.
        notes: Warnings about the rows, shown to people who watch the fill.
        why_all: Why a task that could compute only changed rows computed all rows; otherwise empty.
    """

    rows: int | None
    iceberg_snapshot_id: int | None
    seconds: float | None
    bytes: int | None = None
    output: Output | None = None
    task_seconds: float | None = None
    bytes_read: int | None = None
    notes: tuple[str, ...] = ()
    why_all: str = ""


@dataclass(frozen=True, slots=True)
class AuditTask:
    """Task to run one audit's query.

    Args:
        query: Complete Spark SQL that returns the failing rows.
        blocking: Whether failing rows stop the publication.
        before: Statements that run before the query, in the same session.
        external: Quoted namespace and name of an external model's table; empty for other models.
    """

    plan_id: str
    model: ModelName
    audit: str
    query: str
    blocking: bool
    interval: Interval
    before: tuple[str, ...] = ()
    # A missing table counts as a failing row.
    external: str = ""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit.

    Args:
        failed_rows: Number of failing rows; 0 is success.
        sample: Up to twenty failing rows, as dictionaries of text by column.
    """

    failed_rows: int
    sample: tuple[dict[str, str | None], ...]
    seconds: float


AUTHORS_PROPERTIES = "vde.virtual-properties"
"""The view property that lists the author's `virtual_properties`."""


@dataclass(frozen=True, slots=True)
class TableForView:
    """A physical table that an environment shows as a table instead of a view.

    Args:
        columns: (published name, physical column), in the published order.
        fields: (published name, its fields) of nested columns.
    """

    ref: TableRef
    columns: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, ShownFields], ...] = ()


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view of an environment's virtual layer.

    Args:
        columns: (name, Spark SQL type, description), in the view's order.
        queries: The query by dialect, `spark` first, in each dialect that can express it.
        query_columns: The names of the query's output columns, in the query's order.
        properties: Identity of the snapshot and other properties to store with the view.
        shows: The table registered in place of a view, or None.
    """

    namespace: str
    name: str
    columns: tuple[tuple[str, str, str | None], ...]
    queries: Mapping[str, str]
    query_columns: tuple[str, ...]
    properties: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    shows: TableForView | None = None
