"""No path of Dagster removes many models of an environment without being told that it is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from vde_dagster.cli.main_job import QUIET
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.jobs.sensors import evaluate
from vde_dagster.orchestration.resource import lend
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

ALWAYS = '[tool.vde.dagster]\nauto_apply = { prod = "always" }\n'
GONE = "all 3 models of 'prod'"


@pytest.fixture
def emptied(tmp_path: Path) -> ProjectFolder:
    """Production has three models, of which the files have none."""
    models = {f"models/m{n}.sql": f"MODEL (name db.m{n}); SELECT {n} AS n" for n in range(3)}
    folder = ProjectFolder(tmp_path / "shop", {**models, "pyproject.toml": ALWAYS})
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    for path in models:
        folder.remove(path)
    folder.write("models/new.sql", "MODEL (name db.new); SELECT 1 AS n")
    return folder


def entries(folder: ProjectFolder) -> set[str]:
    with open_fake(folder.root) as workspace:
        current = workspace.store.environments.get("prod")
        assert current is not None
        return {str(name) for name in current.entries}


def test_the_sensor_fails_and_applies_nothing_unasked(
    emptied: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    with pytest.raises(dg.Failure, match=GONE):
        evaluate(emptied.root, None, instance)
    assert entries(emptied) == {"db.m0", "db.m1", "db.m2"}


@pytest.mark.parametrize(
    ("job", "op"), [("vde_new_plan", "plan"), ("vde_plan_and_apply", "plan_and_apply")]
)
def test_jobs_plan_it_where_the_launchpad_says_that_it_is_meant(
    job: str, op: str, emptied: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    def run(**said: Any) -> dg.ExecuteInProcessResult:
        config = {"environment": "prod", **said}
        return (
            vde_definitions(emptied.root)
            .resolve_job_def(job)
            .execute_in_process(
                instance=instance, run_config={**QUIET, "ops": {op: {"config": config}}}
            )
        )

    with open_fake(emptied.root) as workspace, lend(workspace):
        with pytest.raises(dg.Failure, match=GONE):
            run()
        assert entries(emptied) == {"db.m0", "db.m1", "db.m2"}
        applied = op == "plan_and_apply"
        asked = {"accept_breaks": True} if applied else {}
        assert run(remove_models=True, **asked).success
    assert entries(emptied) == ({"db.new"} if applied else {"db.m0", "db.m1", "db.m2"})


def test_the_sensor_of_a_folder_without_models_says_so(
    emptied: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    emptied.remove("models/new.sql")
    with pytest.raises(dg.Failure, match="there are no models in"):
        evaluate(emptied.root, None, instance)
