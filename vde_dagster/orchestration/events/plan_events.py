"""Plans that were made or applied elsewhere: their pages, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.errors import VdeError
from vde_dagster.orchestration.events.checks import EVALUATION, AuditEvents
from vde_dagster.orchestration.events.records import (
    add_partitions,
    failed_run,
    plan_materializations,
)
from vde_dagster.orchestration.events.reporter import Reporter
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, Names
from vde_dagster.orchestration.pages.plan_page import (
    breaking_check,
    estimator,
    plan_metadata,
    published_metadata,
)

if TYPE_CHECKING:
    from vde_dagster.planning.environment import Environment
    from vde_dagster.planning.plan import Plan
    from vde_dagster.state import PlanRecord, StateStore


def stored_plan(store: StateStore, plan_id: str) -> Plan | None:
    """Return a plan, or None when it, or what it is made of, was forgotten."""
    try:
        return store.plans.load(plan_id)
    except VdeError:
        return None


def report_page(reporter: Reporter, catalog: AssetCatalog, plan: Plan) -> None:
    """Give a plan its partition and its page, unless it has them.

    Args:
        reporter: Writes.
        catalog: The code location's models.
        plan: The plan.
    """
    store, instance, names = reporter.store, reporter.instance, reporter.names
    add_partitions(store.database.effects, instance, names.plans, [plan.id])
    if reporter.has(names.plan_key, plan.id):
        return
    # The page comes last: as long as it is missing, the check is looked for, too.
    check = breaking_check(plan, asset=names.plan_key)
    check["metadata"] = {**check["metadata"], "vde/plan": plan.id, EVALUATION: plan.id}
    reporter.report(dg.AssetCheckEvaluation(**check))
    metadata = plan_metadata(store, plan, estimator(instance, catalog))
    page = dg.AssetMaterialization(
        asset_key=names.plan_key, partition=plan.id, metadata=metadata, tags=_tags(plan)
    )
    reporter.report_plan(page)


def published_page(
    store: StateStore, plan: Plan, published: Environment, names: Names
) -> dg.AssetMaterialization:
    """Return the page of a plan that was published, which says by whom and when.

    Args:
        store: The state store.
        plan: The plan.
        published: The version that it published.
        names: The project's names.
    """
    metadata = {**published_metadata(published, names), **plan_metadata(store, plan, names=names)}
    return dg.AssetMaterialization(
        asset_key=names.plan_key, partition=plan.id, metadata=metadata, tags=_tags(plan)
    )


def report_applied(reporter: Reporter, plan: Plan, published: Environment | None) -> None:
    """Show a plan as approved, as its partition of `vde/apply`, and on its page by whom.

    Args:
        reporter: Writes.
        plan: The plan, which was applied.
        published: The version that it published, when it is known.
    """
    record = reporter.store.plans.record(plan.id)
    facts: dict[str, Any] = {
        "vde/plan": plan.id,
        "vde/environment": plan.environment,
        "vde/models_computed": len(plan.builds),
        "vde/published": True,
    }
    if record is not None and record.started_at and record.finished_at:
        facts["vde/seconds"] = (record.finished_at - record.started_at).total_seconds()
    if published is not None:
        facts["vde/version"] = published.version
        facts["vde/published_by"] = published.published_by
        reporter.report_published(published_page(reporter.store, plan, published, reporter.names))
    approved = dg.AssetMaterialization(
        asset_key=reporter.names.apply_key, partition=plan.id, metadata=facts, tags=_tags(plan)
    )
    reporter.report_plan(approved)


def report_failed(
    reporter: Reporter, catalog: AssetCatalog, plan: Plan, record: PlanRecord
) -> None:
    """Show that applying a plan failed elsewhere, red, and which rows its audits found.

    Args:
        reporter: Writes.
        catalog: The code location's models.
        plan: The plan.
        record: What is known of it.
    """
    names, instance, effects = reporter.names, reporter.instance, reporter.store.database.effects
    shown = failed_observation(names, plan, record.message or "", record)
    reporter.report(shown)
    audits = AuditEvents(catalog, reporter.store, instance)
    rejected = list(audits.rejected(plan))
    if plan.id in instance.get_dynamic_partitions(str(names.plans.name)):
        rejected.append((names.apply_key, [plan.id]))
    if rejected:
        # Dagster turns partitions red by a run alone.
        tags = {**names.tags, **_tags(plan), EVALUATION: str(shown.metadata[EVALUATION].value)}
        said = f"applied elsewhere: {shown.description}"
        run = failed_run(effects, instance, names.named("vde_apply_job"), said, tags)
        if run is not None:
            for key, partitions in rejected:
                plan_materializations(effects, instance, run, key, partitions)
    for event in audits.unpublished(plan):
        reporter.report(event)


def failed_observation(
    names: Names, plan: Plan, said: str, record: PlanRecord | None
) -> dg.AssetObservation:
    """Say on a plan's partition of `vde/apply` that applying it failed, and why.

    Args:
        names: The project's names.
        plan: The plan.
        said: Why.
        record: What is known of it; a plan that is tried again fails at another time.
    """
    when = record.finished_at.isoformat() if record and record.finished_at else ""
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
        tags=_tags(plan),
    )


def _tags(plan: Plan) -> dict[str, str]:
    return {PLAN_TAG: plan.id, ENVIRONMENT_TAG: plan.environment}
