"""The documented JSON form of a plan (`vde plan --json`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vde_dagster.planning.intervals.interval import iso
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.reports.reasons import describe_reason, describe_skip


def plan_json(plan: Plan) -> dict[str, Any]:
    statements = plan.complete_statements
    return {
        "id": plan.id,
        "environment": plan.environment,
        **({"branch": plan.branch} if plan.branch else {}),
        "kind": plan.kind.value,
        "base_version": plan.base_version,
        "created_at": iso(plan.created_at),
        "breaks": [broken.to_json() for broken in plan.breaks],
        "models": [
            {**model_json(model), "version": plan.version_of(model)} for model in plan.models
        ],
        "views": plan.views.to_json(),
        "empty": plan.is_empty,
        "warnings": list(plan.notices),
        "outdates": [outdated.to_json() for outdated in plan.outdates],
        "before_all": list(statements.before),
        "after_all": list(statements.after),
        "keeps": list(plan.other_kept),
    }


def model_json(model: PlannedModel) -> dict[str, Any]:
    return {
        "name": str(model.name),
        "change": model.change.value,
        "category": model.category.value if model.category else None,
        "reasons": list(map(describe_reason, model.reasons)),
        "reason_codes": [None if isinstance(one, str) else one.code.value for one in model.reasons],
        "snapshot": model.snapshot_id,
        "previous_snapshot": model.previous_snapshot_id,
        "table": str(model.table.ref) if model.table else None,
        "builds": model.builds,
        "audits": model.audits,
        "restate": model.restate,
        "layout": model.layout,
        "intervals": model.intervals.to_json(),
        **({"records_only": True} if model.records_only else {}),
        **({"catches_up": True} if model.catches_up else {}),
        "skips": skip_json(model.skips) if model.skips is not None else None,
        "computed_always": describe_reason(model.always) or None,
        **({"in_place": model.in_place.to_json()} if model.in_place else {}),
        **({"batches": asdict(model.batches)} if model.batches else {}),
        **({"backlog": model.backlog.to_json()} if model.backlog else {}),
        **({"moves": list(model.moves)} if model.moves else {}),
    }


def skip_json(skipped: Skipped) -> dict[str, Any]:
    return {
        "why": describe_skip(skipped),
        "since": iso(skipped.since),
        "saved_seconds": round(skipped.seconds, 3) if skipped.seconds is not None else None,
        "saved_bytes": skipped.bytes,
    }
