"""A change of the project's files becomes a plan; the same files never plan twice."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.names import SHORT
from vde_dagster_tests.projects import ProjectFolder


def tick(
    folder: ProjectFolder, cursor: str | None = None, instance: dg.DagsterInstance | None = None
) -> Any:
    sensor = vde_definitions(folder.root).resolve_sensor_def("vde_code_changes")
    instance = instance or dg.DagsterInstance.ephemeral()
    with dg.build_sensor_context(instance, cursor=cursor) as context:
        return sensor(context)


def test_the_first_tick_plans_and_asks_for_the_plans_page(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    result = tick(built, instance=instance)
    (request,) = result.run_requests
    assert request.job_name == "vde_plan_job"
    assert request.run_key == request.partition_key
    for definition in (SHORT.plans, SHORT.rejections):
        assert instance.get_dynamic_partitions(str(definition.name)) == [request.partition_key]
    with Workspace.open(built.root) as workspace:
        assert workspace.store.plans.load(request.partition_key).environment == "prod"
        assert not workspace.started_engine


def test_the_cursor_is_a_short_hash_and_unchanged_files_do_nothing(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    first = tick(built, instance=instance)
    assert len(first.cursor.split()[0]) <= 64
    assert isinstance(tick(built, first.cursor, instance), dg.SkipReason)


def test_an_edit_is_planned_again(built: ProjectFolder) -> None:
    first = tick(built)
    built.edit("models/marts/top.sql", "DESC", "ASC")
    second = tick(built, first.cursor)
    assert second.run_requests[0].run_key != first.run_requests[0].run_key


def test_a_broken_file_fails_the_tick_with_its_place_and_is_looked_at_again(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    first = tick(built, instance=instance)
    built.write("models/marts/broken.sql", "MODEL (name marts.broken, kind FULL);\nSELECT FROM")
    with pytest.raises(dg.Failure, match=r"models/marts/broken\.sql:2"):
        tick(built, first.cursor, instance)
    built.remove("models/marts/broken.sql")
    assert isinstance(tick(built, first.cursor, instance), dg.SkipReason)


def test_an_environment_that_asks_for_it_is_applied_at_once(built: ProjectFolder) -> None:
    built.write(
        "pyproject.toml",
        """
        [tool.vde.dagster]
        default_environment = "prod"
        auto_apply = { prod = "never", dev = "always" }
        """,
    )
    result = tick(built)
    asked = [(r.job_name, r.tags["vde/environment"]) for r in result.run_requests]
    assert asked == [("vde_plan_job", "prod"), ("vde_plan_job", "dev"), ("vde_auto_apply", "dev")]


def test_a_python_model_is_read_outside_this_process(built: ProjectFolder) -> None:
    built.write(
        "models/marts/flags.py",
        """
        import os
        from vde_dagster import model

        os.environ["VDE_TEST_LEAK"] = "yes"

        @model("marts.flags", kind="FULL", columns={"flag": "int"})
        def flags(context):
            return context.spark.sql("SELECT 1 AS flag")
        """,
    )
    import os

    tick(built)
    assert "VDE_TEST_LEAK" not in os.environ
