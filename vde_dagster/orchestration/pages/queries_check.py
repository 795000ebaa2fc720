"""What Spark says of a plan before anybody approves it: checks on `vde/plan`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.errors import VdeError
from vde_dagster.orchestration.names import QUERIES_CHECK, TESTS_CHECK
from vde_dagster.state.lease_names import environment_lease

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


def wait_for_applies(workspace: Workspace, most_seconds: float = 600.0) -> bool:
    """Wait until nobody applies a plan; say whether that came.

    Another JVM beside an apply's would take the memory that it works with.

    Args:
        workspace: The project.
        most_seconds: After how long to give up.
    """
    store, until = workspace.store, time.monotonic() + most_seconds
    while True:
        with store.database.reading() as conn:
            held = store.leases.held(conn)
        if not any(lease.startswith(environment_lease("")) for lease in held):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(2.0)


def not_asked(key: dg.AssetKey, check: str) -> dict[str, Any]:
    """Return the fields of a check that somebody's long apply has kept from Spark."""
    return {
        "asset_key": key,
        "check_name": check,
        "passed": False,
        "severity": dg.AssetCheckSeverity.WARN,
        "description": "Spark was not asked beside an apply: materialise this partition again.",
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


def checks_by_spark(
    workspace: Workspace, plan: Plan, key: dg.AssetKey, *, queries: bool
) -> Iterator[dict[str, Any]]:
    """Yield the fields of the checks that need Spark, once nobody else works with it.

    Args:
        workspace: The project.
        plan: The plan.
        key: The asset that shows plans.
        queries: Whether queries are analysed, too.
    """
    free = wait_for_applies(workspace)
    yield tests_check(workspace, plan, key) if free else not_asked(key, TESTS_CHECK)
    if queries:
        yield queries_check(workspace, plan, key) if free else not_asked(key, QUERIES_CHECK)


def _description(found: Analysis) -> str:
    number = len(found.mistakes)
    if not number:
        return "Spark can run every query and audit that the plan changes."
    told = "1 mistake" if number == 1 else f"{number} mistakes"
    return f"{told}: {'; '.join(map(str, found.mistakes))}"


def _lines(texts: Any) -> dg.MarkdownMetadataValue:
    return dg.MetadataValue.md("\n".join(f"- {text}" for text in texts) or "-")
