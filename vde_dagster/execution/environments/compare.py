"""Differences between environments and versions, and the changes of each version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.base.names import ModelName
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.metadata.commit_summaries import growth_between
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.compare_snapshots import classify_change
from vde_dagster.planning.plan.plan import Category, Change
from vde_dagster.planning.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.lakehouse.lakehouse import Lakehouse
    from vde_dagster.planning.environments.environment import Environment
    from vde_dagster.state.environments.pins import Growth, Pin, PinChange
    from vde_dagster.state.environments.versions import EnvironmentVersion
    from vde_dagster.state.store import StateStore


@dataclass(frozen=True, slots=True)
class Difference:
    """A model with different definitions in two environments or versions.

    Args:
        category: Effect of the change on data, or None.
        new: The model's snapshot in the first environment or version; `old` in the second.
    """

    name: ModelName
    change: Change
    category: Category | None
    new: Snapshot | None
    old: Snapshot | None

    @property
    def columns(self) -> dict[str, list[str]]:
        """Names of columns that are added, removed, or changed in meaning or type."""
        before = {c.name: (c.version, c.type) for c in self.old.columns} if self.old else {}
        after = {c.name: (c.version, c.type) for c in self.new.columns} if self.new else {}
        return {
            "added": [name for name in after if name not in before],
            "removed": [name for name in before if name not in after],
            "changed": [n for n, what in after.items() if n in before and before[n] != what],
        }


def compare_environments(
    handles: Handles, new: Environment, old: Environment
) -> tuple[Difference, ...]:
    now, then = ({n: e.snapshot_id for n, e in one.entries.items()} for one in (new, old))
    ids = {name: (now.get(name, ""), then.get(name, "")) for name in sorted({**now, **then})}
    ids = {name: pair for name, pair in ids.items() if pair[0] != pair[1]}
    snapshots = handles.store.snapshots.load({*chain.from_iterable(ids.values())} - {""})
    found = []
    for name, pair in ids.items():
        one, two = map(snapshots.get, pair)
        change, category = classify_change(one, two)
        found.append(Difference(name, change, category, one, two))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class DataDifference:
    """A model whose table has different Iceberg snapshots in two versions.

    Args:
        before: Number of rows in the old version; None if unknown, like all numbers here.
        after: Number of rows in the new version.
        added: Number of rows written between the versions; None if they use different tables.
        removed: Number of rows deleted or rewritten; None if they use different tables.
    """

    name: ModelName
    same_table: bool
    before: int | None
    after: int | None
    added: int | None
    removed: int | None

    def to_json(self) -> dict[str, Any]:
        return {
            "model": str(self.name),
            "same_table": self.same_table,
            "rows_before": self.before,
            "rows": self.after,
            "rows_added": self.added,
            "rows_removed": self.removed,
        }


def compare_data(
    handles: Handles, new: Environment, old: Environment
) -> tuple[DataDifference, ...]:
    """Return the models whose tables have different Iceberg snapshots in two versions."""
    pins = handles.store.pins
    now, then = (pins.at(one.name, one.version) for one in (new, old))
    found = []
    for name in sorted(new.entries.keys() & old.entries.keys()):
        one = now.get(new.entries[name].table_id or "")
        two = then.get(old.entries[name].table_id or "")
        if one is None or two is None:
            continue
        same = one.table_id == two.table_id
        if same and one.snapshot_id == two.snapshot_id:
            continue
        added, removed = _count_rows(handles, one, two) if same else (None, None)
        found.append(DataDifference(name, same, two.rows, one.rows, added, removed))
    return tuple(found)


def _count_rows(handles: Handles, new: Pin, old: Pin) -> tuple[int | None, int | None]:
    # If a commit was undone, its added rows count as removed, and its removed rows as added.
    with handles.store.database.reading() as conn:
        places = handles.store.pins.places(conn, [new.table_id])
    ref, _ = places[new.table_id]
    metadata = handles.lakehouse.table_metadata(ref)
    growth = growth_between(metadata, old.snapshot_id, new.snapshot_id)
    return growth.added, growth.removed


_NOTHING = IntervalSet()
What = Literal["definitions", "data", "both", "nothing"]


@dataclass(frozen=True, slots=True)
class DataChange:
    """A table whose rows differ between a version of an environment and the previous version.

    Args:
        is_new: Whether the previous version did not contain the table.
        is_back: Whether it is new, but an older version contained it, as after a rollback.
        rows: Number of rows; None if unknown, like all numbers here.
        added: Number of rows written after the previous version, including rewritten rows.
        removed: Number of rows deleted or rewritten after the previous version.
        intervals: Ranges that the version's plan filled (UTC).
    """

    models: tuple[ModelName, ...]
    is_new: bool
    is_back: bool
    rows: int | None
    added: int | None
    removed: int | None
    intervals: IntervalSet

    def to_json(self) -> dict[str, Any]:
        return {
            "models": [str(name) for name in self.models],
            "new": self.is_new and not self.is_back,
            "back": self.is_back,
            "rows": self.rows,
            "rows_added": self.added,
            "rows_removed": self.removed,
            "intervals": self.intervals.to_json(),
        }


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A version of an environment, with its changes from the previous version.

    Args:
        attached: Descriptions of attachments of the applied plan, such as signatures.
    """

    version: EnvironmentVersion
    data: tuple[DataChange, ...]
    attached: str = ""

    @property
    def what(self) -> What:
        """Whether definitions, data, or both changed."""
        version = self.version
        if version.added or version.changed or version.removed:
            return "both" if self.data else "definitions"
        return "data" if self.data else "nothing"


