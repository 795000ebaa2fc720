"""Comparison of a model in two versions: by commits, by row lineage, or completely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.pinned_reads import PinnedVersion
from vde_dagster.lakehouse.metadata.commit_summaries import (
    commit_line,
    field_ids,
    identifier_columns,
)
from vde_dagster.lakehouse.metadata.table_metadata import columns_of
from vde_dagster.planning.changes.columns import (
    ColumnEvent,
    ColumnPair,
    ViewColumn,
    column_events,
    pair_columns,
)
from vde_dagster.planning.changes.comparison import CommitSpan, LineageComparison, choose_comparison
from vde_dagster.planning.changes.query import (
    CHANGE_COLUMNS,
    VersionStep,
    changes_query,
    is_comparable,
    no_changes_query,
    weigh_commits,
    weigh_lineage,
    weigh_versions,
)
from vde_dagster.planning.environments.resolver import column_map, nested_columns
from vde_dagster.planning.kinds.repeatable import explain_not_repeatable
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.reasons import describe_reason
from vde_dagster.state.environments.pins import Pin

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.environments.environment import Environment


Method = Literal["nothing", "commits", "lineage", "versions", "resync", "steps"]


@dataclass(frozen=True, slots=True)
class ModelChanges:
    """The query for the changed rows of a model between two versions of an environment.

    A copy of the earlier version becomes the later version in three steps: apply `events` to its
    columns, remove the rows marked `delete` or `update_before`, and add the rows marked `insert`
    or `update_after`.

    Args:
        since: Number of the earlier version; 0 for none.
        until: Number of the later version; `publication_id` is its publication.
        why: For `resync`, the reason why the view must be read again.
        key: Columns that pair the `update_before` and `update_after` of a row, if any.
        columns: (name, Spark SQL type) of the result.
        query: Spark SQL for the rows, for any session with the project's catalog.
        steps: Changes of each version that changed something, if requested by version.
    """

    environment: str
    model: ModelName
    since: int
    until: int
    publication_id: str
    method: Method
    why: str | None
    events: tuple[ColumnEvent, ...]
    key: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    query: str
    steps: tuple[ModelChanges, ...] = ()

    @property
    def change_columns(self) -> tuple[tuple[str, str], ...]:
        """First columns of the result, which describe a row's change (`_change_type`)."""
        return self.columns[: len(CHANGE_COLUMNS)]

    def to_json(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "model": str(self.model),
            "from": self.since,
            "to": self.until,
            "publication": self.publication_id,
            "method": self.method,
            "why": self.why,
            "columns_changed": [event.to_json() for event in self.events],
            "key": list(self.key),
            "steps": [
                {
                    "ordinal": ordinal,
                    "to": step.until,
                    "publication": step.publication_id,
                    "method": step.method,
                    "key": list(step.key),
                }
                for ordinal, step in enumerate(self.steps)
            ],
        }


def changes_without_rows(
    later: Environment, model: ModelName, since: int, columns: Sequence[ViewColumn]
) -> ModelChanges:
    """Return a `ModelChanges` for two versions with the same rows.

    Raises UsageError if a column of the model has a name that `CHANGE_COLUMNS` reserves.
    """
    # Callers replace its fields.
    own = tuple((column.name, column.type) for column in columns)
    taken = {name.lower() for name, _ in own} & {name for name, _ in CHANGE_COLUMNS}
    if taken:
        raise UsageError(
            f"the column '{min(taken)}' of {model} has a name that is reserved for changes",
            hint="rename the column",
        )
    made_by, all_columns = later.publication_id, (*CHANGE_COLUMNS, *own)
    return ModelChanges(
        *(later.name, model, since, later.version, made_by),
        method="nothing",
        why=None,
        events=(),
        key=(),
        columns=all_columns,
        query="",
    )


def pair_sides(before: Side | None, after: Side) -> tuple[ColumnPair, ...]:
    """Pair each column of the later version with the same column of the earlier version."""
    if before is None:
        return tuple(ColumnPair(column, None) for column in after.columns)
    same = _same_table(before, after) is not None
    return pair_columns(before.columns, after.columns, same_table=same)


