"""Holds: Iceberg snapshots that are kept because models still have to read later changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import listed
from vde_dagster.base.times import instant_text
from vde_dagster.planning.changes.refresh import Refresh
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.pinned_reads import Input

if TYPE_CHECKING:
    from vde_dagster.state.store import StateStore


@dataclass(frozen=True, slots=True)
class Hold:
    """An Iceberg snapshot that a model needs, because its next fill reads all later changes.

    Args:
        at: Time (UTC) of the model's last recorded fill, or of a later check that found no changes.
        lapsed: Whether `at` is so long ago that the snapshot is not kept for the model.
    """

    model: ModelName
    snapshot_id: int
    at: datetime
    lapsed: bool

    @property
    def text(self) -> str:
        """Text such as `marts.totals, which last read the table at 2026-11-01 06:00`."""
        return f"{self.model}, which last read the table at {instant_text(self.at)}"


Holds = Mapping[str, Collection[Hold]]
"""Holds by the id of the table that is read."""


def find_holds(store: StateStore, reached: Collection[str], longest: timedelta) -> Holds:
    """Find the Iceberg snapshots that models need (see `Hold`), by id of the table that is read.

    Args:
        reached: Ids of reachable tables. Fills of other tables are ignored.
        longest: Age of a model's last fill after which the model's holds are lapsed.
    """
    oldest = store.database.clock.now() - longest
    tables = store.tables.load(reached)
    # A definition that cannot be read fills nothing more.
    definitions = store.snapshots.load({t.snapshot_id for t in tables.values()}, None, set())
    readers = {
        key: definitions[table.snapshot_id]
        for key, table in tables.items()
        if table.snapshot_id in definitions
    }
    found: dict[str, list[Hold]] = {}
    for table_id, last in sorted(store.fills.latest(readers).items()) if readers else ():
        if not _continues(readers[table_id], last.facts.refresh):
            continue
        for key, state in (last.facts.inputs or {}).items():
            if state.read_id is not None:
                lapsed = last.recorded_at < oldest
                hold = Hold(readers[table_id].name, state.read_id, last.recorded_at, lapsed)
                found.setdefault(key, []).append(hold)
    return found


def _continues(snapshot: Snapshot, last: Refresh | None) -> bool:
    meaning = meaning_of(snapshot.model.kind)
    if Input.BY_COMMITS in meaning.inputs(snapshot.model).values():
        return True
    if meaning.refreshes(snapshot.model) and not meaning.chooses(snapshot.model):
        return True
    # A fill of a model that chooses reads no changes while its inputs are small. The property may
    # also be newer than the definition with which the table was created.
    return last is not None and not last.is_routine


def describe_holds(holds: Collection[Hold]) -> str:
    """List the models that need a snapshot, such as `m.a, which last read the table at …`."""
    return listed([hold.text for hold in holds])
