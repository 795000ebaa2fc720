"""The sensor sends what was done outside of Dagster, and a service that is down fails its tick."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.orchestration import vde_definitions
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.notifications.listening import receiving
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.dagster


def sensor(folder: ProjectFolder) -> dg.SensorDefinition:
    return vde_definitions(folder.root).resolve_sensor_def("vde_notify")


def test_a_tick_sends_once_and_fails_where_nobody_takes_it(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, SHOP)
    with receiving() as server, dg.DagsterInstance.ephemeral() as instance:
        settings = (
            "[tool.vde]\nname = 'shop'\n"
            "[tool.vde.notify]\ndagster_url = 'http://dagster.example/'\n"
            f"targets.team = {{ url = '{server.url()}' }}\n"
        )
        folder.write("pyproject.toml", settings)
        with open_fake(folder.root) as workspace:
            workspace.apply(workspace.plan("prod"))
        vde_notify = sensor(folder)
        assert vde_notify.default_status == dg.DefaultSensorStatus.STOPPED
        with dg.build_sensor_context(instance) as context:
            server.refuses = True
            with pytest.raises(dg.Failure, match="'team' did not accept"):
                vde_notify(context)
            server.refuses = False
            assert "team: 1 message" in str(vde_notify(context))
            assert "team: 0 messages" in str(vde_notify(context))
    (one,) = server.got
    link = "http://dagster.example/assets/vde/environment?view=partitions&partition=prod"
    assert one["message"].endswith(link)
    folder.write("pyproject.toml", f"{settings}sensor = true\n")
    assert sensor(folder).default_status == dg.DefaultSensorStatus.RUNNING


def test_a_project_that_notifies_nobody_has_no_sensor(tmp_path: Path) -> None:
    definitions = vde_definitions(ProjectFolder(tmp_path, SHOP).root)
    assert "vde_notify" not in [one.name for one in definitions.sensors or ()]