@dataclass(frozen=True, slots=True)
class ComparedSides:
    """Two versions of a model, to be compared row by row. One of them may lack the model.

    Args:
        since: Number of the earlier version.
        why: Reason why the earlier version cannot be read.
        pinned_only: Whether to read only pinned Iceberg snapshots, not the commits between them.
        by_commits: Whether Iceberg's log of changes may be read.
    """

    catalog: str
    later: Environment
    model: ModelName
    since: int
    before: Side | None
    after: Side | None
    why: str | None = None
    ordinal: int = 0
    pinned_only: bool = False
    by_commits: bool = True

    def changes(self) -> ModelChanges:
        """Choose how to compare the two versions, and build the query for the changed rows."""
        before, after = self.before, self.after
        shown = after or before
        assert shown is not None
        pairs = tuple(ColumnPair(column, column) for column in shown.columns)
        events: tuple[ColumnEvent, ...] = ()
        if before is not None and after is not None:
            pairs = pair_sides(before, after)
            events = tuple(column_events(before.columns, pairs))
        found = changes_without_rows(self.later, self.model, self.since, shown.columns)
        found = replace(found, events=events)
        why = self.why or self._why_not_comparable(shown)
        if why is not None:
            query = no_changes_query(shown.columns, self._step(), resync=True)
            return replace(found, method="resync", why=why, events=(), query=query)
        method, weighed = self._choose_method(pairs)
        if weighed is None:
            return replace(found, query=no_changes_query(shown.columns, self._step()))
        key = _common_key(shown, pairs) if before is not None and after is not None else ()
        query = changes_query(weighed, shown.columns, key, self._step())
        return replace(found, method=method, key=key, query=query)

    def _step(self) -> VersionStep:
        shown = self.after.shown if self.after is not None else None
        commit = shown.pin.snapshot_id if shown is not None else None
        return VersionStep(self.ordinal, commit, self.later.version, self.later.publication_id)

    def _why_not_comparable(self, shown: Side) -> str | None:
        for side in (self.before, self.after):
            if side is not None and side.uncertain is not None:
                return side.uncertain
        for column in shown.columns:
            if not is_comparable(column.type):
                return f"rows cannot be identified by {column.name} of type {column.type}"
        return None

    def _choose_method(self, pairs: Sequence[ColumnPair]) -> tuple[Method, str | None]:
        before, after = self.before, self.after
        if before is not None and after is not None:
            if before.query == after.query:
                return "nothing", None
            tables = _same_table(before, after)
            if tables is not None and _has_same_untouched_rows(*tables, pairs):
                lines = (commit_line(tables[1].metadata, one.pin.snapshot_id) for one in tables)
                way = choose_comparison(*lines, pinned_only=self.pinned_only)
                if way == ():
                    return "nothing", None
                if way is not None and (self.by_commits or isinstance(way, LineageComparison)):
                    return self._compare_table(way, tables[1], pairs)
        return "versions", weigh_versions(
            before.query if before is not None else None,
            after.query if after is not None else None,
            pairs,
        )

    def _compare_table(
        self,
        way: tuple[CommitSpan, ...] | LineageComparison,
        pinned: TableAtPin,
        pairs: Sequence[ColumnPair],
    ) -> tuple[Method, str]:
        table = pinned.table.ref.quoted(self.catalog)
        if not isinstance(way, LineageComparison):
            columns = [pair.after for pair in pairs]
            types = columns_of(pinned.metadata, None)
            return "commits", weigh_commits(way, table, columns, types)
        schemas = (_schema_at(pinned, one) for one in (way.older, way.newer))
        older, newer = (columns_of(pinned.metadata, schema) for schema in schemas)
        return "lineage", weigh_lineage(way, table, pairs, older, newer)


def _same_table(before: Side, after: Side) -> tuple[TableAtPin, TableAtPin] | None:
    one, two = before.shown, after.shown
    if one is None or two is None or one.table.ref != two.table.ref:
        return None
    return one, two


def _schema_at(pinned: TableAtPin, snapshot_id: int | None) -> int | None:
    found = (s for s in pinned.metadata["snapshots"] if int(s["snapshot-id"]) == snapshot_id)
    snapshot = next(found, None)
    return snapshot.get("schema-id") if snapshot is not None else None


