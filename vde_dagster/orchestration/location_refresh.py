"""A code location loaded again once its project has changed.

What decides the models and versions that a location lists is hashed, and the hash of its load kept
in Dagster's own database: runs and ticks of the sensor ask for a new load when it differs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import dagster as dg

from vde_dagster.base.hashing import digest
from vde_dagster.errors import VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.instance import reload_location
from vde_dagster.orchestration.names import Names
from vde_dagster.project.loading.loader import project_hash

ATTEMPTS = 3
"""How often a load is asked for before it is left to the person who was told."""

Log = logging.Logger | dg.DagsterLogManager


def refresh_after(context: Any, workspace: Workspace) -> None:
    """Load the location of a step's run again if what it shows is past.

    A run that no location launched, such as the main job's, has no page that could be wrong.
    """
    origin = context.run.remote_job_origin
    if origin is not None:
        refresh(context.instance, context.log, origin.location_name, workspace)


def refresh(
    instance: dg.DagsterInstance, log: Log, location: str, workspace: Workspace
) -> str | None:
    """Load a location again if it shows a past state of its project; return a logged warning."""
    key = f"vde/shown/{location}/{Names.of(workspace.settings).prefix}"
    kept = instance.daemon_cursor_storage.get_cursor_values({key}).get(key, "")
    known, _, failures = kept.partition(" ")
    now = _shape(workspace, instance)
    if now is None:  # the settings are wrong, which whoever asked is told anyway
        return None
    tried = int(failures or 0) if now == known else 0
    if now == known and (not tried or tried >= ATTEMPTS):
        return None
    problem = reload_location(location)
    done = now if problem is None else f"{now} {tried + 1}"
    if problem is None and _shape(workspace, instance) != now:
        done = ""  # changed while it was loaded: what it shows nobody knows, the next look asks
    instance.daemon_cursor_storage.set_cursor_values({key: done})
    if problem is None or not kept:  # of a Dagster that just began the webserver may not be up
        return None
    log.warning(problem)
    return problem


def _shape(workspace: Workspace, instance: dg.DagsterInstance) -> str | None:
    plans = Names.of(workspace.settings).plans
    try:
        return shape_of(workspace, instance.get_dynamic_partitions(str(plans.name)))
    except VdeError:
        return None


def shape_of(workspace: Workspace, plans: Sequence[str] = ()) -> str:
    """Hash what decides which models, versions and waiting plans a location shows."""
    store = workspace.store
    expired = set(store.environments.expired())
    heads = [
        f"{head.name}={head.version}"
        for head in store.environments.summaries()
        if head.name not in expired
    ]
    approved = [f"{record.id}={record.status}" for record in store.plans.approved()]
    known = store.plans.statuses(plans)
    open_ones = [plan for plan, status in known.items() if status in ("planned", "failed")]
    return digest(
        project_hash(workspace.root), *sorted(heads), "", *sorted(approved), "", *sorted(open_ones)
    )
