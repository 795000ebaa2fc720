"""What Spark said of a plan's queries, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.errors import ProjectError

if TYPE_CHECKING:
    from vde_dagster.cli.output import Output
    from vde_dagster.execution.analyse_queries import Analysis
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan import Plan


def checked(workspace: Workspace, plan: Plan) -> Analysis:
    """Let Spark analyse a plan that is not stored yet, then store it.

    Raises:
        ProjectError: Spark refuses a query or an audit; it lists all, and nothing is stored.
        StoreError: Spark cannot be had.
    """
    analysis = workspace.analyse(plan)
    if analysis.mistakes:
        raise ProjectError.of(analysis.mistakes)
    if not plan.is_empty:
        workspace.store.plans.save(plan)
    return analysis


def show_check(output: Output, analysis: Analysis) -> None:
    """Say on stderr how much was analysed, and what was not."""
    from vde_dagster.cli.plan_view import count

    output.note(f"Spark has analysed {count(len(analysis.analysed), 'model')}: no mistake")
    for name, why in analysis.left_out.items():
        output.note(f"not analysed: {name}: {why}")
