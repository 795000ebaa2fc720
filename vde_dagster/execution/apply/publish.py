"""Publication of an environment from a filled plan, or from an earlier version."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.execution.apply.early_fills import require_created_in_past
from vde_dagster.execution.apply.failure_report import query_errors_of_model
from vde_dagster.execution.pinned_reads import with_pinned_tables
from vde_dagster.lakehouse.publishing.publication import Deployment, FastForward, Publication
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.environments.resolver import Binding, Resolver
from vde_dagster.planning.plan.affected_intervals import RestatedRanges
from vde_dagster.planning.plan.assign_tables import with_deployed_definition
from vde_dagster.planning.plan.plan import AFTER_ALL, Plan, PlannedModel
from vde_dagster.planning.rendering.render import relation_function, render_statements
from vde_dagster.planning.rendering.views import (
    define_view,
    statements_after_publication,
    view_query,
)
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.db.leases import Lease
from vde_dagster.state.plans.snapshots import has_columns

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


_AT_ONCE = 4
"""Maximum number of views that Spark analyzes in parallel."""


def publish_plan(
    plan: Plan,
    resolver: Resolver,
    written: Mapping[str, str],
    *,
    handles: Handles,
    leases: tuple[Lease, ...],
    who: str,
) -> Environment:
    """Publish a plan with filled tables: views, tables' branches and state in one commit.

    Args:
        written: Branches to publish, by table id.
        leases: Leases of this apply. The commit checks that they are still held.

    Raises:
        ConflictError: Another process published first.
        UsageError: The clock went back since the plan was created.
    """
    store, lakehouse = handles.store, handles.lakehouse
    require_created_in_past(plan, store.database.clock.now())
    current = store.environments.get(plan.environment)
    moving = [(resolver.tables[table_id], branch) for table_id, branch in sorted(written.items())]
    forwards = tuple(
        FastForward(t.ref, t.id, branch, lakehouse.main_snapshot(t.ref, t.branch), t.branch)
        for t, branch in moving
    )
    # The views read `main`, which is moved to the branches in the same commit.
    tables = store.tables.load(list(resolver.tables))
    deployments = tuple(
        _define_deployment(plan, model, tables) for model in plan.models if model.deploys
    )
    present = replace(resolver, branches={}, tables=dict(tables))
    tables.update((item.table.id, item.table) for item in deployments)
    published = replace(resolver, branches={}, tables=tables)
    views = define_views(published, handles, present=present)
    environment = Environment(
        name=plan.environment,
        version=plan.base_version + 1,
        entries=plan.entries,
        publication_id=uuid.uuid4().hex,
        published_at=store.database.clock.now(),
        published_by=who,
        plan_id=plan.id,
        expires_at=plan.expires_at,
        note=plan.kind.value,
        suffix=published.suffix,
        mode=published.mode,
        kept=plan.kept,
    )
    return lakehouse.publish(
        Publication(
            environment=environment,
            base_version=plan.base_version,
            views=views,
            dropped=dropped_views(current, {TableRef(view.namespace, view.name) for view in views}),
            fast_forwards=forwards,
            plan_id=plan.id,
            leases=leases,
            changed=RestatedRanges.from_plan(plan) if plan.restates else None,
            snapshots=plan.snapshots,
            statements=(
                *statements_after_publication(
                    published, current, handles.settings.catalog, environment.published_at
                ),
                *((AFTER_ALL, text) for text in plan.complete_statements.after),
            ),
            deployments=deployments,
            before_and_after=plan.statements,
        )
    )


def _define_deployment(
    plan: Plan, model: PlannedModel, tables: Mapping[str, PhysicalTable]
) -> Deployment:
    assert model.table is not None
    assert model.in_place is not None
    table = tables[model.table.id]
    snapshot = plan.snapshot_of(model)
    widened = {change.column: change.becomes or "" for change in model.in_place.widened}
    after = with_deployed_definition(table, snapshot, widened)
    types = {column.name: column.type for column in table.columns}
    changed = ((c.name, c.type) for c in after.columns if c.type and c.type != types[c.name])
    return Deployment(after, tuple(changed))


def dropped_views(current: Environment | None, kept: Collection[TableRef]) -> tuple[TableRef, ...]:
    # The result includes external and embedded models. The publication drops only views that exist.
    if current is None:
        return ()
    refs = (current.views.ref(name) for name in current.entries)
    return tuple(sorted((ref for ref in refs if ref not in kept), key=str))


def define_views(
    resolver: Resolver,
    handles: Handles,
    only: Collection[ModelName] | None = None,
    present: Resolver | None = None,
) -> tuple[ViewDefinition, ...]:
    """Build the definitions of an environment's views: names, columns, types and queries.

    Args:
        resolver: Resolver of the environment's model names, which reads tables' branch `main`.
        only: Models whose views to define, or None for all.
        present: Resolver with the column types before the publication, which may widen types; by
            default `resolver`.
    """
    # New VIEW models are analyzed. The store keeps their types, so that publishing again starts no
    # JVM.
    settings, store = handles.settings, handles.store
    wanted = [name for name in resolver.entries if only is None or name in only]
    resolver = with_pinned_tables(handles, resolver, wanted)
    bindings = {name: resolver.resolve(name) for name in wanted}
    queries = {
        name: binding
        for name, binding in bindings.items()
        if binding.table is None and binding.snapshot.model.kind.is_shown
    }
    kept = store.snapshots.view_types(binding.snapshot.id for binding in queries.values())
    snapshots = {binding.snapshot.id: binding.snapshot for binding in queries.values()}
    types = {key: one for key, one in kept.items() if has_columns(snapshots[key], one)}
    new = [binding for binding in queries.values() if binding.snapshot.id not in types]
    if new:
        types.update(_analyze_views(new, present or resolver, handles))
    definitions = (
        define_view(name, resolver, settings.catalog, types, settings.catalog_names)
        for name in wanted
    )
    return tuple(definition for definition in definitions if definition is not None)


def _analyze_views(
    new: Sequence[Binding], resolver: Resolver, handles: Handles
) -> dict[str, tuple[tuple[str, str], ...]]:
    # Views are analyzed in parallel, unless they have statements.
    def analyse(binding: Binding) -> tuple[tuple[str, str], ...]:
        sql = view_query(binding, resolver, handles.settings.catalog)
        before, after = _render_view_statements(binding.snapshot, resolver, handles)
        with query_errors_of_model(binding.snapshot):
            return handles.engine().analyze(sql, before, after)

    def has_statements(binding: Binding) -> bool:
        model = binding.snapshot.model
        return bool(model.pre_statements or model.post_statements)

    parallel = [binding for binding in new if not has_statements(binding)]
    sequential = [binding for binding in new if has_statements(binding)]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="vde-view") as pool:
        found = [*zip(parallel, pool.map(analyse, parallel), strict=True)]
    found += [(binding, analyse(binding)) for binding in sequential]
    types = {binding.snapshot.id: columns for binding, columns in found}
    handles.store.snapshots.save_view_types(types)
    return types


def _render_view_statements(
    snapshot: Snapshot, resolver: Resolver, handles: Handles
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # This happens once per version of the view.
    model, catalog = snapshot.model, handles.settings.catalog
    if not model.pre_statements and not model.post_statements:
        return (), ()
    now = handles.store.database.clock.now()
    slot = snapshot.cadence.latest_slot(now)
    before, after = (
        render_statements(
            statements,
            relation_function(resolver, catalog, slot, now),
            resolver.views.quoted(model.name, catalog),
            slot,
            now,
        )
        for statements in (model.pre_statements, model.post_statements)
    )
    return before, after
