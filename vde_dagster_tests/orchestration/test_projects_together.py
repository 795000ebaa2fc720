"""Several projects in one code location and one instance: neither touches what is the other's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.cli.main_job import QUIET
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.names import PROJECT_TAG, SHORT, Names
from vde_dagster.orchestration.resource import lend
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import partitions_of
from vde_dagster_tests.projects import ProjectFolder, copied_project

SALES = Names("sales")
TOP = "models/top.sql"
FILES = {
    "models/base.sql": "MODEL (name db.base, kind FULL); SELECT 1 AS n",
    TOP: "MODEL (name db.top, kind FULL); SELECT max(n) AS n FROM db.base",
}
PREFIX = '[tool.vde.dagster]\nprefix = "sales"\n'


@pytest.fixture
def first(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "first", FILES)


@pytest.fixture
def second(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "second", {**FILES, "pyproject.toml": PREFIX})


def together(first: ProjectFolder, second: ProjectFolder) -> dg.Definitions:
    return dg.Definitions.merge(vde_definitions(first.root), vde_definitions(second.root))


@contextmanager
def opened(*folders: ProjectFolder) -> Iterator[list[Workspace]]:
    with ExitStack() as stack:
        found = [stack.enter_context(open_fake(folder.root)) for folder in folders]
        for workspace in found:
            stack.enter_context(lend(workspace))
        yield found


def run(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    job: str,
    *,
    op: str | None = None,
    partition: str | None = None,
) -> dg.ExecuteInProcessResult:
    config = {"ops": {op: {"config": {"environment": "prod"}}}} if op else {}
    return definitions.resolve_job_def(job).execute_in_process(
        instance=instance, run_config={**QUIET, **config}, partition_key=partition
    )


def test_two_projects_load_in_one_location_with_names_of_their_own(
    first: ProjectFolder, second: ProjectFolder
) -> None:
    merged = together(first, second)
    dg.Definitions.validate_loadable(merged)
    repository = merged.get_repository_def()
    keys = {key.to_user_string() for key in merged.resolve_asset_graph().get_all_asset_keys()}
    control = ("plan", "apply", "reject", "environment", "janitor", "cost")
    own = {f"vde/{name}" for name in control}
    short = {"db/base", "db/top", *own}
    assert keys == short | {f"sales/{key}" for key in short}
    for named in (
        {job.name for job in repository.get_all_jobs()},
        {sensor.name for sensor in repository.sensor_defs},
        {schedule.name for schedule in repository.schedule_defs},
        set(repository.get_top_level_resources()),
    ):
        own = {name for name in named if not name.startswith("__")}
        others = {name for name in own if name.startswith("sales_")}
        assert {f"sales_{name}" for name in own - others} == others
    groups = {spec.group_name for spec in merged.resolve_all_asset_specs()}
    assert groups == {"vde", "db", "sales_vde", "sales_db"}


def test_what_is_done_in_one_project_leaves_the_other_as_it_is(
    first: ProjectFolder, second: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    with opened(first, second) as (one, two):
        merged = together(first, second)
        run(merged, instance, "vde_new_plan", op="plan")
        (waiting,) = instance.get_dynamic_partitions(str(SHORT.plans.name))
        done = run(merged, instance, "sales_vde_plan_and_apply", op="sales_plan_and_apply")
        assert done.dagster_run.tags[PROJECT_TAG] == "sales"

        # The other project's plan still waits, on a page of its own.
        assert list(instance.get_dynamic_partitions(str(SHORT.plans.name))) == [waiting]
        assert one.store.environments.get("prod") is None
        assert two.store.environments.get("prod") is not None
        assert partitions_of(instance, "sales/db/top")
        assert not partitions_of(instance, "db/top")
        (applied,) = instance.get_dynamic_partitions(str(SALES.plans.name))
        assert partitions_of(instance, "sales/vde/apply") == {applied}
        assert not instance.get_dynamic_partitions(str(SHORT.environments.name))

        run(merged, instance, "vde_apply_job", partition=waiting)
        assert partitions_of(instance, "db/top") == partitions_of(instance, "sales/db/top")
        assert one.store.environments.get("prod") is not None
        assert len(instance.fetch_materializations(SALES.environment_key, limit=9).records) == 1


def test_partitions_that_are_filled_from_a_page_are_the_projects_own(
    first: ProjectFolder, second: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    with opened(first, second) as (one, two):
        for name in ("vde_plan_and_apply", "sales_vde_plan_and_apply"):
            run(together(first, second), instance, name, op=name.replace("vde_", ""))
        before = [len(w.store.plans.recent()) for w in (one, two)]
        (version,) = partitions_of(instance, "sales/db/top")
        key = dg.AssetKey(["sales", "db", "top"])
        job = together(first, second).resolve_implicit_job_def_def_for_assets([key])
        assert job is not None
        job.execute_in_process(
            instance=instance, partition_key=version, asset_selection=[key], run_config=QUIET
        )
        after = [len(w.store.plans.recent()) for w in (one, two)]
        assert after == [before[0], before[1] + 1]


def test_sync_writes_a_projects_events_under_its_own_names(
    first: ProjectFolder, second: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    with opened(first, second) as (one, two):
        for workspace in (one, two):
            workspace.apply(workspace.plan("prod"))
        sync(two, instance)
        assert partitions_of(instance, "sales/db/top")
        assert not partitions_of(instance, "db/top")
        assert list(instance.get_dynamic_partitions(str(SALES.environments.name))) == ["prod"]
        assert not instance.get_dynamic_partitions(str(SHORT.environments.name))


def test_each_sensor_plans_its_own_project(first: ProjectFolder, second: ProjectFolder) -> None:
    with opened(first, second) as (one, two):
        merged = together(first, second)
        for name, job, workspace, names in (
            ("vde_code_changes", "vde_plan_job", one, SHORT),
            ("sales_vde_code_changes", "sales_vde_plan_job", two, SALES),
        ):
            instance = dg.DagsterInstance.ephemeral()
            with dg.build_sensor_context(instance) as context:
                result = merged.resolve_sensor_def(name)(context)
            assert isinstance(result, dg.SensorResult)
            (request,) = result.run_requests or ()
            assert request.job_name == job
            assert workspace.store.plans.load(str(request.partition_key))
            for own in (names.plans, names.rejections):
                assert instance.get_dynamic_partitions(str(own.name)) == [request.partition_key]
            for other in {SHORT, SALES} - {names}:
                assert not instance.get_dynamic_partitions(str(other.plans.name))


def test_a_copy_keeps_the_keys_that_its_settings_say_whichever_is_loaded_first(
    first: ProjectFolder, second: ProjectFolder, tmp_path: Path
) -> None:
    copy = ProjectFolder(copied_project(second.root, tmp_path / "copy"))
    for order in ((copy, first), (first, copy)):
        merged = together(*order)
        specs = {spec.key.to_user_string(): spec for spec in merged.resolve_all_asset_specs()}
        (source,) = specs["sales/db/top"].metadata["dagster/code_references"].code_references
        assert source.file_path == str(copy.root / TOP)
