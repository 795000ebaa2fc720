"""What is said where a plan has nothing to publish: that nothing is missing, or what is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan import Plan


def missing_json(workspace: Workspace, plan: Plan) -> dict[str, Any]:
    """Return `missing` of the JSON form of a plan: what an empty one leaves undone."""
    if not plan.is_empty:
        return {"missing": {"models": {}, "commands": []}}
    return {"missing": workspace.whats_missing(plan).to_json()}


def nothing_to_do(workspace: Workspace, plan: Plan, *, selected: bool = False) -> str:
    """Say that there is nothing to publish, and all that is missing all the same.

    Args:
        workspace: The project.
        plan: An empty plan.
        selected: Whether only the changes of some models were asked for.
    """
    from vde_dagster.planning.plan import PlanKind

    if plan.kind is PlanKind.RESTATEMENT:
        return f"[bold]{plan.environment}[/]: nothing to restate, nothing is filled in that range"
    missing = workspace.whats_missing(plan)
    what = "nothing that was selected has changed" if selected else "nothing has changed"
    if missing:
        return f"[bold]{plan.environment}[/]: {what}; {missing.sentence()}"
    if selected:
        return f"[bold]{plan.environment}[/]: {what}, and nothing is missing"
    return f"[bold]{plan.environment}[/] is up to date: nothing to do"
