"""How what two versions show of a model is compared: by commits, by row lineage, or whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.model_changes import Method, ModelChanges
from vde_dagster.execution.changes.sides import Side, TableAtPin
from vde_dagster.lakehouse.change_line import change_line, field_ids
from vde_dagster.lakehouse.table_metadata import columns_of
from vde_dagster.planning.changes.columns import (
    ColumnEvent,
    ColumnPair,
    ViewColumn,
    column_events,
    pair_columns,
)
from vde_dagster.planning.changes.commits import ByCommits, ByLineage, read_by
from vde_dagster.planning.changes.query import (
    MARKS,
    Step,
    changes_query,
    is_comparable,
    no_changes,
    of_commits,
    of_lineage,
    of_versions,
)
from vde_dagster.planning.resolver import qualified

if TYPE_CHECKING:
    from vde_dagster.planning.environment import Environment


def compare_sides(
    catalog: str,
    later: Environment,
    model: ModelName,
    since: int,
    before: Side | None,
    after: Side | None,
    why: str | None = None,
    *,
    ordinal: int = 0,
    pinned_only: bool = False,
    by_commits: bool = True,
) -> ModelChanges:
    """Find out how two versions of a model are compared.

    Args:
        catalog: The Spark catalog's name.
        later: The later version.
        model: The model.
        since: The earlier version's number.
        before: What the earlier version shows; None where it does not show the model.
        after: What the later one shows; one of them is there.
        why: Why what the earlier one shows cannot be read.
        ordinal: What counts this step among others.
        pinned_only: Whether to read only what versions pin, and so no commit in between.
        by_commits: Whether Iceberg's log of changes may be read.
    """
    compared = _Comparison(
        catalog, later, model, since, before, after, ordinal, pinned_only, by_commits
    )
    return compared.changes(why)


def pair_sides(before: Side | None, after: Side) -> tuple[ColumnPair, ...]:
    """Say which column of the earlier version each column of the later one goes on from."""
    if before is None:
        return tuple(ColumnPair(column, None) for column in after.columns)
    same = _same_table(before, after) is not None
    return pair_columns(before.columns, after.columns, same_table=same)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Two sides that are compared; either is None where its version does not show the model."""

    catalog: str
    later: Environment
    model: ModelName
    since: int
    before: Side | None
    after: Side | None
    ordinal: int
    pinned_only: bool
    by_commits: bool

    def changes(self, resync: str | None) -> ModelChanges:
        before, after = self.before, self.after
        shown = after or before
        assert shown is not None
        pairs = self._pairs(shown)
        events = () if before is None or after is None else column_events(before.columns, pairs)
        found = self._result(shown, tuple(events))
        why = resync or self._why_not(shown)
        if why is not None:
            query = no_changes(shown.columns, self._step(), resync=True)
            return replace(found, method="resync", why=why, events=(), query=query)
        method, weighed = self._weighed(shown, pairs)
        if weighed is None:
            return replace(found, query=no_changes(shown.columns, self._step()))
        key = _key(shown, pairs) if before is not None and after is not None else ()
        query = changes_query(weighed, shown.columns, key, self._step())
        return replace(found, method=method, key=key, query=query)

    def _result(self, shown: Side, events: tuple[ColumnEvent, ...]) -> ModelChanges:
        own = tuple((column.name, column.type) for column in shown.columns)
        taken = {name.lower() for name, _ in own} & {name for name, _ in MARKS}
        if taken:
            raise UsageError(
                f"{self.model} has a column '{min(taken)}', which its changes have, too",
                hint="give the column another name",
            )
        return ModelChanges(
            environment=self.later.name,
            model=self.model,
            since=self.since,
            until=self.later.version,
            publication_id=self.later.publication_id,
            method="nothing",
            why=None,
            events=events,
            key=(),
            columns=(*MARKS, *own),
            query="",
        )

    def _step(self) -> Step:
        shown = self.after.shown if self.after is not None else None
        commit = shown.pin.snapshot_id if shown is not None else None
        return Step(self.ordinal, commit, self.later.version, self.later.publication_id)

    def _pairs(self, shown: Side) -> tuple[ColumnPair, ...]:
        if self.before is None or self.after is None:
            return tuple(ColumnPair(column, column) for column in shown.columns)
        return pair_sides(self.before, self.after)

    def _why_not(self, shown: Side) -> str | None:
        for side in (self.before, self.after):
            if side is not None and side.uncertain is not None:
                return side.uncertain
        for column in shown.columns:
            if not is_comparable(column.type):
                return f"rows cannot be told apart by {column.name}, which is {column.type}"
        return None

    def _weighed(self, shown: Side, pairs: Sequence[ColumnPair]) -> tuple[Method, str | None]:
        before, after = self.before, self.after
        if before is not None and after is not None:
            if before.query == after.query:
                return "nothing", None
            tables = _same_table(before, after)
            if tables is not None and _in_place(*tables, pairs):
                way = self._way(*tables)
                if isinstance(way, ByCommits) and not way.legs:
                    return "nothing", None
                if way is not None and (self.by_commits or isinstance(way, ByLineage)):
                    return self._by_table(way, tables[1], pairs)
        return "versions", of_versions(
            before.query if before is not None else None,
            after.query if after is not None else None,
            pairs,
        )

    def _way(self, one: TableAtPin, two: TableAtPin) -> ByCommits | ByLineage | None:
        lines = (change_line(two.metadata, pinned.pin.snapshot_id) for pinned in (one, two))
        return read_by(*lines, pinned_only=self.pinned_only)

    def _by_table(
        self, way: ByCommits | ByLineage, pinned: TableAtPin, pairs: Sequence[ColumnPair]
    ) -> tuple[Method, str]:
        table = qualified(pinned.table.ref, self.catalog)
        if isinstance(way, ByCommits):
            columns = [pair.after for pair in pairs]
            types = columns_of(pinned.metadata, None)
            return "commits", of_commits(way.legs, table, columns, types)
        older, newer = (_types_at(pinned, one) for one in (way.older, way.newer))
        return "lineage", of_lineage(way, table, pairs, older, newer)


