"""Warnings of restatements, and the error if no chosen model can be computed again."""

from __future__ import annotations

from dataclasses import replace

from vde_dagster.base.times import instant_text
from vde_dagster.errors import UsageError
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.plan.affected_intervals import Widening
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.plan.restatement import Refusal, RefusalCode, Restatement, WidenedModel


def restated_plan(restatement: Restatement) -> Plan:
    """Return the plan of a restatement with its warnings.

    Raises:
        UsageError: None of the chosen models can be computed again.
    """
    refused = {refusal.name: refusal for refusal in restatement.refused}
    if restatement.chosen and restatement.chosen <= refused.keys():
        first = next(one for name, one in refused.items() if name in restatement.chosen)
        message, hint = _refusal(first)
        raise UsageError(message, hint=hint)
    extended = map(_extended, restatement.extended)
    refusals = (f"{message} ({hint})" for message, hint in map(_refusal, restatement.refused))
    plan = restatement.plan
    return replace(plan, warnings=(*plan.warnings, *extended, *refusals))


def _extended(model: WidenedModel) -> str:
    why = "its rows depend on its earlier rows"
    if model.why is Widening.FROM_BEGINNING:
        why = f"kind {model.kind} can only be computed again from its beginning"
    return f"{model.name} is computed again from {instant_text(model.first)} on: {why}"


def _permission(refusal: Refusal) -> str:
    if refusal.tool != "dbt":
        return "write disable_restatement false in its kind, and apply that first"
    if refusal.kind in ("INCREMENTAL_BY_UNIQUE_KEY", "INCREMENTAL_BY_TIME_RANGE"):
        return "remove full_refresh: false from its config in dbt, and apply that first"
    return f"no setting of dbt allows it for kind {refusal.kind}"


def _refusal(refusal: Refusal) -> tuple[str, str]:
    reason, hint = {
        RefusalCode.PRODUCTION_TABLE: (
            "production shows its table",
            f"restate it there: vde plan {PRODUCTION} --restate {refusal.name}",
        ),
        RefusalCode.FROM_FILE: (
            f"the rows of kind {refusal.kind} come from its file",
            "edit the file, and plan",
        ),
        RefusalCode.ADDS_TO_PREVIEW: (
            f"its preview has production's rows, and kind {refusal.kind} would add to them "
            "instead of replacing them",
            f"publish the change first, or restate it in {PRODUCTION}",
        ),
        RefusalCode.DISABLED: (
            "its restatement is disabled, because its source may no longer have its earlier rows",
            _permission(refusal),
        ),
    }[refusal.code]
    return f"{refusal.name} is not computed again: {reason}", hint
