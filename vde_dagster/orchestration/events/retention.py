"""Deletion of old runs, without losing events that pages show.

Dagster keeps every run forever, and deletes the events of assets with their run. The events that
pages show are therefore written again from the state store, without a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import dagster as dg

from vde_dagster.orchestration.events.consumer import forwarding_lease
from vde_dagster.orchestration.events.provenance import ProjectionContext
from vde_dagster.orchestration.events.records import FINISHED, Reporter
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.models.catalog import AssetCatalog

PAGE = 100
"""Number of runs per read."""


def delete_old_runs(context: ProjectionContext, days: int | None, *, dry_run: bool) -> int:
    """Delete the project's runs that ended more than `days` ago, and return their number.

    `days` is by default the setting `dagster.keep_runs_days`. If neither is given, nothing is
    deleted. A dry run only counts.
    """
    workspace, instance, store = context.workspace, context.instance, context.store
    if days is None:
        days = workspace.settings.dagster.keep_runs_days
    if days is None:
        return 0
    before = store.database.clock.now() - timedelta(days=days)
    runs = list(old_runs(instance, context.catalog, before))
    if runs and not dry_run:
        reporter = Reporter(workspace, instance)
        with forwarding_lease(store, instance, wait_seconds=60):
            for run_id in runs:
                reporter.delete_run(run_id)
            # This writes deleted facts again that Dagster's pages show.
            sync(workspace, instance, context.catalog.translator, wipe=False)
            _delete_empty_pages(context, reporter)
    return len(runs)


def _delete_empty_pages(context: ProjectionContext, reporter: Reporter) -> None:
    names, instance = context.names, context.instance
    known = instance.get_dynamic_partitions(str(names.plans.name))
    shown = instance.get_materialized_partitions(names.apply_key)
    statuses = context.store.plans.statuses(known)
    for key in known:
        # Without its page, the plan would look unapproved.
        if key not in shown and statuses.get(key) == "applied":
            reporter.delete(names.plans, key)


def old_runs(
    instance: dg.DagsterInstance, catalog: AssetCatalog, before: datetime
) -> Iterator[str]:
    """Yield the ids of the project's runs that ended before a time, newest first.

    Leaves out runs of other code locations, and runs that select a user's own assets.
    """
    names = catalog.names
    keys = {spec.key for spec in catalog.specs.values()}
    keys |= {names.plan_key, names.apply_key, names.reject_key, names.environment_key}
    filters = dg.RunsFilter(statuses=[*FINISHED], updated_before=before)
    cursor: str | None = None
    while runs := instance.get_runs(filters=filters, cursor=cursor, limit=PAGE):
        cursor = runs[-1].run_id
        for run in runs:
            selected = run.asset_selection or set()
            if run.job_name.startswith(names.named("vde_")) or (selected and selected <= keys):
                yield run.run_id
