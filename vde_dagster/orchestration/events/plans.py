"""Plans as events: their pages, approvals, failures and rejections; and their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import listed
from vde_dagster.errors import ConflictError, VdeError
from vde_dagster.execution.plans.estimate import estimate_plan
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.dagster_private import PARTITION_NAME_TAG
from vde_dagster.orchestration.events.provenance import ProjectionContext
from vde_dagster.orchestration.events.records import (
    UNFINISHED,
    NewPartition,
    Projected,
    Reporter,
)
from vde_dagster.orchestration.markdown import partition_link
from vde_dagster.orchestration.names import (
    ENVIRONMENT_TAG,
    EVALUATION,
    PLAN_TAG,
    PUBLISHED,
    Names,
    known_facts,
)
from vde_dagster.orchestration.pages.plan_page import (
    breaking_check,
    plan_metadata,
    rejection_metadata,
)
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.project.loading.loader import project_hash
from vde_dagster.reports.plan import Readers
from vde_dagster.state import StateStore
from vde_dagster.state.plans.plans import OPEN_PLANS, PlanRecord


def stored_plan(store: StateStore, plan_id: str) -> Plan | None:
    """Return a plan, or None when it, or what it is made of, was forgotten."""
    try:
        return store.plans.load(plan_id)
    except VdeError:
        return None


def plan_tags(plan: Plan | PlanRecord) -> dict[str, str]:
    """Return the tags of every event of a plan."""
    return {PLAN_TAG: plan.id, ENVIRONMENT_TAG: plan.environment}


def page_events(
    context: ProjectionContext, plan: Plan, readers: Readers = MappingProxyType({})
) -> tuple[dg.AssetCheckEvaluation, dg.AssetMaterialization]:
    """Return the check of breaking changes and the page of a plan, which comes last."""
    names = context.names
    estimate = estimate_plan(context.workspace, plan)
    page = dg.AssetMaterialization(
        asset_key=names.plan_key,
        partition=plan.id,
        metadata=plan_metadata(context.store, plan, estimate, readers, names),
        tags=plan_tags(plan),
    )
    return breaking_check(plan, readers, names.plan_key), page


def published_page(
    context: ProjectionContext, plan: Plan, published: Environment
) -> dg.AssetMaterialization:
    """Return the page of a plan that was published, which begins with by whom and when."""
    names, version = context.names, f"`{published.name}` version {published.version}"
    link = partition_link(names.environment_key, published.name, version)
    when = f"{published.published_at:%Y-%m-%d %H:%M} UTC"
    said = f"**Published** by {published.published_by} on {when}, as {link}."
    shown = plan_metadata(context.store, plan, names=names)
    return dg.AssetMaterialization(
        asset_key=names.plan_key,
        partition=plan.id,
        metadata={PUBLISHED: dg.MetadataValue.md(said), **shown},
        tags=plan_tags(plan),
    )


def applied_event(
    context: ProjectionContext,
    plan: Plan,
    published: Environment | None,
    skipped: Mapping[ModelName, Skipped] = MappingProxyType({}),
) -> dg.AssetMaterialization:
    """Return the event that shows a plan as approved: its partition of `vde/apply`."""
    record = context.store.plans.record(plan.id)
    seconds = None
    if record is not None and record.started_at and record.finished_at:
        seconds = (record.finished_at - record.started_at).total_seconds()
    facts = known_facts(
        {
            "vde/plan": plan.id,
            "vde/environment": plan.environment,
            "vde/models_computed": len(plan.builds) - len(skipped),
            "vde/published": True,
            "vde/seconds": seconds,
            "vde/version": published and published.version,
            "vde/published_by": published and published.published_by,
        }
    )
    if skipped:
        facts["vde/models_skipped"] = len(skipped)
        facts["vde/saved_seconds"] = sum(one.seconds or 0.0 for one in skipped.values())
        facts["vde/saved_bytes"] = sum(one.bytes or 0 for one in skipped.values())
        said = {str(name): one.to_json() for name, one in skipped.items()}
        facts["vde/skipped"] = dg.MetadataValue.json(said)
    return dg.AssetMaterialization(
        asset_key=context.names.apply_key,
        partition=plan.id,
        metadata=facts,
        tags=plan_tags(plan),
    )


def failed_event(names: Names, plan: Plan, record: PlanRecord) -> dg.AssetObservation:
    """Say on a plan's partition of `vde/apply` that applying it failed, and why."""
    said = record.message or ""
    # A plan that is tried again fails at another time.
    when = record.finished_at.isoformat() if record.finished_at else ""
    return dg.AssetObservation(
        asset_key=names.apply_key,
        partition=plan.id,
        description=f"applying it failed: {said}",
        metadata={
            "vde/error": said,
            "vde/plan": plan.id,
            "vde/environment": plan.environment,
            "vde/published": False,
            EVALUATION: f"{plan.id} {when}",
        },
        tags=plan_tags(plan),
    )


