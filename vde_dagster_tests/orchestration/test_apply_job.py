"""Applying a plan through Dagster's jobs, on Spark: what the pages show afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.names import QUERIES_CHECK, SHORT
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.orchestration.conftest import (
    apply_all,
    partitions_of,
    run_job,
    version_of,
)
from vde_dagster_tests.projects import ProjectFolder, copied_project

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

DAYS = [f"2024-01-0{n}" for n in range(1, 6)]


@pytest.fixture(scope="module")
def applied(
    loaded: Path, tmp_path_factory: pytest.TempPathFactory, spark_engine: SparkEngine
) -> Iterator[tuple[ProjectFolder, dg.DagsterInstance]]:
    """The project when it was applied once, and an instance that saw it."""
    root = tmp_path_factory.mktemp("applied") / "built"
    folder = ProjectFolder(copied_project(loaded / "built", root))
    with dg.DagsterInstance.ephemeral() as instance:
        apply_all(folder, instance)
        yield folder, instance


def test_the_first_apply_fills_the_grid_and_a_second_finds_nothing_to_do(
    applied: tuple[ProjectFolder, dg.DagsterInstance],
) -> None:
    built, instance = applied
    daily = version_of(built, "marts.daily")
    assert partitions_of(instance, "marts/daily") == {f"{daily}|{day}" for day in DAYS}
    top = version_of(built, "marts.top")
    assert partitions_of(instance, "marts/top") == {top}
    assert partitions_of(instance, "staging/orders") == {version_of(built, "staging.orders")}
    assert partitions_of(instance, "vde/environment") == {"prod"}
    (plan_id,) = instance.get_dynamic_partitions(str(SHORT.plans.name))
    assert partitions_of(instance, "vde/plan") == {plan_id}
    assert partitions_of(instance, "vde/apply") == {plan_id}

    again = apply_all(built, instance)
    assert not [event for event in again.all_events if event.is_step_materialization]


def test_every_event_says_what_it_was_made_of(
    applied: tuple[ProjectFolder, dg.DagsterInstance],
) -> None:
    built, instance = applied
    daily, running = version_of(built, "marts.daily"), version_of(built, "marts.running")
    key = dg.AssetKey(["marts", "running"])
    records = instance.fetch_materializations(key, limit=10).records
    assert len(records) == 5
    for record in records:
        tags = record.event_log_entry.tags or {}
        assert tags["dagster/code_version"] == running
        assert tags["dagster/data_version"].startswith(f"{running}@")
        assert tags["dagster/input_data_version/marts/daily"] == daily
        assert int(tags["dagster/input_event_pointer/marts/daily"]) > 0
        assert tags["vde/environment"] == "prod"


def test_audits_are_checks_and_failing_rows_are_shown(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    built.edit(
        "models/marts/top.sql",
        "kind FULL",
        "kind FULL, audits (accepted_values(column := customer, is_in := (10, 11), "
        "blocking := false))",
    )
    result = apply_all(built, instance)
    checks = {e.check_name: e for e in result.get_asset_check_evaluations()}
    failed = [e for e in checks.values() if not e.passed and e.asset_key != SHORT.plan_key]
    assert [e.asset_key for e in failed] == [dg.AssetKey(["marts", "top"])]
    assert failed[0].severity == dg.AssetCheckSeverity.WARN
    assert failed[0].metadata["vde/failed_rows"].value == 1
    assert "| 12 |" in str(failed[0].metadata["vde/failing_rows"].value)
    graph = load_checks(built)
    assert set(checks) <= graph


def load_checks(folder: ProjectFolder) -> set[str]:
    from vde_dagster.orchestration import vde_definitions

    graph = vde_definitions(folder.root).resolve_asset_graph()
    return {key.name for key in graph.asset_check_keys}


def test_a_failed_model_fails_the_run_and_a_retry_of_the_same_plan_goes_on(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    built.edit(
        "models/marts/top.sql", "customer, revenue,", "customer, INT(raise_error('no')) AS e,"
    )
    with Workspace.open(built.root) as workspace:
        plan = workspace.plan("prod", author="anna")
    instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id])
    for _ in range(2):
        result = run_job(built, instance, "vde_apply_job", partition=plan.id, raise_on_error=False)
        assert not result.success
        assert len(partitions_of(instance, "marts/daily")) == 5
        assert partitions_of(instance, "vde/environment") == set()
        assert partitions_of(instance, "vde/apply") == set()
        (failed,) = [event for event in result.all_events if event.is_step_failure]
        said = failed.step_failure_data.user_failure_data
        assert said is not None
        assert "models/marts/top.sql:2: marts.top" in str(said.description)
        assert "[USER_RAISED_EXCEPTION] no" in str(said.description)
        assert "| `marts.top` | `models/marts/top.sql:2` |" in str(said.metadata["vde/failures"])
        stacks = Path(str(said.metadata["vde/log"].value)).read_text()
        assert "at org.apache.spark" in stacks


def test_spark_analyses_what_a_plan_changes_before_its_approval(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    built.edit("models/marts/top.sql", "customer, revenue,", "customer, revenue + array(1) AS r,")
    with Workspace.open(built.root) as workspace:
        plan = workspace.plan("prod", author="anna")
    instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id])
    shown = run_job(built, instance, "vde_plan_job", partition=plan.id)
    made = run_job(built, instance, "vde_new_plan", op="plan")
    assert plan.id in partitions_of(instance, "vde/plan")
    for result in (shown, made):
        checks = {e.check_name: e for e in result.get_asset_check_evaluations()}
        check = checks[QUERIES_CHECK]
        assert (check.asset_key, check.passed) == (SHORT.plan_key, False)
        assert check.severity == dg.AssetCheckSeverity.ERROR
        said = str(check.metadata["vde/mistakes"].value)
        assert said.startswith("- models/marts/top.sql:2:18: marts.top: [DATATYPE_MISMATCH.")
        assert check.metadata["vde/analysed"].value == 5

    built.edit("models/marts/top.sql", "revenue + array(1) AS r,", "revenue,")
    right = run_job(built, instance, "vde_new_plan", op="plan")
    (check,) = [e for e in right.get_asset_check_evaluations() if e.check_name == QUERIES_CHECK]
    assert check.passed

    built.write("pyproject.toml", "[tool.vde.dagster]\ncheck_queries = false")
    off = run_job(built, instance, "vde_plan_job", partition=plan.id)
    assert QUERIES_CHECK not in {e.check_name for e in off.get_asset_check_evaluations()}


def test_an_unknown_and_a_stale_plan_fail_without_a_retry(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    with Workspace.open(built.root) as workspace:
        plan = workspace.plan("dev", author="anna")
    apply_all(built, instance, "dev")
    instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id, "dev-nothing"])
    for partition, text in ((plan.id, "was changed by"), ("dev-nothing", "does not exist")):
        with pytest.raises(dg.Failure, match=text) as failure:
            run_job(built, instance, "vde_apply_job", partition=partition)
        assert failure.value.allow_retries is False


def test_approving_is_materialising_the_same_partition_of_apply(
    built: ProjectFolder, instance: dg.DagsterInstance, spark_engine: SparkEngine
) -> None:
    run_job(built, instance, "vde_new_plan", {"environment": "dev"}, op="plan")
    (plan_id,) = instance.get_dynamic_partitions(str(SHORT.plans.name))
    assert partitions_of(instance, "vde/apply") == set()
    run_job(built, instance, "vde_apply_job", partition=plan_id)
    assert partitions_of(instance, "vde/apply") == {plan_id}
    (record,) = instance.fetch_materializations(SHORT.environment_key, limit=5).records
    event = record.asset_materialization
    assert event is not None
    views = event.metadata["vde/views"]
    assert isinstance(views, dg.TableMetadataValue)
    assert {r.data["view"] for r in views.records} >= {"marts__dev.daily", "staging__dev.orders"}
    (published,) = {r.data["since (UTC)"] for r in views.records}
    assert datetime.strptime(f"2024 {published}", "%Y %d %b %H:%M")
    assert instance.fetch_materializations(SHORT.apply_key, limit=1).records


def test_rollback_moves_no_data_and_adds_to_the_history(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    apply_all(built, instance)
    before = partitions_of(instance, "marts/top")
    built.edit("models/marts/top.sql", "DESC", "ASC")
    apply_all(built, instance)
    run_job(built, instance, "vde_rollback", {"environment": "prod", "version": 1}, op="rollback")
    events = [
        record.asset_materialization
        for record in instance.fetch_materializations(SHORT.environment_key, limit=5).records
    ]
    assert [e.metadata["vde/version"].value for e in events if e] == [3, 2, 1]
    assert before < partitions_of(instance, "marts/top")
    assert events[0] is not None
    assert events[0].metadata["vde/note"].value == "rollback to 1"


def test_an_environment_is_dropped_and_cleaned_up_and_the_run_shows_what_it_did_and_why(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    apply_all(built, instance)
    built.edit("models/marts/running.sql", "revenue / orders", "2 * revenue / orders")
    apply_all(built, instance, "dev")
    run_job(built, instance, "vde_drop_environment", {"environment": "dev"}, op="drop_environment")
    instance.add_dynamic_partitions(str(SHORT.plans.name), ["forgotten"])
    result = run_job(built, instance, "vde_janitor", {"dry_run": False}, op="janitor")
    (output,) = [e.step_output_data for e in result.all_events if e.is_successful_output]
    metadata = output.metadata
    assert metadata["vde/steps"].value >= 1
    assert metadata["vde/failures"].value == 0
    assert "| drop environment | `dev` | it expired at " in metadata["vde/report"].value
    (event,) = instance.fetch_materializations(SHORT.janitor_key, limit=9).records
    assert event.asset_materialization is not None
    shown = event.asset_materialization.metadata
    assert shown["vde/steps"] == metadata["vde/steps"]
    assert shown["vde/bytes"].value == sum(
        decision["bytes"] or 0
        for decision in metadata["vde/decisions"].value
        if decision["outcome"] == "done" and decision["action"] != "give_up_table"
    )
    before = metadata["vde/kept"].value
    dry = run_job(built, instance, "vde_janitor")
    (again,) = [e.step_output_data for e in dry.all_events if e.is_successful_output]
    assert again.metadata["vde/dry_run"].value is True
    assert before == 0
    assert again.metadata["vde/kept"].value >= 1
    assert "| kept | `" in again.metadata["vde/kept_objects"].value
    assert len(instance.fetch_materializations(SHORT.janitor_key, limit=9).records) == 1
    assert len(instance.fetch_observations(SHORT.janitor_key, limit=9).records) == 1
    assert {d["action"] for d in metadata["vde/decisions"].value} >= {"drop_environment"}
    assert "forgotten" not in instance.get_dynamic_partitions(str(SHORT.plans.name))
    assert instance.get_dynamic_partitions(str(SHORT.environments.name)) == ["prod"]
    with Workspace.open(built.root) as workspace:
        assert workspace.store.environments.get("dev") is None
