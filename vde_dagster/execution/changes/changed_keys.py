"""Changes of a model's rows, derived from the rows that the model's inputs gained and lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.lakehouse.metadata.commit_summaries import commit_line
from vde_dagster.lakehouse.metadata.table_metadata import columns_of, reads_same_columns
from vde_dagster.planning.changes.columns import ColumnPair, ViewColumn, is_same_type_text
from vde_dagster.planning.changes.comparison import CommitSpan, LineageComparison, choose_comparison
from vde_dagster.planning.changes.query import (
    is_comparable,
    net_rows_query,
    vary_changelog_names,
    weigh_commits,
    weigh_lineage,
    weigh_versions,
)
from vde_dagster.planning.engine_tasks import ChangedGroups, ChangedKeys, ChangedRows, Changes
from vde_dagster.planning.environments.resolver import TableRead
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.kinds.repeatable import explain_not_repeatable
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import InputState
from vde_dagster.planning.tables.pinned_reads import PinnedTable, pinned_select
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.reasons import describe_reason

if TYPE_CHECKING:
    from vde_dagster.execution.plan_tasks import PlanTasks
    from vde_dagster.semantics.refresh.methods import Refresh
    from vde_dagster.semantics.refresh.steps import State


States = Mapping[str, InputState]
_FLOATS = ("float", "double")


class ComputesAllError(Exception):
    """Raised if a fill must compute all rows of its table, because any row may have changed.

    Args:
        lost: Whether the only reason is that an Iceberg snapshot of the last fill was deleted.
    """

    def __init__(self, why: str, *, lost: bool = False) -> None:
        super().__init__(why)
        self.lost = lost


@dataclass(frozen=True, slots=True)
class LastRead:
    """State of an input table at the last fill that read it.

    Args:
        other: The table that the last fill read, if the input model has a new table now.
    """

    state: InputState
    other: PhysicalTable | None = None

    def has_changed(self, now: InputState) -> bool:
        """Check whether the input table may contain other rows now."""
        return self.other is not None or not self.state.has_same_rows(now)


def find_changed_rows(
    tasks: PlanTasks, filler: Snapshot, reads: Sequence[TableRead], seen: States, now: States
) -> Changes:
    """Build the query for the rows to recompute after input changes since the table's last fill.

    Args:
        seen: Inputs of the last fill by table; empty if they are unknown.

    Raises:
        ComputesAllError: Any row may have changed, or the changed rows cannot be determined.
    """
    # Any row may have changed if the definition reads a table for the first time, or if the
    # snapshot that the last fill read no longer exists.
    if not seen:
        raise ComputesAllError("the inputs of the model's last fill are unknown")
    from vde_dagster.semantics.refresh.linear import RowSteps
    from vde_dagster.semantics.refresh.merged import GroupSteps

    why = explain_not_repeatable(filler, tasks.plan.target)
    query = tasks.plain_query(filler)
    if query is None or why is not None:
        raise ComputesAllError(f"it {describe_reason(why or Reason(ReasonCode.PYTHON))}")
    earlier = read_last_inputs(tasks, reads, seen)
    for read in reads:
        if read.key not in now or now[read.key].read_id is None:
            raise ComputesAllError(f"{table_name(tasks, read)} has no snapshot to read")
    moved = [read for read in reads if earlier[read.key].has_changed(now[read.key])]
    if not moved:
        raise ComputesAllError("no input of the model has changed")
    inputs = {
        spell_table(tasks.catalog, read): _Input(tasks, read, earlier[read.key], now[read.key])
        for read in reads
    }
    changed = [spell_table(tasks.catalog, read) for read in moved]
    for table, one in inputs.items():
        one.check_columns(changed=table in changed)
    only_added = all(inputs[table].only_added for table in changed)
    steps = _find_refresh(filler, query, inputs, changed, only_added)

    def relation(table: str, state: State) -> str:
        return inputs[table].rows(state if table in changed else "now")

    sql = vary_changelog_names(steps.write(relation))
    if isinstance(steps, RowSteps):
        return ChangedRows(sql, only_added)
    if isinstance(steps, GroupSteps):
        return ChangedGroups(steps.key, steps.totals, steps.count, sql)
    return ChangedKeys(steps.key, sql)


def _find_refresh(
    filler: Snapshot,
    query: str,
    inputs: Mapping[str, _Input],
    changed: Sequence[str],
    only_added: bool,
) -> Refresh:
    from vde_dagster.semantics.refresh.methods import find_refresh
    from vde_dagster.semantics.refresh.qualified import NotRefreshableError

    key, unique = meaning_of(filler.model.kind).changed_by(filler.model), filler.version.unique_keys
    schema = {name: one.types for name, one in inputs.items()}
    try:
        return find_refresh(
            *(query, schema, changed),
            {column.name.lower(): column.type or "" for column in filler.computed_columns},
            only_added=only_added,
            exact=all(inputs[table].has_numbers for table in changed),
            key=key,
            unique=unique,
        )
    except NotRefreshableError as why:
        text = str(why)
        for name, one in inputs.items():
            text = text.replace(name, table_name(one.tasks, one.read))
        raise ComputesAllError(text) from None


def read_last_inputs(
    tasks: PlanTasks, reads: Sequence[TableRead], seen: States
) -> dict[str, LastRead]:
    """Return the state of each input table at the last fill.

    If an input model has a new table since then, the state of the earlier table is returned.

    Raises:
        ComputesAllError: The last fill read a table that the model no longer reads. Or one of
            `reads` is new, and the last fill did not read exactly one earlier table of the same
            input model.
    """
    found = {read.key: LastRead(seen[read.key]) for read in reads if read.key in seen}
    others = {key for key in seen if key not in found}
    for read in reads:
        if read.key in found:
            continue
        name = _table_model(tasks, read)
        tables = tasks.handles.store.tables.own_tables(name) if name is not None else []
        known = [one for one in tables if one.id in others]
        if len(known) != 1:
            gone = ", and the table that the last fill read no longer exists" if others else ""
            why = f"{table_name(tasks, read)} has another table now{gone}"
            raise ComputesAllError(why, lost=bool(others))
        others.discard(known[0].id)
        found[read.key] = LastRead(seen[known[0].id], known[0])
    if others:
        raise ComputesAllError("the model no longer reads all tables that its last fill read")
    return found


def table_name(tasks: PlanTasks, read: TableRead) -> str:
    """Return the name of a table's model, or else the table's own name, for messages."""
    return str(_table_model(tasks, read) or read.ref)


def _table_model(tasks: PlanTasks, read: TableRead) -> ModelName | None:
    entries = tasks.target.entries.items()
    return next((name for name, entry in entries if entry.table_id == read.key), None)


def spell_table(catalog: str, read: TableRead) -> str:
    """Return a table's full name in lower case, such as `lakehouse.raw.orders`."""
    return f"{catalog}.{read.ref}".lower()