def rejected_events(
    instance: dg.DagsterInstance, names: Names, record: PlanRecord
) -> Iterator[Projected]:
    """Say on a plan's partition of `vde/reject` by whom it was rejected, and why."""
    if idle(instance, [record.id]):
        yield NewPartition(names.rejections, record.id)
        yield dg.AssetMaterialization(
            asset_key=names.reject_key,
            partition=record.id,
            metadata=rejection_metadata(record),
            tags=plan_tags(record),
        )


def forget_past(workspace: Workspace, instance: dg.DagsterInstance) -> list[str]:
    """Take the partitions away of what is past: environments, and plans on which no run works.

    A plan is past when nobody can approve it any more. One that was published keeps its page, and
    one that was rejected its partition of `vde/reject`, which has those that wait, too.

    Returns:
        The ids of the plans that went.
    """
    store, reporter = workspace.store, Reporter(workspace, instance)
    names = reporter.names
    shown, rejectable, known = (
        instance.get_dynamic_partitions(str(one.name))
        for one in (names.environments, names.rejections, names.plans)
    )
    alive = set(store.environments.names()) - set(store.environments.expired()) if shown else set()
    for name in shown:
        if name not in alive:
            reporter.delete(names.environments, name)
    closed = store.plans.closed_to_approval(known, project_hash(workspace.root)) if known else ()
    gone = idle(instance, sorted(closed))
    for key in gone:
        reporter.delete(names.plans, key)
    statuses = store.plans.statuses({*known, *rejectable})
    waiting = {key for key in known if key not in gone and statuses.get(key) in OPEN_PLANS}
    past = {key for key in rejectable if statuses.get(key) != "rejected"} - waiting
    for key in idle(instance, sorted(past)):
        reporter.delete(names.rejections, key)
    reporter.add(names.rejections, sorted(waiting))
    return gone


def require_proposed(workspace: Workspace, plan: Plan) -> None:
    """Make sure that a plan was made to be approved, and has the definitions of the files.

    Raises:
        ConflictError: The plan was only looked at, or has other definitions than the files.
    """
    record = workspace.store.plans.record(plan.id)
    if record is not None and record.status == "applied":
        return
    again = f"plan again: vde plan {plan.environment} --propose, or the job vde_new_plan"
    if plan.proposal is None:
        raise ConflictError(f"the plan {plan.id} was not made to be approved", hint=again)
    if not plan.proposal.is_of(project_hash(workspace.root)):
        raise ConflictError(
            f"the plan {plan.id} was made of other files than those of now", hint=again
        )
    # The hash above is the writer's word; the definitions are not.
    if others := listed(_not_of_files(workspace, plan), 5):
        raise ConflictError(
            f"the plan {plan.id} has other definitions than the files: {others}", hint=again
        )


def _not_of_files(workspace: Workspace, plan: Plan) -> Iterator[ModelName]:
    """Yield the models that a plan shows neither as the files have them nor as published."""
    store, files = workspace.store, workspace.snapshots()
    production = store.environments.get(PRODUCTION)
    base = store.environments.get(plan.environment) or production
    published = [found.entries for found in (base, production) if found is not None]
    for name, snapshot in plan.target.items():
        if any(name in known and known[name].snapshot_id == snapshot.id for known in published):
            continue
        own = files.get(name)
        if own is None or own.meaning not in (snapshot.meaning, snapshot.own_alone):
            yield name
    yield from sorted((files.keys() & (base.entries.keys() if base else ())) - plan.entries.keys())


def idle(instance: dg.DagsterInstance, plan_ids: Iterable[str]) -> list[str]:
    """Return those of the plans on which no run works or waits to work."""
    return [
        key
        for key in plan_ids
        if not instance.get_runs_count(
            dg.RunsFilter(tags={PARTITION_NAME_TAG: key}, statuses=UNFINISHED)
        )
    ]
