"""Gates: what has to hold of a plan before anybody applies it, as plug-ins and their rules say.

A gate counts in the projects that give its table of settings. It is asked when a plan is made,
which keeps what it says for people to read, and again before anything is applied, which is what
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.base.plugins import Seam
from vde_dagster.errors import UsageError
from vde_dagster.execution.plans.proven_plan import is_applied, proven, require_proven
from vde_dagster.planning.plan.plan import Objection

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.plan.plan import Plan

Gate = Callable[["Handles", "Plan", datetime], Iterable[Objection]]
"""Takes the instant (UTC) at which it is asked; raises VdeError where it cannot say."""
GATES: Seam[Gate] = Seam("gates")


def objections(handles: Handles, plan: Plan) -> list[Objection]:
    """Ask the project's gates about a plan that does something.

    Raises:
        VdeError: A gate cannot say.
    """
    if plan.is_empty:
        return []
    now = handles.store.database.clock.now()
    found: list[Objection] = []
    for name in handles.settings.plugins:
        gate = GATES.find(name)
        if gate is not None:
            found += gate(handles, plan, now)
    return found


def objections_to_stored(
    handles: Handles, plan: Plan, *, approved: bool = False
) -> list[Objection]:
    """Ask the project's gates about a plan that somebody else may have written.

    Args:
        approved: Whether somebody has read the plan, so that its texts have to be true as well.

    Raises:
        VdeError: The plan's content does not make what it says, the environment moved since, or a
            gate cannot say.
    """
    if approved or any(GATES.find(name) is not None for name in handles.settings.plugins):
        return objections(handles, proven(handles, plan))
    require_proven(handles, plan)
    return []


def known_objections(handles: Handles, plan: Plan) -> Sequence[Objection]:
    """Return what gates had against a plan when it was made, or ask them where nobody did.

    Raises:
        VdeError: A gate cannot say.
    """
    return objections(handles, plan) if plan.objections is None else plan.objections


def require_open(handles: Handles, plan: Plan, approved_by: str | None) -> bool:
    """Make sure that a plan may be applied; the outbox has a record of one that may not.

    Gates are asked about what is derived from the plan's content, never about its stored fields.

    Args:
        approved_by: Who has read this very plan and wants it; None without an approval.

    Returns:
        Whether the plan was proved; one that was applied before is not, and must stay so.

    Raises:
        UsageError: A gate refuses the plan, it lacks an approval that a gate asks for, or its
            content does not make what it says.
        ConflictError: The environment moved since the plan was made.
    """
    if is_applied(handles, plan):
        return False
    found = objections_to_stored(handles, plan, approved=approved_by is not None)
    refused = [one for one in found if one.level == "refuse"]
    asked = [one for one in found if one.level == "ask" and not _approves(approved_by, one)]
    if (refused or asked) and handles.store.plans.record(plan.id) is not None:
        said = [one.to_json() for one in refused or asked]
        handles.store.outbox.add("held", [{"plan": plan.id, "objections": said}])
    if refused:
        raise _closed(plan, refused, "change what they are about, and plan again")
    if asked:
        to = ", ".join(dict.fromkeys(name for one in asked for name in one.approvers)) or "whoever"
        raise _closed(
            plan,
            asked,
            f"{to} may approve it: read it, then vde apply {plan.environment} --plan {plan.id}, or "
            "approve it in Dagster",
        )
    return True


def _approves(who: str | None, objection: Objection) -> bool:
    names = [name.casefold() for name in objection.approvers]
    return who is not None and (not names or who.casefold() in names)


def _closed(plan: Plan, found: Sequence[Objection], hint: str) -> UsageError:
    told = "; ".join(f"{one.rule}: {one.message}" for one in found)
    return UsageError(f"plan {plan.id} was not applied, rules are against it: {told}", hint=hint)
