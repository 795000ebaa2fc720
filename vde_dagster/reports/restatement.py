"""Warnings of restatements, and the error if nothing that was chosen can be computed again."""

from __future__ import annotations

from dataclasses import replace

from vde_dagster.base.times import instant_text
from vde_dagster.errors import UsageError
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.plan.affected_intervals import Widening
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.plan.restatement import Extended, Refusal, RefusalCode, Restatement


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


def _extended(model: Extended) -> str:
    why = "its rows stand on its earlier ones"
    if model.why is Widening.FROM_BEGINNING:
        why = f"kind {model.kind} can only be computed again from its beginning"
    return f"{model.name} is computed again from {instant_text(model.first)} on: {why}"


def _refusal(refusal: Refusal) -> tuple[str, str]:
    """Return why a table is not computed again, and what to do instead."""
    reason, hint = {
        RefusalCode.PRODUCTION_TABLE: (
            "production shows its table",
            f"restate it there: vde plan {PRODUCTION} --restate {refusal.name}",
        ),
        RefusalCode.FROM_FILE: (
            f"kind {refusal.kind} holds what its file says",
            "edit the file, and plan",
        ),
        RefusalCode.ADDS_TO_PREVIEW: (
            f"kind {refusal.kind} would add its rows to those that its preview has of production",
            f"publish the change first, or restate it in {PRODUCTION}",
        ),
        RefusalCode.DISABLED: (
            "its restatement is disabled, for fear that its source has no longer what it is made "
            "of",
            "write disable_restatement false in its kind, and apply that first",
        ),
    }[refusal.code]
    return f"{refusal.name} is not computed again: {reason}", hint
