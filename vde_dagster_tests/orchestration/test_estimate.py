"""How long a plan's work will take, from what its models took before."""

from __future__ import annotations

import dagster as dg

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.pages.plan_page import estimator, plan_metadata
from vde_dagster_tests.orchestration.conftest import NOW, load_catalog
from vde_dagster_tests.projects import ProjectFolder


def test_an_estimate_is_the_usual_time_of_an_interval_times_their_number(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    catalog = load_catalog(built)
    for seconds in (2.0, 3.0, 40.0):
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                ["marts", "daily"],
                metadata={"vde/fill_seconds": 2 * seconds, "vde/fill_intervals": 2},
            )
        )
    with Workspace.open(built.root) as workspace:
        plan = workspace.plan("prod", now=NOW)
        estimate = estimator(instance, catalog)
        found = {str(model.name): estimate(model) for model in plan.builds}
        page = plan_metadata(workspace.store, plan, estimate)
    assert found["marts.daily"] == 5 * 3.0
    assert found["marts.top"] is None
    assert "| 15 s |" in page["plan"].value
    assert page["vde/computes"] == len(plan.builds)
