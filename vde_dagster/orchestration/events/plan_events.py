"""Plans that were made or applied elsewhere: their pages, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.errors import VdeError
from vde_dagster.orchestration.events.checks import EVALUATION, AuditEvents
from vde_dagster.orchestration.events.records import add_partitions
from vde_dagster.orchestration.events.reporter import Reporter
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG
from vde_dagster.orchestration.pages.plan_page import breaking_check, estimator, plan_metadata

if TYPE_CHECKING:
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


def report_applied(reporter: Reporter, plan: Plan, version: int | None) -> None:
    """Show a plan as approved, as its partition of `vde/apply`.

    Args:
        reporter: Writes.
        plan: The plan, which was applied.
        version: The version that it published, when it is known.
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
    if version is not None:
        facts["vde/version"] = version
    approved = dg.AssetMaterialization(
        asset_key=reporter.names.apply_key, partition=plan.id, metadata=facts, tags=_tags(plan)
    )
    reporter.report_plan(approved)


def report_failed(
    reporter: Reporter, catalog: AssetCatalog, plan: Plan, record: PlanRecord
) -> None:
    """Show that applying a plan failed, and which rows its audits found.

    Args:
        reporter: Writes.
        catalog: The code location's models.
        plan: The plan.
        record: What is known of it.
    """
    when = record.finished_at.isoformat() if record.finished_at else ""
    reporter.report(
        dg.AssetObservation(
            asset_key=reporter.names.apply_key,
            partition=plan.id,
            description=f"applying it failed: {record.message}",
            metadata={
                "vde/error": record.message or "",
                "vde/plan": plan.id,
                "vde/environment": plan.environment,
                "vde/published": False,
                EVALUATION: f"{plan.id} {when}",
            },
            tags=_tags(plan),
        )
    )
    audits = AuditEvents(catalog, reporter.store, reporter.instance)
    for event in audits.unpublished(plan):
        reporter.report(event)


def _tags(plan: Plan) -> dict[str, str]:
    return {PLAN_TAG: plan.id, ENVIRONMENT_TAG: plan.environment}