def _same_table(before: Side, after: Side) -> tuple[TableAtPin, TableAtPin] | None:
    one, two = before.shown, after.shown
    if one is None or two is None or one.table.ref != two.table.ref:
        return None
    return one, two


def _schema_at(pinned: TableAtPin, snapshot_id: int | None) -> int | None:
    found = (s for s in pinned.metadata["snapshots"] if int(s["snapshot-id"]) == snapshot_id)
    snapshot = next(found, None)
    return snapshot.get("schema-id") if snapshot is not None else None


def _types_at(pinned: TableAtPin, snapshot_id: int) -> dict[str, str]:
    return columns_of(pinned.metadata, _schema_at(pinned, snapshot_id))


def _in_place(one: TableAtPin, two: TableAtPin, pairs: Sequence[ColumnPair]) -> bool:
    """Say whether rows that no commit touched are the same rows of the view.

    They are where each column is read from one place, or where it is new and its place was made
    after the earlier version's snapshot was written: then it is NULL in all of these rows.
    """
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


def _key(shown: Side, pairs: Sequence[ColumnPair]) -> tuple[str, ...]:
    """Return the first key whose columns both versions have."""
    both: dict[str, ViewColumn] = {
        pair.after.name.lower(): pair.after for pair in pairs if pair.before is not None
    }
    for key in shown.keys:
        if key and all(name in both and _may_be_key(both[name]) for name in key):
            return tuple(column.name for column in shown.columns if column.name.lower() in key)
    return ()


def _may_be_key(column: ViewColumn) -> bool:
    return not any(word in column.type.lower() for word in ("map<", "variant"))
