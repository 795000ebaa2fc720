"""Gates: conditions of plug-ins that a plan must meet before it is applied.

A gate is active if the project has settings for it. Gates are evaluated when a plan is created, to
show the result, and again before the plan is applied. Only the second result decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, get_args

from vde_dagster.base.plugins import Seam
from vde_dagster.errors import UsageError, VdeError
from vde_dagster.execution.plans.proven_plan import proven, require_proven
from vde_dagster.planning.plan.plan import Level, Objection, Plan

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles

Gate = Callable[["Handles", "Plan", datetime], Iterable[Objection]]
"""Receives the time (UTC) of evaluation; raises VdeError if it cannot decide."""
GATES: Seam[Gate] = Seam("gates")


@dataclass(frozen=True, slots=True)
class Gates:
    handles: Handles

    def objections(self, plan: Plan) -> list[Objection]:
        """Collect the objections of all gates to a plan. An empty plan has no objections.

        Raises VdeError if a gate cannot decide, fails, or returns anything other than objections.
        """
        if plan.is_empty:
            return []
        now = self.handles.store.database.clock.now()
        found: list[Objection] = []
        for name in self.handles.settings.plugins:
            gate = GATES.find(name)
            if gate is not None:
                found += _evaluate(name, gate, self.handles, plan, now)
        return found

    def current_objections(self, plan: Plan, *, approved: bool = False) -> list[Objection]:
        """Collect the objections of all gates to a plan that another user may have written.

        Args:
            approved: Whether a person has read the plan.

        Raises:
            VdeError: The plan's fields contradict its content, the environment has changed since,
                or a gate cannot decide.
        """
        # If a person has read the plan, its texts are checked, too.
        if approved or any(GATES.find(name) is not None for name in self.handles.settings.plugins):
            return self.objections(proven(self.handles, plan))
        require_proven(self.handles, plan)
        return []

    def stored_objections(self, plan: Plan) -> Sequence[Objection]:
        """Return the objections stored with a plan, or collect them if none were stored.

        Raises VdeError if a gate cannot decide.
        """
        return self.objections(plan) if plan.objections is None else plan.objections

    def require_open(self, plan: Plan, approved_by: str | None) -> bool:
        """Check that a plan may be applied, and record refusals of stored plans in the outbox.

        Args:
            approved_by: Person who has approved exactly this plan; None if it is not approved.

        Returns:
            Whether the gates checked the plan; false if the plan was applied before.

        Raises:
            UsageError: A gate refuses the plan, an approval is missing, or the plan contradicts its
                content.
            ConflictError: The environment has changed since the plan was created.
        """
        if self.handles.store.plans.is_applied(plan.id):
            return False
        found = self.current_objections(plan, approved=approved_by is not None)
        refused = [one for one in found if one.level == "refuse"]
        asked = [
            one for one in found if one.level == "ask" and not _is_approved_by(approved_by, one)
        ]
        if (refused or asked) and self.handles.store.plans.record(plan.id) is not None:
            objections = [one.to_json() for one in refused or asked]
            self.handles.store.outbox.add("held", [{"plan": plan.id, "objections": objections}])
        if refused:
            hint = "change the project to meet the rules, and plan again: vde plan "
            raise _refusal(plan, refused, hint + plan.environment)
        if asked:
            to = (
                ", ".join(dict.fromkeys(name for one in asked for name in one.approvers))
                or "anyone"
            )
            raise _refusal(
                plan,
                asked,
                f"{to} can approve it: review it, then run vde apply {plan.environment} --plan "
                f"{plan.id}, or approve it in Dagster",
            )
        return True


def _evaluate(
    name: str, gate: Gate, handles: Handles, plan: Plan, now: datetime
) -> list[Objection]:
    try:
        found = [*gate(handles, plan, now)]
    except VdeError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    else:
        # An unknown level would let the plan pass.
        odd = (one for one in found if getattr(one, "level", None) not in get_args(Level))
        if (wrong := next(odd, None)) is None:
            return found
        why = f"it returned {wrong!r} in place of an objection with a known level"
    raise UsageError(
        f"the gate '{name}' cannot decide about plan {plan.id}: {why}",
        hint=f"correct the plug-in, or remove the table {name} from the settings",
    )


def _is_approved_by(who: str | None, objection: Objection) -> bool:
    names = [name.casefold() for name in objection.approvers]
    return who is not None and (not names or who.casefold() in names)


def _refusal(plan: Plan, found: Sequence[Objection], hint: str) -> UsageError:
    reasons = "; ".join(f"{one.rule}: {one.message}" for one in found)
    return UsageError(f"plan {plan.id} was not applied because of rules: {reasons}", hint=hint)
