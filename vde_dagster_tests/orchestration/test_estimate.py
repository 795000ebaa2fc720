"""How long a plan's work will take, from what its models took before."""

from __future__ import annotations

from dataclasses import replace

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.pages.plan_page import plan_metadata
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster_tests.orchestration.conftest import NOW
from vde_dagster_tests.projects import ProjectFolder


def test_the_page_of_a_plan_says_what_its_models_took_before(built: ProjectFolder) -> None:
    with Workspace.open(built.root) as workspace:
        plan = workspace.plan("prod", now=NOW)
        daily = next(model for model in plan.builds if model.name == ModelName("marts", "daily"))
        assert daily.table is not None
        table = workspace.store.tables.ensure(daily.table)
        (whole,) = daily.intervals
        half = replace(whole, end=whole.start + (whole.end - whole.start) / 2)
        for number, seconds in enumerate((7.5, 7.5)):
            record = FillRecord(table.id, half, f"plan-{number}", 1, 10, None, seconds)
            workspace.store.fills.record(record)
        estimate = workspace.plans.estimate(plan)
        page = plan_metadata(workspace.store, plan, estimate)
    assert set(estimate.models) == {daily.name}
    assert "| 15 s |" in page["plan"].value
    estimated, _, basis = page["vde/estimate"].partition(" rows, ")
    assert estimated == "about 15 s (10 to 22) of work, 20 (13 to 30)"
    assert "2 earlier" in basis
    assert page["vde/computes"] == len(plan.builds)
