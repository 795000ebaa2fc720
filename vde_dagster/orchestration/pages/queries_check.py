"""What Spark says of a plan's queries before anybody approves it: a check on `vde/plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.errors import VdeError
from vde_dagster.orchestration.names import QUERIES_CHECK

if TYPE_CHECKING:
    from vde_dagster.execution.analyse_queries import Analysis
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan import Plan


def queries_check(workspace: Workspace, plan: Plan, key: dg.AssetKey) -> dict[str, Any]:
    """Let Spark analyse a plan's queries, and return the fields of the check.

    Starts Spark, where the plan changes a query. Where Spark cannot be had, the check warns.

    Args:
        workspace: The project.
        plan: The plan.
        key: The asset that shows plans.
    """
    fields: dict[str, Any] = {"asset_key": key, "check_name": QUERIES_CHECK}
    try:
        found = workspace.analyse(plan)
    except VdeError as error:
        return {
            **fields,
            "passed": False,
            "severity": dg.AssetCheckSeverity.WARN,
            "description": f"Spark could not be asked: {error}",
        }
    return {
        **fields,
        "passed": not found.mistakes,
        "severity": dg.AssetCheckSeverity.ERROR,
        "description": _description(found),
        "metadata": {
            "vde/plan": plan.id,
            "vde/analysed": len(found.analysed),
            "vde/mistakes": _lines(map(str, found.mistakes)),
            "vde/left_out": _lines(f"{name}: {why}" for name, why in found.left_out.items()),
        },
    }


def _description(found: Analysis) -> str:
    number = len(found.mistakes)
    if not number:
        return "Spark can run every query and audit that the plan changes."
    told = "1 mistake" if number == 1 else f"{number} mistakes"
    return f"{told}: {'; '.join(map(str, found.mistakes))}"


def _lines(texts: Any) -> dg.MarkdownMetadataValue:
    return dg.MetadataValue.md("\n".join(f"- {text}" for text in texts) or "-")
