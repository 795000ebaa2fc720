"""What Spark says of a plan before anybody approves it: checks on `vde/plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.errors import VdeError
from vde_dagster.orchestration.names import QUERIES_CHECK, TESTS_CHECK

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


def tests_check(workspace: Workspace, plan: Plan, key: dg.AssetKey) -> dict[str, Any]:
    """Run the unit tests of what a plan changes, and return the fields of the check.

    Starts Spark where one did not pass before. Where Spark cannot be had, the check warns.

    Args:
        workspace: The project.
        plan: The plan.
        key: The asset that shows plans.
    """
    fields: dict[str, Any] = {"asset_key": key, "check_name": TESTS_CHECK}
    try:
        ended = [one.result for one in workspace.test(plan)]
    except VdeError as error:
        return {
            **fields,
            "passed": False,
            "severity": dg.AssetCheckSeverity.WARN,
            "description": f"The unit tests could not be run: {error}",
        }
    failed = [f"{r.test.name} of {r.test.model}: {r.summary}" for r in ended if not r.passed]
    said = f"All {len(ended)} unit tests pass." if ended else "What changes has no unit tests."
    return {
        **fields,
        "passed": not failed,
        "severity": dg.AssetCheckSeverity.ERROR,
        "description": f"Would not be published, {'; '.join(failed)}" if failed else said,
        "metadata": {"vde/plan": plan.id, "vde/tests": len(ended), "vde/failed": _lines(failed)},
    }


def _description(found: Analysis) -> str:
    number = len(found.mistakes)
    if not number:
        return "Spark can run every query and audit that the plan changes."
    told = "1 mistake" if number == 1 else f"{number} mistakes"
    return f"{told}: {'; '.join(map(str, found.mistakes))}"


def _lines(texts: Any) -> dg.MarkdownMetadataValue:
    return dg.MetadataValue.md("\n".join(f"- {text}" for text in texts) or "-")
