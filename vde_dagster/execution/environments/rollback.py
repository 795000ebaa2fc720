"""Publication of an earlier version of an environment."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.execution.apply.publish import define_views, dropped_views
from vde_dagster.execution.environments.restore_data import (
    RestoredData,
    RevertedModel,
    find_restored_data,
    reverted,
)
from vde_dagster.execution.events import VirtualUpdateRan
from vde_dagster.execution.plans.gather_state import complete_state
from vde_dagster.lakehouse.publishing.mirror import unmirrored
from vde_dagster.lakehouse.publishing.publication import Holding, Publication
from vde_dagster.planning.environments.environment import Entry, Environment, HeldState
from vde_dagster.planning.environments.warehouse_state import WarehouseState
from vde_dagster.planning.intervals.cadence import ALWAYS
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.missing_intervals import (
    Window,
    infer_starts,
    missing_intervals,
    partly_filled_units,
)
from vde_dagster.planning.rendering.views import statements_after_publication, view_refs
from vde_dagster.planning.snapshots.snapshot import Snapshot, sort_parents_first

if TYPE_CHECKING:
    from datetime import datetime

    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.tables.table import Part, PhysicalTable, TableRef
    from vde_dagster.state.store import StateStore


@dataclass(frozen=True, slots=True)
class RestoredView:
    """A view that a rollback creates (without `before`), replaces, or drops (without `after`)."""

    name: ModelName
    before: str | None
    after: str | None

    @property
    def change(self) -> Literal["created", "replaced", "dropped"]:
        if self.before is None:
            return "created"
        return "dropped" if self.after is None else "replaced"


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """The changes that a rollback made, or would make in a dry run.

    Args:
        environment: The environment's new version, equal to an old one.
        restored: Number of the old version.
        missing: Ranges of changed models to compute with `vde run`.
        reverted: Models whose tables were changed in place after the old version.
        moved: Models whose tables move back, with the number of rows afterwards if known.
        held: Models pinned until the next plan or run, because other environments use their tables.
        holding: Models that other environments pin at the current data, by environment.
        definitions_only: Whether the data stays unchanged.
        base_version: The environment's version before the rollback.
        rows_before: Number of rows of the models in `moved` before the rollback, if known.
        unchanged: Models whose views and data stay as they are.
    """

    environment: Environment
    restored: int
    # The old version had not filled these ranges, or their input rows no longer exist.
    missing: dict[ModelName, IntervalSet]
    failed_statements: tuple[VirtualUpdateRan, ...] = ()
    reverted: tuple[RevertedModel, ...] = ()
    moved: dict[ModelName, int | None] = field(default_factory=dict)
    held: tuple[ModelName, ...] = ()
    holding: dict[str, tuple[ModelName, ...]] = field(default_factory=dict)
    definitions_only: bool = False
    base_version: int = 0
    views: tuple[RestoredView, ...] = ()
    rows_before: dict[ModelName, int | None] = field(default_factory=dict)
    unchanged: tuple[ModelName, ...] = ()


def find_partly_filled(publication: Publication) -> Iterator[tuple[str, Part]]:
    """Yield (table id, interval) of the partly filled intervals of tables that move back."""
    filled = {one.table_id: one.filled for one in publication.returns}
    for entry in publication.environment.entries.values():
        snapshot = publication.snapshots.get(entry.snapshot_id)
        if snapshot is not None and entry.table_id in filled:
            for part in partly_filled_units(snapshot, filled[entry.table_id]):
                yield entry.table_id, part


@dataclass(frozen=True, slots=True)
class Rollback:
    """Prepares the publication of an earlier version of an environment."""

    handles: Handles
    name: str
    version: int | None
    who: str
    definitions_only: bool

    def prepare(self) -> tuple[Publication, RollbackResult]:
        """Determine the views and tables to publish, without changing anything."""
        handles, store = self.handles, self.handles.store
        current = store.environments.get(self.name)
        assert current is not None
        found = _find_version(handles, current, self.version, data=not self.definitions_only)
        back = (
            RestoredData() if self.definitions_only else find_restored_data(handles, current, found)
        )
        moved = handles.lakehouse.moved_views(self.name)
        # Views of old versions are where the setting of their time placed them.
        suffix = handles.settings.environment_suffix_target
        mode = handles.settings.virtual_environment_mode
        old = replace(found, suffix=suffix, mode=mode, entries=_with_pins(found.entries, back.held))
        if not old.views.same_as(current.views):
            moved |= {current.views.ref(name) for name in current.entries}
            moved |= {old.views.ref(name) for name in old.entries}
        moved |= unmirrored(handles.lakehouse, map(old.views.ref, old.entries))
        part = _select_needed_models(store, current, old, moved, back.names)
        state = complete_state(store, part, None, ())
        _check_tables(part, state)
        resolver = state.resolver(part)
        own = view_refs(resolver)
        definitions = sort_parents_first(
            {name: state.snapshots[entry.snapshot_id] for name, entry in part.entries.items()}
        )
        differing = _models_with_new_views(current, part, definitions)
        in_place = reverted(store, current, part, state, differing, back.moved)
        # The other views are already as they should be.
        changed = differing | {name for name, ref in own.items() if ref in moved}
        if resolver.views.are_tables:
            changed |= back.moved
        views = define_views(resolver, handles, changed)
        kept = {old.views.ref(name) for name in old.entries.keys() - part.entries.keys()}
        now, kept_for = store.database.clock.now(), handles.settings.time_to_live(self.name)
        environment = replace(
            old,
            version=current.version + 1,
            publication_id=uuid.uuid4().hex,
            plan_id=None,
            published_at=now,
            published_by=self.who,
            expires_at=now + kept_for if kept_for and current.expires_at else current.expires_at,
            note=f"rollback to {old.version}{', definitions only' * self.definitions_only}",
        )
        publication = Publication(
            environment=environment,
            base_version=current.version,
            views=views,
            dropped=dropped_views(current, kept | set(own.values())),
            statements=statements_after_publication(
                resolver, current, handles.settings.catalog, now
            ),
            returns=tuple(sorted(back.returns.values(), key=lambda one: str(one.ref))),
            sources=() if self.definitions_only else ((self.name, old.version),),
            changed=back.as_change(),
            snapshots=state.snapshots,
            holding=tuple(
                self._pin_current_tables(name, back, now) for name in sorted(back.others)
            ),
        )
        filled = {one.table_id: one.filled for one in back.returns.values()}
        rows = dict(sorted(back.model_rows().items()))
        replaced = {name: own[name] for name in changed if name in own}
        restored = tuple(_restored_views(store, current, old, state, replaced))
        held = tuple(sorted(name for one in back.held for name in back.models[one]))
        touched = {one.name for one in restored} | back.names | {*held}
        result = RollbackResult(
            environment,
            old.version,
            _missing_ranges(handles, part, definitions, state, differing | back.names, filled),
            (),
            in_place,
            {name: after for name, (_, after) in rows.items()},
            held,
            {
                one.name: tuple(sorted(n for n, e in one.entries.items() if e.table_id in tables))
                for one in (holding.environment for holding in publication.holding)
                for tables in [back.others[one.name]]
            },
            self.definitions_only,
            current.version,
            restored,
            {name: before for name, (before, _) in rows.items()},
            tuple(sorted(old.entries.keys() - touched)),
        )
        return publication, result

    def _pin_current_tables(self, name: str, back: RestoredData, now: datetime) -> Holding:
        handles, store = self.handles, self.handles.store
        other = store.environments.get(name)
        if other is None:
            raise ConflictError(
                f"environment '{name}' was dropped meanwhile",
                hint=f"roll back again: vde rollback {self.name}",
            )
        state = complete_state(store, other, None, ())
        made = replace(
            other,
            version=other.version + 1,
            entries=_with_pins(other.entries, back.others[name]),
            publication_id=uuid.uuid4().hex,
            plan_id=None,
            published_at=now,
            published_by=self.who,
            note=f"keeps its data: {self.name} was rolled back",
        )
        return Holding(made, other.version, define_views(state.resolver(made), handles))


def _with_pins(
    entries: Mapping[ModelName, Entry], held: Mapping[str, HeldState]
) -> dict[ModelName, Entry]:
    return {
        name: replace(entry, held=entry.held or held.get(entry.table_id or ""))
        for name, entry in entries.items()
    }


def _find_version(
    handles: Handles, current: Environment, version: int | None, *, data: bool
) -> Environment:
    store = handles.store
    if version is not None:
        old = store.versions.at(current.name, version)
        if version == current.version and not handles.lakehouse.moved_views(current.name):
            raise UsageError(
                f"environment '{current.name}' is already at version {version}",
                hint=f"choose an earlier version from: vde history {current.name}",
            )
        if old is None or version > current.version:
            kept = [str(v.version) for v in store.versions.history(current.name)]
            raise UsageError(
                f"environment '{current.name}' has no earlier version {version}",
                hint=f"its versions are {', '.join(kept)}",
            )
        if store.versions.is_end(current.name, version):
            raise UsageError(
                f"version {version} of '{current.name}' is empty, because the environment was "
                "dropped then",
                hint=f"choose an earlier version from: vde history {current.name}",
            )
        return old
    now = _pinned_snapshot_ids(store, current) if data else {}
    for number in store.versions.differing(current.name, current.version, data=data):
        if data and store.versions.is_before_end(current.name, number):
            break
        old = store.versions.at(current.name, number)
        other = old is not None and old.entries != current.entries
        if old is not None and (other or (data and _pinned_snapshot_ids(store, old) != now)):
            return old
    raise UsageError(
        f"environment '{current.name}' has no earlier version that differs from the current one",
        hint=f"to list versions, run: vde history {current.name}",
    )


def _pinned_snapshot_ids(store: StateStore, version: Environment) -> dict[str, int | None]:
    pins = store.pins.at(version.name, version.version)
    return {table_id: pin.snapshot_id for table_id, pin in pins.items()}


def _check_tables(old: Environment, state: WarehouseState) -> None:
    gone = [
        str(name)
        for name, entry in old.entries.items()
        if entry.table_id is not None and entry.table_id not in state.tables
    ]
    if gone:
        raise UsageError(
            f"version {old.version} of '{old.name}' cannot be restored: the tables of "
            f"{', '.join(gone)} were cleaned up",
            hint="check out the code of that time and plan it instead",
        )


def _select_needed_models(
    store: StateStore,
    current: Environment,
    old: Environment,
    moved: set[TableRef],
    returning: Collection[ModelName],
) -> Environment:
    # The rollback needs models whose entry differs, models without a table, models whose view
    # another program changed, and models whose table moves back. If a needed model has no table,
    # the queries of its parents are needed, too. If it declares no start, the starts of its parents
    # are needed.
    waiting = {
        name
        for name, entry in old.entries.items()
        if current.entries.get(name) != entry
        or entry.table_id is None
        or name in returning
        or old.views.ref(name) in moved
    }
    needed: set[ModelName] = set()
    while waiting:
        needed |= waiting
        found = store.snapshots.load(old.entries[name].snapshot_id for name in waiting)
        read = ((old.entries[name], found[old.entries[name].snapshot_id]) for name in waiting)
        parents = {
            parent
            for entry, snapshot in read
            if entry.table_id is None
            or (snapshot.model.start is None and snapshot.model.relative_start is None)
            for parent in snapshot.parents
        }
        waiting = (parents & old.entries.keys()) - needed
    entries = {name: entry for name, entry in old.entries.items() if name in needed}
    return replace(old, entries=entries)


def _restored_views(
    store: StateStore,
    current: Environment,
    old: Environment,
    state: WarehouseState,
    replaced: Collection[ModelName],
) -> Iterator[RestoredView]:
    names = sorted({*replaced} | (current.entries.keys() - old.entries.keys()))
    entries = {name: current.entries[name] for name in names if name in current.entries}
    snapshots = store.snapshots.load({one.snapshot_id for one in entries.values()})
    tables = store.tables.load({one.table_id for one in entries.values() if one.table_id})

    def version(snapshot: Snapshot, table: PhysicalTable | None) -> str | None:
        if not snapshot.model.kind.is_shown:
            return None
        return table.version if table is not None else snapshot.table_version

    for name in names:
        before = after = None
        if name in entries:
            entry = entries[name]
            table = tables.get(entry.table_id or "")
            before = version(snapshots[entry.snapshot_id], table)
        if name in replaced:
            entry = old.entries[name]
            table = state.tables.get(entry.table_id or "")
            after = version(state.snapshots[entry.snapshot_id], table)
        if before is not None or after is not None:
            yield RestoredView(name, before, after)


def _models_with_new_views(
    current: Environment, old: Environment, snapshots: Mapping[ModelName, Snapshot]
) -> set[ModelName]:
    # Views of queries that read such models change, too.
    found: set[ModelName] = set()
    for name, snapshot in snapshots.items():
        entry = old.entries[name]
        reads = entry.table_id is None and any(parent in found for parent in snapshot.parents)
        if reads or current.entries.get(name) != entry:
            found.add(name)
    return found


def _missing_ranges(
    handles: Handles,
    old: Environment,
    snapshots: Mapping[ModelName, Snapshot],
    state: WarehouseState,
    among: set[ModelName],
    returned: Mapping[str, IntervalSet],
) -> dict[ModelName, IntervalSet]:
    window = Window(handles.store.database.clock.now(), default_start=handles.settings.start_time)
    starts = infer_starts(snapshots, window)
    out: dict[ModelName, IntervalSet] = {}
    for name, snapshot in snapshots.items():
        table_id = old.entries[name].table_id
        if table_id is not None and name in among:
            table = state.tables[table_id]
            table = replace(table, intervals=returned.get(table_id, table.intervals))
            filled = table.with_ranges_for_unit(snapshot.cadence.unit).available
            missing = missing_intervals(snapshot, filled, window, starts, ALWAYS)
            if missing:
                out[name] = missing
    return out
