"""Changes of definitions, data, or both, by version of an environment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.base.names import ModelName
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.publishing.pins import growth_between
from vde_dagster.planning.intervals.interval import IntervalSet

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse
    from vde_dagster.state import StateStore
    from vde_dagster.state.environments.pin_history import PinChange
    from vde_dagster.state.environments.pins import Growth
    from vde_dagster.state.environments.versions import EnvironmentVersion


_NOTHING = IntervalSet()
What = Literal["definitions", "data", "both", "nothing"]


@dataclass(frozen=True, slots=True)
class DataChange:
    """A table whose rows a version of an environment shows otherwise than the one before.

    Args:
        is_new: Whether the version before did not show it.
        is_back: Whether one before that did, as after a rollback.
        rows: Rows in it; like all numbers here, when known.
        added: Rows that were written since; one that is written anew counts twice.
        removed: Rows that were deleted or written anew.
        intervals: What the version's plan filled (UTC).
    """

    models: tuple[ModelName, ...]
    is_new: bool
    is_back: bool
    rows: int | None
    added: int | None
    removed: int | None
    intervals: IntervalSet

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
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
    """A version with what it changed."""

    version: EnvironmentVersion
    data: tuple[DataChange, ...]

    @property
    def what(self) -> What:
        """Whether definitions changed, data, or both."""
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
    """Return versions of an environment up to one, with what each changed, newest first.

    Args:
        lakehouse: Where metadata say what tables gained that others moved; without it that is
            not known.
        until: The last version; None for the newest.
    """
    versions = store.versions.history(name, limit, until)
    if not versions:
        return []
    changes = store.pin_history.changes(name, versions[-1].version, versions[0].version)
    plans = {version.version: version.plan_id for version in versions}
    growths = _growths(store, lakehouse, changes) if lakehouse is not None else {}
    tables = {change.table_id for change in changes}
    models: dict[str, list[tuple[int, int | None, ModelName]]] = {}
    for table_id, since, until_version, model in store.pin_history.models(name, tables):
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


def _growths(
    store: StateStore, lakehouse: Lakehouse, changes: Iterable[PinChange]
) -> dict[tuple[int, str], Growth]:
    """Count what tables gained that others moved, from their metadata as far as it goes back."""
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
