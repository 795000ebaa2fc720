"""Views that a publication changes, and checks of models and ranges that it would remove."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import range_text
from vde_dagster.errors import UsageError
from vde_dagster.planning.environments.environment import Entry, Environment
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster.planning.environments.warehouse_state import WarehouseState
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.plan import Plan, PlannedViews
from vde_dagster.planning.plan.plan_request import PlanRequest
from vde_dagster.planning.rendering.views import view_signature
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable, TableRef


def plan_views(
    request: PlanRequest,
    snapshots: Mapping[ModelName, Snapshot],
    tables: Mapping[ModelName, PhysicalTable],
    entries: Mapping[ModelName, Entry],
    state: WarehouseState,
) -> PlannedViews:
    """Return the views that a plan creates, replaces and drops."""
    after = Resolver(
        request.environment,
        entries,
        {snapshot.id: snapshot for snapshot in snapshots.values()},
        {table.id: table for table in tables.values()},
        suffix=request.suffix,
        mode=request.mode,
    )
    target = state.target
    before = state.resolver(target) if target else None
    same = _unchanged_names(after, before)
    created, replaced, dropped = list[TableRef](), list[TableRef](), list[TableRef]()
    for name in entries:
        if name in same:
            continue
        new, old = _shows(after, name), before is not None and _shows(before, name)
        if new and not old:
            created.append(after.views.ref(name))
        elif before is None or not old:
            continue
        elif not new:
            dropped.append(before.views.ref(name))
        elif after.views.ref(name) != before.views.ref(name):
            created.append(after.views.ref(name))
            dropped.append(before.views.ref(name))
        # Rendering costs milliseconds a view; a new environment needs none of it.
        elif view_signature(name, after, request.catalog) != view_signature(
            name, before, request.catalog
        ):
            replaced.append(after.views.ref(name))
    if before:
        gone = [name for name in before.entries if name not in entries and _shows(before, name)]
        # Whether these have views is not known; the publication drops what is there.
        gone += (name for name in state.left_out if name not in entries)
        dropped += map(before.views.ref, gone)
    changed = (created, replaced, dropped)
    return PlannedViews(*(tuple(sorted(refs, key=str)) for refs in changed))


def _shows(resolver: Resolver, name: ModelName) -> bool:
    entry = resolver.entries.get(name)
    return entry is not None and resolver.snapshots[entry.snapshot_id].model.kind.is_shown


def _unchanged_names(after: Resolver, before: Resolver | None) -> set[ModelName]:
    # Views are not rendered here. They are equal if the entries of their models are equal. For
    # inlined queries, the entries of all parents must be equal, too.
    if before is None or not after.views.same_as(before.views):
        return set()
    same: set[ModelName] = set()
    for name, entry in after.entries.items():
        if before.entries.get(name) != entry:
            continue
        snapshot = after.snapshots[entry.snapshot_id]
        inlines = entry.table_id is None and not snapshot.model.kind.is_external
        if not inlines or all(parent in same for parent in snapshot.parents):
            same.add(name)
    return same


_FEW = 2
"""Number of models that a plan may remove from any environment that shows more than these."""


def require_confirmed_removals(plan: Plan, state: WarehouseState, share: float) -> None:
    """Raise UsageError if a plan removes all or many of the models that an environment shows.

    "Many" means at least three models, and more than the fraction `share` of all models.
    """
    # A plan of a wrong folder would remove most models.
    known = state.target.entries if state.target is not None else {}
    read = {n for n, e in known.items() if state.snapshots[e.snapshot_id].model.kind.is_shown}
    shown = sorted({*read, *state.left_out}) if state.target is not None else []
    gone = [name for name in shown if name not in plan.entries]
    every = len(gone) == len(shown)
    if not gone or (not every and (len(gone) <= _FEW or len(gone) <= share * len(shown))):
        return
    listed = "".join(f"\n  - {name}" for name in gone)
    many = f"all {len(shown)}" if len(shown) > 1 else "the only"
    number = many if every else f"{len(gone)} of the {len(shown)}"
    raise UsageError(
        f"the plan would remove {number} model{'s' if len(shown) > 1 else ''} of "
        f"'{plan.environment}', and nothing was changed:{listed}",
        hint="check that this is the project's folder, with all of its models; to remove them: "
        f"vde plan {plan.environment} --remove-models (in Dagster: remove_models: true)",
    )


def require_no_gaps(
    plan: Plan, current: Environment | None, tables: Mapping[str, PhysicalTable]
) -> None:
    """Raise UsageError if a plan lacks time ranges that the environment shows now."""
    gone = dict(_gaps(plan, current, tables))
    if gone:
        ranges_by_model = "; ".join(
            f"{name}, {range_text(ranges.ranges[0].start, ranges.ranges[-1].end)}"
            for name, ranges in gone.items()
        )
        raise UsageError(
            f"'{plan.environment}' would no longer show data that it shows now: {ranges_by_model}",
            hint="let the plan fill these ranges (without --start, --end, --skip-backfill), or "
            "leave --no-gaps out",
        )


def _gaps(
    plan: Plan, current: Environment | None, tables: Mapping[str, PhysicalTable]
) -> Iterator[tuple[ModelName, IntervalSet]]:
    # Ranges that a lookback fills again are not gaps.
    for model in plan.models:
        entry = current.entries.get(model.name) if current else None
        old = tables.get(entry.table_id) if entry and entry.table_id else None
        if old is None or model.table is None or model.snapshot_id is None:
            continue
        snapshot = plan.snapshots[model.snapshot_id]
        if model.table.id == old.id or not snapshot.is_incremental:
            continue
        shown = snapshot.cadence.unit.align_inward(old.intervals)
        gone = shown - (model.table.intervals | model.intervals)
        if gone:
            yield model.name, gone