def changes_until(
    store: StateStore,
    lakehouse: Lakehouse | None,
    name: str,
    until: int | None,
    limit: int | None = None,
) -> list[VersionChange]:
    """Return the versions of an environment and their changes, newest first.

    Args:
        lakehouse: Source of changes by other writers; None leaves these changes unknown.
        until: The last version; None for the newest.
    """
    versions = store.versions.history(name, limit, until)
    if not versions:
        return []
    changes = store.pins.changes(name, versions[-1].version, versions[0].version)
    plans = {version.version: version.plan_id for version in versions}
    growths = (
        _count_rows_of_other_writers(store, lakehouse, changes) if lakehouse is not None else {}
    )
    tables = {change.table_id for change in changes}
    models: dict[str, list[tuple[int, int | None, ModelName]]] = {}
    for table_id, since, until_version, model in store.pins.models(name, tables):
        models.setdefault(table_id, []).append((since, until_version, model))
    filled = store.fills.ranges_of_plans(
        tables, {plan_id for one in changes if (plan_id := plans.get(one.version)) is not None}
    )
    found: dict[int, list[DataChange]] = {}
    for change in changes:
        shown = [
            model
            for since, end, model in models.get(change.table_id, ())
            if since <= change.version and (end is None or end > change.version)
        ]
        growth = growths.get((change.version, change.table_id))
        found.setdefault(change.version, []).append(
            DataChange(
                tuple(shown),
                change.is_new,
                change.is_back,
                change.rows,
                growth.added if growth is not None else change.added,
                growth.removed if growth is not None else change.removed,
                filled.get((change.table_id, plans.get(change.version)), _NOTHING),
            )
        )
    for data in found.values():
        data.sort(key=lambda one: one.models)
    return [VersionChange(one, tuple(found.get(one.version, ()))) for one in versions]


def _count_rows_of_other_writers(
    store: StateStore, lakehouse: Lakehouse, changes: Iterable[PinChange]
) -> dict[tuple[int, str], Growth]:
    unknown = [one for one in changes if one.added is None and not one.is_new]
    if not unknown:
        return {}
    with store.database.reading() as conn:
        places = store.pins.places(conn, {one.table_id for one in unknown})
    locations = lakehouse.metadata_locations(ref for ref, _ in places.values())
    by_table: dict[str, list[PinChange]] = {}
    for one in unknown:
        by_table.setdefault(one.table_id, []).append(one)

    def read(table_id: str) -> list[tuple[tuple[int, str], Growth]]:
        location = locations.get(places[table_id][0])
        if location is None or not lakehouse.files.exists(location):
            return []
        metadata = read_metadata(lakehouse.files, location, str(places[table_id][0]))
        return [
            ((one.version, table_id), growth_between(metadata, one.before, one.snapshot_id))
            for one in by_table[table_id]
        ]

    return {
        key: growth for some in lakehouse.files.each(read, list(places)) for key, growth in some
    }
