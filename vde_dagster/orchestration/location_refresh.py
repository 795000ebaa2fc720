"""Reload of a code location after its project has changed.

The hash of a location's models and versions is stored in Dagster's database at each reload. Runs
and ticks of the sensors request a reload if the hash differs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from vde_dagster.base.hashing import digest
from vde_dagster.errors import VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.instance import reload_location
from vde_dagster.orchestration.names import Names
from vde_dagster.project.loading.loader import project_hash

ATTEMPTS = 3
"""Maximum number of reload requests before the reload is left to the user, who was warned."""

Log = logging.Logger | dg.DagsterLogManager


def refresh_after(context: Any, workspace: Workspace) -> None:
    """Reload the code location of a step's run if the location shows an old state."""
    origin = context.run.remote_job_origin
    # A run without a location, for instance of `make run`, has no page to reload.
    if origin is None:
        return
    place = context.instance.get_ref(), origin.location_name, workspace.root
    # The run continues during the reload, and its process waits for the reload at its end.
    threading.Thread(target=_refresh_alone, args=place, name="vde-reload").start()


_RELOAD = threading.Lock()


def _refresh_alone(reference: Any, location: str, root: Path) -> None:
    log = logging.getLogger(__name__)
    try:
        with (
            _RELOAD,
            dg.DagsterInstance.from_ref(reference) as instance,
            Workspace.open(root) as workspace,
        ):
            refresh(instance, log, location, workspace)
    except Exception:  # the next tick of the sensor reloads the location, and reports why it fails
        log.exception("the code location %s was not reloaded", location)


def refresh(
    instance: dg.DagsterInstance, log: Log, location: str, workspace: Workspace
) -> str | None:
    """Reload a code location if its models or plans changed, and return the logged warning."""
    key = f"vde/shown/{location}/{Names.from_settings(workspace.settings).prefix}"
    kept = instance.daemon_cursor_storage.get_cursor_values({key}).get(key, "")
    known, _, failures = kept.partition(" ")
    now = _shape(workspace, instance)
    if now is None:  # invalid settings: the caller reports the error
        return None
    tried = int(failures or 0) if now == known else 0
    if now == known and (not tried or tried >= ATTEMPTS):
        return None
    problem = reload_location(location)
    done = now if problem is None else f"{now} {tried + 1}"
    if problem is None and _shape(workspace, instance) != now:
        done = ""  # changed during the reload: the loaded state is uncertain, so ask again
    instance.daemon_cursor_storage.set_cursor_values({key: done})
    if problem is None or not kept:  # when Dagster has just started, the webserver may not be up
        return None
    log.warning(problem)
    return problem


def _shape(workspace: Workspace, instance: dg.DagsterInstance) -> str | None:
    plans = Names.from_settings(workspace.settings).plans
    try:
        return location_hash(workspace, instance.get_dynamic_partitions(str(plans.name)))
    except VdeError:
        return None


def location_hash(workspace: Workspace, plans: Sequence[str] = ()) -> str:
    """Hash the models, versions and waiting plans that a location shows."""
    store = workspace.store
    expired = set(store.environments.expired())
    heads = [
        f"{head.name}={head.version}"
        for head in store.environments.summaries()
        if head.name not in expired
    ]
    started = [f"{record.id}={record.status}" for record in store.plans.started()]
    known = store.plans.statuses(plans)
    open_ones = [plan for plan, status in known.items() if status in ("planned", "failed")]
    return digest(
        project_hash(workspace.root),
        *(*sorted(heads), "", *sorted(started), "", *sorted(open_ones)),
        str(store.outbox.last_remaining() or 0),
    )