def _has_same_untouched_rows(one: TableAtPin, two: TableAtPin, pairs: Sequence[ColumnPair]) -> bool:
    # They are the same if every column is unchanged or new. An unchanged column reads the same
    # physical column as before. A new column reads a physical column that was created after the
    # earlier snapshot, so it is NULL in all of these rows.
    metadata = two.metadata
    now = field_ids(metadata, None)
    then, later = (field_ids(metadata, side.pin.schema_id) for side in (one, two))
    written: dict[str, int] = {}
    if one.pin.snapshot_id is not None:
        written = field_ids(metadata, _schema_at(two, one.pin.snapshot_id))
    for pair in pairs:
        place = pair.after.place or ""
        field = now.get(place)
        if field is None or later.get(place) != field:
            return False
        if pair.before is None:
            if field in written.values():
                return False
        elif pair.before.place != place or then.get(place) != field:
            return False
    return True


def _common_key(shown: Side, pairs: Sequence[ColumnPair]) -> tuple[str, ...]:
    both = {
        pair.after.name.lower()
        for pair in pairs
        if pair.before is not None
        and not any(word in pair.after.type.lower() for word in ("map<", "variant"))
    }
    for key in shown.keys:
        if key and key <= both:
            return tuple(column.name for column in shown.columns if column.name.lower() in key)
    return ()


class TableAtPin(NamedTuple):
    table: PhysicalTable
    pin: Pin
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """A model in one of two compared versions: its query and columns.

    Args:
        query: Spark SQL for its rows in this version.
        keys: Column sets that identify rows, declared keys first.
        shown: Table that serves the model; None if a query serves it.
        uncertain: Reason why the query could return other rows than the version had, or None.
    """

    query: str
    columns: tuple[ViewColumn, ...]
    keys: tuple[frozenset[str], ...]
    shown: TableAtPin | None
    uncertain: str | None


def read_side(
    handles: Handles, version: Environment, name: ModelName, reader: PinnedVersion | None = None
) -> Side | None:
    """Build the query that reads a model in a version. Returns None if the version lacks the model.

    Args:
        reader: The version's data, if already read.

    Raises:
        UsageError: The version's data is unknown or deleted, or the model is not published.
    """
    entry = version.entries.get(name)
    if entry is None:
        return None
    reader = reader or PinnedVersion(handles, version)
    query = reader.relation(name)
    snapshot = reader.snapshots[entry.snapshot_id]
    if query is None or not snapshot.model.kind.is_shown:
        raise UsageError(
            f"{name} is of kind {snapshot.model.kind.name} and is not published",
            hint="read the changes of a model that reads it",
        )
    keys = [frozenset(name.lower() for name in grain) for grain in snapshot.model.grains]
    keys += sorted(snapshot.version.unique_keys, key=lambda key: (len(key), sorted(key)))
    if entry.table_id is None:
        types = handles.engine().analyze(query)
        made = snapshot.version.columns
        columns = tuple(
            ViewColumn(column, type_, made.get(column.lower(), "")) for column, type_ in types
        )
        return Side(query, columns, tuple(keys), None, _why_uncertain(reader, snapshot))
    table = reader.tables[entry.table_id]
    assert reader.pins is not None
    metadata = handles.lakehouse.table_metadata(table.ref)
    shown = TableAtPin(table, reader.pins[table.id], metadata)
    columns = _table_columns(snapshot, shown)
    named = {column.place: column.name.lower() for column in columns}
    identifiers = identifier_columns(metadata)
    if identifiers and all(place in named for place in identifiers):
        keys.append(frozenset(named[place] for place in identifiers))
    return Side(query, columns, tuple(keys), shown, None)


def _table_columns(snapshot: Snapshot, shown: TableAtPin) -> tuple[ViewColumn, ...]:
    types = columns_of(shown.metadata, shown.pin.schema_id)
    versions = {column.name: column.version for column in snapshot.columns}
    fields = nested_columns(snapshot, shown.table)
    return tuple(
        ViewColumn(
            output,
            fields[output].shown if output in fields else types[place],
            versions[output],
            place,
            fields.get(output),
        )
        for output, place in column_map(snapshot, shown.table)
    )


def _why_uncertain(reader: PinnedVersion, snapshot: Snapshot) -> str | None:
    if reader.live:
        tables = ", ".join(sorted(map(str, reader.live)))
        return f"it reads external tables ({tables}), which versions do not pin"
    by_name = {one.name: one for one in reader.snapshots.values()}
    why = explain_not_repeatable(snapshot, by_name)
    return f"its query {describe_reason(why)}" if why is not None else None
