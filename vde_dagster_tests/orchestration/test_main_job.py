"""`make run`: its runs are those of the code location that `vde ui` opens afterwards."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from rich.console import Console

from vde_dagster.cli.main_job import apply_in_dagster
from vde_dagster.orchestration.instance import open_instance
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import partitions_of
from vde_dagster_tests.orchestration.graphql import Location, open_location
from vde_dagster_tests.projects import ProjectFolder

RUNS = """
{ runsOrError(filter: {tags: [{key: ".dagster/repository", value: "__repository__@vde"}]}) {
  ... on Runs { results { jobName status repositoryOrigin {
    repositoryName repositoryLocationName } } } } }
"""
WORKSPACE = """
load_from:
  - python_module:
      module_name: vde_dagster.orchestration.location
      location_name: vde
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    """No instance but the project's own; the main job sets the variable for its runs."""
    monkeypatch.setenv("DAGSTER_HOME", "")


def apply(folder: ProjectFolder) -> None:
    with open_fake(folder.root) as workspace:
        apply_in_dagster(workspace, workspace.plan("prod", author="anna"), Console(quiet=True))


@pytest.mark.proof
def test_the_overview_and_the_pages_of_jobs_find_its_runs(
    built: ProjectFolder, home: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    built.write("workspace.yaml", WORKSPACE)
    apply(built)
    with (
        open_instance(built.root) as instance,
        open_location(built.root, instance, monkeypatch) as location,
    ):
        assert runs(location) == {
            (job, "SUCCESS", "__repository__", "vde") for job in ("vde_plan_job", "vde_apply_job")
        }
        assert partitions_of(instance, "vde/apply")


def runs(location: Location) -> set[tuple[str, str, str, str]]:
    found = location.ask(RUNS)["runsOrError"]["results"]
    return {
        (
            run["jobName"],
            run["status"],
            run["repositoryOrigin"]["repositoryName"],
            run["repositoryOrigin"]["repositoryLocationName"],
        )
        for run in found
    }


def test_a_project_that_says_nothing_has_the_location_that_vde_ui_opens(
    built: ProjectFolder, home: None
) -> None:
    apply(built)
    assert origins(built.root) == {"built"}


def test_what_pyproject_says_of_code_locations_is_not_guessed_at(
    built: ProjectFolder, home: None
) -> None:
    built.write("pyproject.toml", '[tool.dagster]\nmodule_name = "mine"')
    apply(built)
    assert origins(built.root) == {None}


def origins(root: Path) -> set[str | None]:
    with open_instance(root) as instance:
        found = instance.get_runs()
    assert {run.job_name for run in found} == {"vde_plan_job", "vde_apply_job"}
    assert all(run.status is dg.DagsterRunStatus.SUCCESS for run in found)
    return {run.remote_job_origin and run.remote_job_origin.location_name for run in found}