class _Input:
    def __init__(self, tasks: PlanTasks, read: TableRead, was: LastRead, now: InputState) -> None:
        self.tasks, self.read = tasks, read
        self._last, self._now = was, now
        self._metadata = tasks.handles.lakehouse.table_metadata(read.ref)
        self.types = columns_of(self._metadata, None)
        columns = tuple(self.types)
        self._read = columns if read.columns is None else read.columns or columns[:1]
        self._schema_ids = _schema_ids(self._metadata)

    @property
    def _name(self) -> str:
        return table_name(self.tasks, self.read)

    @property
    def _columns(self) -> list[ViewColumn]:
        return [ViewColumn(name, self.types[name], "", name) for name in self._read]

    def check_columns(self, *, changed: bool) -> None:
        """Raise ComputesAllError if the columns that the model reads differ between schemas.

        The table's current schema is compared with the schema of the Iceberg snapshot to read.

        Args:
            changed: Whether the table's rows may have changed since the last fill. If so, and if
                the last fill read this table, the schema at that fill is compared, too.
        """
        ids, since, now = self._schema_ids, self._last.state.read_id, self._now.read_id
        metadata, is_other = self._metadata, self._last.other is not None
        same = reads_same_columns(metadata, ids.get(now), self._read, or_new=False)
        if same and changed and not is_other and since in ids:
            same = reads_same_columns(metadata, ids[since], self._read, or_new=True)
        if not same:
            raise ComputesAllError(f"the columns of {self._name} have changed")

    def rows(self, state: State) -> str:
        # Columns that the model's query does not read are NULL.
        if state in ("changed", "signed"):
            rows = self._select_changed(signed=state == "signed")
        elif state == "now":
            rows = self._select_pinned(self._now.read_id)
        else:
            rows = (
                self._select_from_replaced_table()
                if self._last.other
                else self._select_pinned(self._last.state.read_id)
            )
        unread = [name for name in self.types if name not in self._read]
        if not unread:
            return rows
        nothing = ", ".join(f"CAST(NULL AS {self.types[name]}) AS {quote(name)}" for name in unread)
        return f"SELECT *, {nothing} FROM ({rows}) AS read"

    @property
    def only_added(self) -> bool:
        if self._last.other or self._last.state.schema_id != self._now.schema_id:
            return False
        since = self._last.state.read_id
        line = commit_line(self._metadata, self._now.read_id, self.read.key)
        later = list(takewhile(lambda commit: commit.snapshot_id != since, line))
        return len(later) < len(line) and all(one.quiet or one.appends for one in later)

    @property
    def has_numbers(self) -> bool:
        from vde_dagster.semantics.refresh.trees import has_exact_equality

        types = [self.types.get(name, "") for name in self._read]
        grouped = all(has_exact_equality(one) or one.lower() in _FLOATS for one in types)
        return grouped or self._has_plain_commits

    @property
    def _has_plain_commits(self) -> bool:
        return self.only_added and isinstance(self._find_commits(), tuple)

    def _select_changed(self, *, signed: bool) -> str:
        weighed = (
            self._count_changes_of_replacement() if self._last.other else self._count_changes()
        )
        pairs = enumerate(self._read)
        listed = ", ".join(f"c{number} AS {quote(name)}" for number, name in pairs)
        if self._has_plain_commits:
            sign = ", w AS vde_sign" if signed else ""
            return f"SELECT {listed}{sign} FROM ({weighed}) AS came"
        net = net_rows_query(weighed, self._columns, signed_zeros=True)
        if not signed:
            return f"SELECT {listed} FROM ({net}) AS net"
        return (
            f"SELECT {listed}, IF(w > 0, 1, -1) AS vde_sign FROM ({net}) AS net "
            "LATERAL VIEW explode(sequence(1, abs(w))) AS one"
        )

    def _select_pinned(self, snapshot: int | None) -> str:
        there = columns_of(self._metadata, self._schema_ids.get(snapshot))
        pinned = PinnedTable(snapshot, self.types, there)
        listed = [(name, name) for name in self._read]
        return pinned_select(self.read.ref.quoted(self.tasks.catalog), pinned, listed)

    def _check_types(self) -> None:
        for name in self._read:
            if name not in self.types or not is_comparable(self.types[name]):
                raise ComputesAllError(
                    f"{self._name} has a column {name} whose values cannot be compared"
                )

    def _count_changes(self) -> str:
        self._check_types()
        since, until = self._last.state.read_id, self._now.read_id
        if self._last.state.schema_id != self._now.schema_id:
            raise ComputesAllError(f"the columns of {self._name} have changed")
        if since not in self._schema_ids or until not in self._schema_ids:
            why = f"the state of {self._name} that was read is no longer kept"
            raise ComputesAllError(why, lost=True)
        metadata, columns = self._metadata, self._columns
        pairs = [ColumnPair(column, column) for column in columns]
        way, table = self._find_commits(), self.read.ref.quoted(self.tasks.catalog)
        if way is None:
            return weigh_versions(self._select_pinned(since), self._select_pinned(until), pairs)
        if isinstance(way, LineageComparison):
            states = [columns_of(metadata, self._schema_ids[one]) for one in (since, until)]
            older, newer = states if way.forwards else states[::-1]
            return weigh_lineage(way, table, pairs, older, newer)
        if way:
            return weigh_commits(way, table, columns, self.types)
        return weigh_versions(None, f"SELECT * FROM {table} WHERE false", pairs)

    def _find_commits(self) -> tuple[CommitSpan, ...] | LineageComparison | None:
        ends = (self._last.state.read_id, self._now.read_id)
        return choose_comparison(*(commit_line(self._metadata, one, self.read.key) for one in ends))

    def _count_changes_of_replacement(self) -> str:
        self._check_types()
        pairs = [ColumnPair(column, column) for column in self._columns]
        return weigh_versions(
            self._select_from_replaced_table(), self._select_pinned(self._now.read_id), pairs
        )

    def _select_from_replaced_table(self) -> str:
        tasks, old = self.tasks, self._last.other
        assert old is not None
        new = {**tasks.target.tables, **tasks.written.tables}[self.read.key]
        found = tasks.handles.lakehouse.find_table(old.ref)
        kept = _schema_ids(found.metadata) if found is not None else {}
        read_id = self._last.state.read_id
        if found is None or read_id not in kept:
            gone = "the state that the last fill read no longer exists"
            raise ComputesAllError(f"{self._name} has another table now, and {gone}", lost=True)
        had = columns_of(found.metadata, kept[read_id])
        places, versions = old.column_named_by_version(), {c.name: c.version for c in new.columns}
        listed = []
        for name in self._read:
            place = places.get(versions.get(name, ""), "")
            if not is_same_type_text(had.get(place, ""), self.types[name]):
                raise ComputesAllError(
                    f"{self._name} has another table now: its column {name} differs"
                )
            listed.append((name, place))
        return pinned_select(old.ref.quoted(tasks.catalog), PinnedTable(read_id), listed)


def _schema_ids(metadata: dict[str, Any]) -> dict[int | None, int | None]:
    return {int(one["snapshot-id"]): one.get("schema-id") for one in metadata["snapshots"]}
