"""Runs in another process and folder with only the state's URL, as K8sRunLauncher starts them."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.reconstruct import ReconstructableJob, ReconstructableRepository

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.consumer import forward_outbox
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster_tests.orchestration.conftest import partitions_of
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.server, pytest.mark.dagster, pytest.mark.turns(12, "plays and tours")]

SETTINGS = """
[tool.vde]
id = "shop"
state_url = "${{STATE_OF_THE_TEST}}"
warehouse = "{root}/warehouse"
"""


class Containers:
    """A project whose runs start in a copy of it, and an instance with such a launcher."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        url = f"sqlite:///{root}/state.db"
        files = {
            "models/one.sql": "MODEL (name db.one, kind VIEW); SELECT 1 AS n",
            "pyproject.toml": SETTINGS.format(root=root),
        }
        self.here = ProjectFolder(root / "here", files)
        self.there = shutil.copytree(self.here.root, root / "image" / "app")
        self.home, self.url = root / "home", url
        self.home.mkdir()
        monkeypatch.setenv("STATE_OF_THE_TEST", url)
        monkeypatch.setenv("VDE_PROJECT", str(self.here.root))
        monkeypatch.setenv("DAGSTER_HOME", str(self.home))
        monkeypatch.delitem(__import__("sys").modules, LOCATION, raising=False)

    def open(self, **environment: str) -> dg.DagsterInstance:
        """Open the instance; runs get these variables."""
        variables = {"VDE_PROJECT": str(self.there), "DAGSTER_HOME": str(self.home), **environment}
        launcher = {
            "module": "vde_dagster_tests.orchestration.elsewhere",
            "class": "ElsewhereLauncher",
            "config": {"folder": str(self.there), "environment": variables},
        }
        config = {"telemetry": {"enabled": False}, "run_launcher": launcher}
        (self.home / "dagster.yaml").write_text(json.dumps(config))
        return dg.DagsterInstance.from_config(str(self.home))

    def launch(self, instance: dg.DagsterInstance) -> dg.DagsterRun:
        """Launch `vde_plan_and_apply` and return its run after the end."""
        repository = ReconstructableRepository(ModuleCodePointer(LOCATION, "defs"))
        job = ReconstructableJob(repository, "vde_plan_and_apply")
        run = instance.create_run_for_job(
            job.get_definition(),
            run_config={"ops": {"plan_and_apply": {"config": {"environment": "prod"}}}},
            job_code_origin=job.get_python_origin(),
        )
        instance.launch_run(run.run_id, workspace=None)
        found = instance.get_run_by_id(run.run_id)
        assert found is not None
        return found


LOCATION = "vde_dagster.orchestration.location"


@pytest.fixture
def containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Containers:
    return Containers(tmp_path, monkeypatch)


def test_a_run_in_a_container_publishes_and_records_once(containers: Containers) -> None:
    with containers.open(STATE_OF_THE_TEST=containers.url) as instance:
        run = containers.launch(instance)
        said = [entry.user_message for entry in instance.all_logs(run.run_id)]
        assert run.status == dg.DagsterRunStatus.SUCCESS, "\n".join(said)
        root, log = containers.here.root, logging.getLogger("vde")
        with Workspace.open(root) as workspace:
            published = workspace.store.environments.get("prod")
            assert published is not None
            assert published.version == 1
            shown = {asset: partitions_of(instance, asset) for asset in ("db/one", "vde/apply")}
            assert all(len(found) == 1 for found in shown.values()), shown
            assert isinstance(forward_outbox(root, instance, None, VdeTranslator(root), log), str)
            assert sync(workspace, instance).is_empty
        assert shown == {asset: partitions_of(instance, asset) for asset in shown}
    assert not (containers.there / ".vde" / "vde.db").exists()


def test_a_container_without_the_states_url_fails_with_the_name_of_the_variable(
    containers: Containers,
) -> None:
    with containers.open() as instance:
        run = containers.launch(instance)
        assert run.status != dg.DagsterRunStatus.SUCCESS
        events = [(one.user_message, one.dagster_event) for one in instance.all_logs(run.run_id)]
        said = [f"{text} {event and event.event_specific_data}" for text, event in events]
    assert any("STATE_OF_THE_TEST" in line for line in said), "\n".join(said)
    with Workspace.open(containers.here.root) as workspace:
        assert workspace.store.environments.get("prod") is None
