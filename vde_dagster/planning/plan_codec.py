"""Plans as JSON for the state store, written by hand: a plan names every model of a project."""

from __future__ import annotations

from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.planning.interval import IntervalSet, iso
from vde_dagster.planning.plan import Plan, PlannedModel
from vde_dagster.planning.table import PhysicalTable, TableRef

Json = Any


def plan_to_json(plan: Plan) -> dict[str, Json]:
    """Write a plan with its snapshots by id only, since those are stored once for all plans."""
    return {
        "id": plan.id,
        "environment": plan.environment,
        "kind": plan.kind.value,
        "base_version": plan.base_version,
        "created_at": iso(plan.created_at),
        "models": [_model(model) for model in plan.models],
        "views": {
            "created": [_ref(ref) for ref in plan.views.created],
            "replaced": [_ref(ref) for ref in plan.views.replaced],
            "dropped": [_ref(ref) for ref in plan.views.dropped],
        },
        "entries": [
            {
                "name": _name(entry.name),
                "snapshot_id": entry.snapshot_id,
                "table_id": entry.table_id,
            }
            for entry in plan.entries.values()
        ],
        "snapshot_ids": list(plan.snapshots),
        "start": iso(plan.start) if plan.start else None,
        "end": iso(plan.end) if plan.end else None,
        "expires_at": iso(plan.expires_at) if plan.expires_at else None,
        "warnings": list(plan.warnings),
    }


def _model(model: PlannedModel) -> Json:
    return {
        "name": _name(model.name),
        "change": model.change.value,
        "category": model.category.value if model.category else None,
        "reasons": model.reasons,
        "snapshot_id": model.snapshot_id,
        "previous_snapshot_id": model.previous_snapshot_id,
        "table": _table(model.table) if model.table else None,
        "builds": model.builds,
        "intervals": _ranges(model.intervals),
        "audits": model.audits,
        "restate": model.restate,
        "layout": model.layout,
    }


def _table(table: PhysicalTable) -> Json:
    return {
        "id": table.id,
        "ref": _ref(table.ref),
        "fill_version": table.fill_version,
        "columns": [
            {"name": c.name, "version": c.version, "type": c.type, "earlier": c.earlier}
            for c in table.columns
        ],
        "snapshot_id": table.snapshot_id,
        "intervals": _ranges(table.intervals),
        "created": table.created,
    }


def _ranges(intervals: IntervalSet) -> Json:
    return {"ranges": intervals.to_json()}


def _ref(ref: TableRef) -> Json:
    return {"namespace": ref.namespace, "name": ref.name}


def _name(name: ModelName) -> Json:
    return {"namespace": name.namespace, "name": name.name}
