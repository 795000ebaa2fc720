"""Events of plans (pages, approvals, failures, rejections), and deletion of old partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import listed
from vde_dagster.errors import ConflictError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.dagster_private import PARTITION_NAME_TAG
from vde_dagster.orchestration.events.provenance import ProjectionContext
from vde_dagster.orchestration.events.records import UNFINISHED, NewPartition, Projected, Reporter
from vde_dagster.orchestration.names import (
    ENVIRONMENT_TAG,
    EVALUATION,
    PLAN_TAG,
    Names,
    without_nones,
)
from vde_dagster.orchestration.pages.plan_page import (
    breaking_check,
    plan_metadata,
    published_metadata,
    rejection_metadata,
)
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.project.loading.loader import project_hash
from vde_dagster.reports.plan import Readers
from vde_dagster.reports.plan_json import skip_json
from vde_dagster.state.plans.plans import OPEN_PLANS, PlanRecord


def plan_tags(plan: Plan | PlanRecord) -> dict[str, str]:
    return {PLAN_TAG: plan.id, ENVIRONMENT_TAG: plan.environment}


def page_events(
    context: ProjectionContext, plan: Plan, readers: Readers = MappingProxyType({})
) -> tuple[dg.AssetCheckEvaluation, dg.AssetMaterialization]:
    """Return the two events that show a plan in `vde/plan`: the check for breaks, and the page."""
    names = context.names
    estimate = context.workspace.plans.estimate(plan)
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
    return dg.AssetMaterialization(
        asset_key=context.names.plan_key,
        partition=plan.id,
        metadata=published_metadata(context.store, plan, published, context.names),
        tags=plan_tags(plan),
    )


def applied_event(
    context: ProjectionContext,
    plan: Plan,
    published: Environment | None,
    skipped: Mapping[ModelName, Skipped] = MappingProxyType({}),
) -> dg.AssetMaterialization:
    """Return the event that materializes a plan's partition of `vde/apply`."""
    record = context.store.plans.record(plan.id)
    seconds = None
    if record is not None and record.started_at and record.finished_at:
        seconds = (record.finished_at - record.started_at).total_seconds()
    facts = without_nones(
        {
            "vde/plan": plan.id,
            "vde/environment": plan.environment,
            "vde/models_computed": len(plan.builds) - len(plan.recorded) - len(skipped),
            "vde/published": True,
            "vde/seconds": seconds,
            "vde/version": published and published.version,
            "vde/published_by": published and published.published_by,
        }
    )
    if skipped:
        facts["vde/models_skipped"] = len(skipped)
        facts["vde/saved_seconds"] = sum(fill.seconds or 0.0 for fill in skipped.values())
        facts["vde/saved_bytes"] = sum(fill.bytes or 0 for fill in skipped.values())
        values = {str(name): skip_json(fill) for name, fill in skipped.items()}
        facts["vde/skipped"] = dg.MetadataValue.json(values)
    return dg.AssetMaterialization(
        asset_key=context.names.apply_key, partition=plan.id, metadata=facts, tags=plan_tags(plan)
    )


def failed_event(names: Names, plan: Plan, record: PlanRecord) -> dg.AssetObservation:
    """Return the observation with the error of a plan that could not be applied."""
    message = record.message or ""
    # Each attempt at a plan fails at a different time.
    when = record.finished_at.isoformat() if record.finished_at else ""
    return dg.AssetObservation(
        asset_key=names.apply_key,
        partition=plan.id,
        description=f"applying the plan failed: {message}",
        metadata={
            "vde/error": message,
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
    """Yield the events of a rejected plan, with the person and the reason."""
    if plans_without_runs(instance, [record.id]):
        yield NewPartition(names.rejections, record.id)
        yield dg.AssetMaterialization(
            asset_key=names.reject_key,
            partition=record.id,
            metadata=rejection_metadata(record),
            tags=plan_tags(record),
        )


def delete_closed_partitions(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    """Delete the partitions of dropped environments and of plans that can no longer be approved.

    Keeps partitions of plans that a run works on.
    """
    store, reporter = workspace.store, Reporter(workspace, instance)
    names = reporter.names
    shown, rejectable, known = (
        instance.get_dynamic_partitions(str(definition.name))
        for definition in (names.environments, names.rejections, names.plans)
    )
    alive = set(store.environments.names()) - set(store.environments.expired()) if shown else set()
    for name in shown:
        if name not in alive:
            reporter.delete(names.environments, name)
    closed = store.plans.closed_to_approval(known, project_hash(workspace.root)) if known else ()
    gone = plans_without_runs(instance, sorted(closed))
    for key in gone:
        reporter.delete(names.plans, key)
    statuses = store.plans.statuses({*known, *rejectable})
    waiting = {key for key in known if key not in gone and statuses.get(key) in OPEN_PLANS}
    # Rejected and waiting plans keep their partition of `vde/reject`.
    past = {key for key in rejectable if statuses.get(key) != "rejected"} - waiting
    for key in plans_without_runs(instance, sorted(past)):
        reporter.delete(names.rejections, key)
    reporter.add(names.rejections, sorted(waiting))


def require_proposed(workspace: Workspace, plan: Plan) -> None:
    """Raise ConflictError if a plan was not proposed, or its definitions differ from the files."""
    record = workspace.store.plans.record(plan.id)
    if record is not None and record.status == "applied":
        return
    job = Names.from_settings(workspace.settings).named("vde_new_plan")
    again = f"run `vde plan {plan.environment} --propose` or the job {job}"
    if plan.proposal is None:
        raise ConflictError(f"plan {plan.id} was not proposed for approval", hint=again)
    if not plan.proposal.matches_files(project_hash(workspace.root)):
        raise ConflictError(
            f"plan {plan.id} is outdated: project files changed after it was created", hint=again
        )
    # The plan's writer chose the hash above, so the definitions are compared too.
    if others := listed(_models_unlike_files(workspace, plan), 5):
        raise ConflictError(f"plan {plan.id} differs from the files in {others}", hint=again)


def _models_unlike_files(workspace: Workspace, plan: Plan) -> Iterator[ModelName]:
    store, files = workspace.store, workspace.snapshots()
    production = store.environments.get(PRODUCTION)
    base = store.environments.get(plan.environment) or production
    published = [found.entries for found in (base, production) if found is not None]
    for name, snapshot in plan.target.items():
        if any(name in known and known[name].snapshot_id == snapshot.id for known in published):
            continue
        own = files.get(name)
        if own is None or own.meaning not in (snapshot.meaning, snapshot.standalone_hash):
            yield name
    yield from sorted((files.keys() & (base.entries.keys() if base else ())) - plan.entries.keys())


def plans_without_runs(instance: dg.DagsterInstance, plan_ids: Iterable[str]) -> list[str]:
    """Return the ids of plans without a running or queued run."""
    return [
        key
        for key in plan_ids
        if not instance.get_runs_count(
            dg.RunsFilter(tags={PARTITION_NAME_TAG: key}, statuses=UNFINISHED)
        )
    ]
