"""Dagster's view rebuilt from the state: `vde sync`, and the first look of the sensor."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.orchestration.events.comparison import Comparison
from vde_dagster.orchestration.events.consumer import Origins
from vde_dagster.orchestration.events.plans import (
    applied_event,
    forget_past_plans,
    page_events,
    rejected_events,
    stored_plan,
)
from vde_dagster.orchestration.events.provenance import Log, ProjectionContext
from vde_dagster.orchestration.events.publication import environment_event
from vde_dagster.orchestration.events.records import PartitionChange, Projected, Reporter
from vde_dagster.orchestration.models.load_live import load_catalog
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import Names
from vde_dagster.project.loading.loader import project_hash

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

_PLANS = 100
"""How many of the latest plans get a page."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The numbers of events that a sync wrote, and of partitions that it wiped as missing again."""

    materializations: int = 0
    environments: int = 0
    wiped: int = 0
    checks: int = 0
    plans: int = 0
    complete: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether Dagster knew everything already."""
        written = (self.materializations, self.environments, self.wiped, self.checks, self.plans)
        return not any(written)


def sync(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    translator: VdeTranslator | None = None,
    *,
    wipe: bool = True,
    seconds: float = float("inf"),
    log: Log | None = None,
) -> SyncReport:
    """Write the events that a Dagster instance misses, but for those of its working runs.

    Args:
        wipe: Whether assets are forgotten that Dagster shows partitions of which no table holds.
        seconds: After how long to stop; the next call goes on.
    """
    until = time.monotonic() + seconds
    looks = translator or VdeTranslator(workspace.root, workspace.settings.catalog)
    catalog = load_catalog(workspace, looks.of_project(Names.of(workspace.settings)))
    context = ProjectionContext(workspace, instance, catalog, log or logging.getLogger(__name__))
    reporter = Reporter(workspace.store, instance, catalog.names)
    complete = True
    for told in _everything(context, wipe):
        if reporter.report(told) and time.monotonic() > until:
            complete = False
            break
    if complete:
        forget_past_plans(workspace, instance, catalog.names)
    return SyncReport(**reporter.written, complete=complete)


def _everything(context: ProjectionContext, wipe: bool) -> Iterator[Projected]:
    store, names, live = context.store, context.names, context.catalog.live
    origins = Origins(context.instance)
    for model in live.models:
        yield from Comparison(context, origins.busy_plans(store)).model(model, wipe=wipe)
    for name in live.environments:
        yield PartitionChange(names.environments, name)
    for name in live.environments:
        busy = origins.busy_plans(store)
        for version in reversed(store.versions.history(name)):
            environment = store.versions.at(name, version.version)
            if environment is not None and not version.dropped and environment.plan_id not in busy:
                yield environment_event(context, environment)
    yield from Comparison(context, origins.busy_plans(store)).checks()
    yield from _plans(context, origins.busy_plans(store))


def _plans(context: ProjectionContext, busy: frozenset[str]) -> Iterator[Projected]:
    """Yield the pages of plans that can still be approved, or were applied."""
    store, names = context.store, context.names
    recent = [record for record in store.plans.recent(limit=_PLANS) if record.kind == "plan"]
    files = project_hash(context.workspace.root)
    past = store.plans.closed_to_approval([record.id for record in recent], files)
    for record in reversed(recent):
        if record.id in busy:
            continue
        if record.status == "rejected":
            yield from rejected_events(context.instance, names, record)
        shown = {
            key: context.latest(key, record.id) is not None
            for key in (names.plan_key, names.apply_key)
        }
        is_applied = record.status == "applied"
        wanted = record.status in ("planned", "applied") and record.id not in past
        if not wanted or (shown[names.plan_key] and (shown[names.apply_key] or not is_applied)):
            continue
        plan = stored_plan(store, record.id)
        if plan is not None:
            yield PartitionChange(names.plans, plan.id)
            if not shown[names.plan_key]:
                yield from page_events(context, plan)
            if is_applied:
                yield applied_event(context, plan, None)
