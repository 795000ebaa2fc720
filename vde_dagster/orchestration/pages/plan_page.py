"""What is shown of a plan: the page of its partition of `vde/plan`."""

from __future__ import annotations

from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster._check import CheckError

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import BREAKING_CHECK, PLAN_KEY
from vde_dagster.orchestration.pages.markdown import (
    MAX_INLINE,
    Estimate,
    Readers,
    breaking,
    breaks,
    change_pages,
    plan_markdown,
    plan_summary,
    risks,
    spans,
    units,
)
from vde_dagster.planning.plan import Change, Plan, PlannedModel
from vde_dagster.planning.snapshot import Snapshot

if TYPE_CHECKING:
    from vde_dagster.state import StateStore
    from vde_dagster.state.plans import PlanRecord

MAX_RECORDS = 500
MAX_EDITS = 10
LOOKED_AT = 20


def plan_metadata(
    store: StateStore,
    plan: Plan,
    estimate: Estimate | None = None,
    readers: Readers = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the page: Markdown first, then the same as tables and JSON.

    Args:
        store: For what the environment has now.
        plan: The plan.
        estimate: How long a model's work is likely to take.
        readers: Who reads the models besides models, see `readers_of`.
    """
    previous = store.snapshots.load(
        sorted({m.previous_snapshot_id for m in plan.models if m.previous_snapshot_id})
    )
    changed = [m for m in plan.models if m.change is not Change.UNCHANGED or m.builds]
    records = [_record(model, plan) for model in changed[:MAX_RECORDS]]
    text = plan_markdown(plan, previous, estimate, readers)
    shown: dict[str, Any] = {}
    if len(text) > MAX_INLINE:
        shown["summary"] = dg.MetadataValue.md(plan_summary(plan, estimate, readers))
        edits = list(change_pages(plan, previous).items())[:MAX_EDITS]
        shown.update((f"why {name}", dg.MetadataValue.md(why)) for name, why in edits)
    return {
        **shown,
        "plan": dg.MetadataValue.md(text),
        "changes": dg.MetadataValue.table(records, _SCHEMA),
        "vde/plan_json": dg.MetadataValue.json(plan.to_json()),
        "vde/environment": plan.environment,
        "vde/warnings": len(plan.warnings),
        "vde/models_to_compute": len(plan.builds),
        "vde/intervals_to_compute": sum(
            units(model, plan.snapshots[model.snapshot_id or ""]) for model in plan.builds
        ),
        "vde/views_to_change": len(plan.views.created)
        + len(plan.views.replaced)
        + len(plan.views.dropped),
    }


def rejection_metadata(record: PlanRecord) -> dict[str, Any]:
    """Return what is said of a plan that was rejected: by whom, when and why."""
    facts: dict[str, Any] = {
        "rejected": f"The plan {record.id} was {record.message}.",
        "vde/plan": record.id,
        "vde/environment": record.environment,
    }
    if record.finished_at is not None:
        facts["vde/at"] = dg.MetadataValue.timestamp(record.finished_at)
    return facts


def readers_of(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, catalog: AssetCatalog, plan: Plan
) -> Readers:
    """Name the assets of the step's code location that are made of what a plan breaks.

    Args:
        context: The step.
        catalog: Asset keys of models.
        plan: The plan.
    """
    if not plan.breaks:
        return {}
    try:
        repository = context.repository_def
    except CheckError:  # a job that runs in this very process, as `make run` does, has none
        return {}
    return asset_readers(repository, catalog, plan)


def asset_readers(
    repository: dg.RepositoryDefinition, catalog: AssetCatalog, plan: Plan
) -> Readers:
    """Name the assets that are made of what a plan breaks and are no models, by model."""
    graph = repository.asset_graph
    models = {catalog.key(name) for name in plan.entries}
    found: dict[ModelName, list[str]] = {}
    for name in {broken.model for broken in plan.breaks}:
        key = catalog.key(name)
        if graph.has(key):
            own = sorted(graph.get(key).child_keys - models)
            found[name] = [f"asset {child.to_user_string()}" for child in own]
    return found


def breaking_check(
    plan: Plan,
    readers: Readers = MappingProxyType({}),
    asset: dg.AssetKey = PLAN_KEY,
) -> dict[str, Any]:
    """Return the fields of the check that warns of breaking changes, on the asset of plans.

    Args:
        plan: The plan.
        readers: Who reads the models besides models.
        asset: The asset of plans.
    """
    found = {model.name for model in breaking(plan)} | {broken.model for broken in plan.breaks}
    said = [*breaks(plan, readers), *risks(plan)]
    return {
        "asset_key": asset,
        "check_name": BREAKING_CHECK,
        "passed": not found,
        "severity": dg.AssetCheckSeverity.WARN,
        "metadata": {
            "vde/breaking": len(found),
            "vde/risks": dg.MetadataValue.md("\n".join(f"- {text}" for text in said) or "-"),
        },
    }


def estimator(instance: dg.DagsterInstance, catalog: AssetCatalog) -> Estimate:
    """Return a function that estimates a model's work from its latest fills.

    Args:
        instance: Its events carry how long each interval took.
        catalog: Asset keys.
    """

    def estimate(model: PlannedModel) -> float | None:
        key = catalog.key(model.name)
        seconds: list[float] = []
        for record in instance.fetch_materializations(key, limit=LOOKED_AT).records:
            event = record.asset_materialization
            facts = event.metadata if event else {}
            took, count = (
                facts[name].value if name in facts else None
                for name in ("vde/fill_seconds", "vde/fill_intervals")
            )
            if isinstance(took, int | float) and isinstance(count, int):
                seconds.append(float(took) / max(count, 1))
        if not seconds:
            return None
        known = catalog.live.models.get(model.name)
        number = units(model, known.snapshot) if known else 1
        return median(seconds) * max(number, 1)

    return estimate


def _record(model: PlannedModel, plan: Plan) -> dg.TableRecord:
    snapshot = plan.snapshots.get(model.snapshot_id or "")
    return dg.TableRecord(
        {
            "model": str(model.name),
            "change": model.change.value,
            "category": model.category.value if model.category else "",
            "from": (model.previous_snapshot_id or "")[:12],
            "to": (model.snapshot_id or "")[:12],
            "intervals": units(model, snapshot) if snapshot else 0,
            "range": _range(model, snapshot),
            "table": str(model.table.ref) if model.table else "",
        }
    )


def _range(model: PlannedModel, snapshot: Snapshot | None) -> str:
    if not model.intervals or snapshot is None:
        return ""
    return spans(model.intervals) if snapshot.is_incremental else "whole table"


_SCHEMA = dg.TableSchema(
    [
        dg.TableColumn("model"),
        dg.TableColumn("change"),
        dg.TableColumn("category"),
        dg.TableColumn("from"),
        dg.TableColumn("to"),
        dg.TableColumn("intervals", "int"),
        dg.TableColumn("range"),
        dg.TableColumn("table"),
    ]
)
