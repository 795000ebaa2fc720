"""Unit tests of models as asset checks: declared on the model, evaluated by the plan's run."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UnitTestFailedError
from vde_dagster.execution.unit_testing.run_test import RowDifference, TestResult
from vde_dagster.execution.unit_testing.test_report import MAX_ROWS, TestRecord
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events.checks import unit_test_names
from vde_dagster.orchestration.events.consumer import forward_outbox
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.resource import lend
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.execution.answering import FILES, AnsweringSpark
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import apply_all, partitions_of, reds, run_job
from vde_dagster_tests.projects import ProjectFolder

DOUBLE = dg.AssetKey(["db", "double"])
CHECK = dg.AssetCheckKey(DOUBLE, "test_doubles")


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def wrong(folder: ProjectFolder) -> Iterator[Workspace]:
    """The project, lent to Dagster with an engine whose models are wrong."""
    with open_fake(folder.root, AnsweringSpark(right=False)) as workspace, lend(workspace):
        yield workspace


def evaluations(result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckEvaluation]:
    return [e for e in result.get_asset_check_evaluations() if e.asset_check_key == CHECK]


def history(instance: dg.DagsterInstance) -> list[dg.AssetCheckEvaluation]:
    """What the check said, the latest first."""
    found = instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=99)
    said = [record.evaluation for record in found]
    return [one for one in said if isinstance(one, dg.AssetCheckEvaluation)]


def tell_all(
    folder: ProjectFolder, instance: dg.DagsterInstance, cursor: str | None = None
) -> str | dg.SkipReason:
    """Let the sensor look."""
    log = logging.getLogger("vde")
    return forward_outbox(folder.root, instance, cursor, VdeTranslator(folder.root), log)


def tick(folder: ProjectFolder, instance: dg.DagsterInstance, cursor: str | None = None) -> str:
    """Let the sensor look at what is new; return its cursor."""
    found = tell_all(folder, instance, cursor)
    assert isinstance(found, str)
    return found


def observed(instance: dg.DagsterInstance) -> dg.AssetObservation:
    """What was observed of the model last."""
    (record,) = instance.fetch_observations(DOUBLE, limit=1).records
    assert record.asset_observation is not None
    return record.asset_observation


def test_a_models_unit_tests_stand_among_its_checks(folder: ProjectFolder) -> None:
    graph = vde_definitions(folder.root).resolve_asset_graph()
    (key,) = [key for key in graph.asset_check_keys if key.asset_key == DOUBLE]
    assert key == CHECK
    spec = graph.get_check_spec(key)
    assert spec.description is not None
    assert spec.description.startswith("Unit test `test_doubles`: Twice as much.")


def test_a_plans_run_evaluates_them(folder: ProjectFolder, instance: dg.DagsterInstance) -> None:
    with open_fake(folder.root, AnsweringSpark()) as workspace, lend(workspace):
        (first,) = evaluations(apply_all(folder, instance, "dev"))
        (second,) = evaluations(apply_all(folder, instance, "prod"))
    assert first.passed
    assert first.metadata["vde/file"].value == "tests/test_double.yaml:1"
    assert "vde/remembered" not in first.metadata
    assert second.passed
    assert "passed before" in str(second.metadata["vde/remembered"].value)


def test_a_failed_one_fails_the_plan_and_shows_the_rows(
    folder: ProjectFolder, wrong: Workspace, instance: dg.DagsterInstance
) -> None:
    plan = wrong.plan("prod", author="anna")
    instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id])
    result = run_job(folder, instance, "vde_apply_job", partition=plan.id, raise_on_error=False)
    assert not result.success
    (found,) = evaluations(result)
    assert not found.passed
    assert found.severity == dg.AssetCheckSeverity.ERROR
    assert found.description == "rows missing: 1, unexpected: 1"
    assert found.metadata["vde/missing_rows"].value == 1
    table = str(found.metadata["vde/rows"].value)
    assert "| expected | 42 |" in table
    assert "| returned | 41 |" in table
    assert partitions_of(instance, "db/double") == set()
    assert partitions_of(instance, "vde/environment") == set()


def test_a_failed_one_is_not_tried_again_by_dagster(
    folder: ProjectFolder, wrong: Workspace, instance: dg.DagsterInstance
) -> None:
    with pytest.raises(dg.Failure, match="unit tests failed") as failure:
        apply_all(folder, instance)
    assert failure.value.allow_retries is False


def test_a_plan_can_be_applied_without_them(
    folder: ProjectFolder, wrong: Workspace, instance: dg.DagsterInstance
) -> None:
    config = {"environment": "prod", "skip_tests": True}
    result = run_job(folder, instance, "vde_plan_and_apply", config, op="plan_and_apply")
    assert evaluations(result) == []
    assert partitions_of(instance, "vde/environment") == {"prod"}


def test_only_so_many_rows_are_shown(folder: ProjectFolder, instance: dg.DagsterInstance) -> None:
    with open_fake(folder.root, AnsweringSpark(right=False, rows=30)) as wrong, lend(wrong):
        plan = wrong.plan("prod", author="anna")
        instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id])
        result = run_job(folder, instance, "vde_apply_job", partition=plan.id, raise_on_error=False)
    (found,) = evaluations(result)
    assert found.metadata["vde/missing_rows"].value == 30
    table = str(found.metadata["vde/rows"].value)
    assert table.count("| expected |") == table.count("| returned |") == MAX_ROWS
    assert table.endswith("and 20 more rows")


def test_an_embedded_models_stand_on_its_page_and_can_be_executed_there(
    folder: ProjectFolder, wrong: Workspace, instance: dg.DagsterInstance
) -> None:
    folder.edit("models/double.sql", "kind FULL", "kind EMBEDDED")
    wrong.reload()
    definitions = vde_definitions(folder.root)
    assert CHECK in definitions.resolve_asset_graph().asset_check_keys
    with pytest.raises(dg.Failure, match="unit tests failed"):
        apply_all(folder, instance)
    (shown,) = history(instance)
    assert not shown.passed
    job = definitions.resolve_implicit_global_asset_job_def()
    selected = job.get_subset(asset_check_selection={CHECK})
    result = selected.execute_in_process(instance=instance, raise_on_error=False)
    (found,) = evaluations(result)
    assert not found.passed
    assert found.metadata["vde/environment"].value == "working copy"


def test_a_development_plan_that_fails_them_leaves_the_published_models_check_alone(
    folder: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    engine = AnsweringSpark()
    with open_fake(folder.root, engine) as workspace, lend(workspace):
        (published,) = evaluations(apply_all(folder, instance))
        assert published.metadata["vde/environment"].value == "prod"
        folder.edit("models/double.sql", "n * 2", "n * 3")
        workspace.reload()
        engine.right = False
        for environment in ("dev", "prod"):  # nor does one of production, which is not published
            with pytest.raises(dg.Failure, match="unit tests failed"):
                apply_all(folder, instance, environment)
            assert (
                history(instance)[0].metadata["vde/evaluation"]
                == published.metadata["vde/evaluation"]
            )
            seen = observed(instance)
            assert seen.description == (
                f"{environment}: unit test test_doubles failed (rows missing: 1, unexpected: 1), "
                "so nothing was published"
            )
            assert seen.metadata["vde/environment"].value == environment
            assert (seen.tags or {})["vde/plan"] == seen.metadata["vde/plan"].value
            assert "| returned | 41 |" in str(seen.metadata["vde/rows"].value)
        engine.right = True
        apply_all(folder, instance, "dev")
        assert observed(instance).description == "dev: unit test test_doubles passed"
        assert len(history(instance)) == 1
        apply_all(folder, instance, "prod")
    newest, _ = history(instance)
    assert newest.passed
    assert newest.metadata["vde/version"] != published.metadata["vde/version"]


@pytest.mark.parametrize("looked", ["before", "after"])
def test_those_that_the_command_line_ran_are_told_once_as_if_dagster_had_run_them(
    folder: ProjectFolder, instance: dg.DagsterInstance, looked: str
) -> None:
    engine, cursor = AnsweringSpark(), tick(folder, instance) if looked == "before" else None
    with open_fake(folder.root, engine) as outside:
        first = outside.apply(outside.plan("prod")).plan
        cursor = tick(folder, instance, cursor)
        (told,) = history(instance)
        assert told.passed
        assert told.metadata["vde/plan"].value == first.id
        with dg.DagsterInstance.ephemeral() as twin:
            again = ProjectFolder(folder.root.parent / "twin", FILES)
            with open_fake(again.root, AnsweringSpark()) as other, lend(other):
                (done,) = evaluations(apply_all(again, twin))
        own = {"vde/plan", "vde/evaluation"}
        assert {k: v for k, v in told.metadata.items() if k not in own} == {
            k: v for k, v in done.metadata.items() if k not in own
        }

        folder.edit("models/double.sql", "n * 2", "n * 3")
        outside.reload()
        engine.right = False
        if looked == "after":
            cursor = None  # everything is compared
        for _ in range(2):  # the second try ends as the first one did
            with pytest.raises(UnitTestFailedError):
                outside.apply(outside.plan("prod"))
        cursor = tick(folder, instance, cursor)
        seen = observed(instance)
        assert seen.metadata["vde/file"].value == "tests/test_double.yaml:1"
        assert "| returned | 41 |" in str(seen.metadata["vde/rows"].value)
        assert len(history(instance)) == 1
        assert isinstance(told_again := tell_all(folder, instance, cursor), dg.SkipReason), (
            told_again
        )
        with Workspace.open(folder.root) as workspace:
            assert sync(workspace, instance).is_empty
            with dg.DagsterInstance.ephemeral() as new:  # the old one's database was lost
                sync(workspace, new)
                assert [one.passed for one in history(new)] == [True]
                assert observed(new).description == seen.description


def test_a_run_that_fails_by_one_is_not_told_by_the_sensor_too(
    folder: ProjectFolder, wrong: Workspace, instance: dg.DagsterInstance
) -> None:
    cursor = tick(folder, instance)
    with pytest.raises(dg.Failure, match="unit tests failed"):
        apply_all(folder, instance)
    assert len(history(instance)) == 1
    tick(folder, instance, cursor)
    assert len(history(instance)) == 1


def test_what_is_told_of_them_is_read_as_it_was_written(folder: ProjectFolder) -> None:
    rows = ((1, None, "a" * 999), (2, "x", "")) * 15
    with Workspace.open(folder.root) as workspace:
        (test,) = workspace.project.tests
        snapshot = workspace.snapshots()[test.model]
    found = RowDifference(("n", "m", "text"), rows, rows[:1])
    told = TestRecord.from_result(
        snapshot, TestResult(test, (("query", found),)), plan="p", environment="dev"
    )
    text = json.dumps(told.to_json())
    assert len(text) < 12_000
    again = TestRecord.from_json(json.loads(text))
    assert again == told
    assert again.id == told.id
    assert again.differences[0].missing_rows == 30
    assert again.summary == "rows missing: 30, unexpected: 1"


def test_no_two_checks_of_a_model_share_a_name(folder: ProjectFolder) -> None:
    folder.write(
        "audits/doubles.sql",
        "AUDIT (name test_a_b); SELECT * FROM @this_model WHERE n IS NULL",
    )
    folder.edit("models/double.sql", "kind FULL", "kind FULL, audits (test_a_b())")
    body = "{model: db.double, inputs: {db.raw: {rows: []}}, outputs: {query: {rows: []}}}"
    folder.write("tests/more.yaml", f"a b: {body}\na.b: {body}\n")
    folder.write("tests/other.yaml", f"test_doubles: {body}\n")
    with Workspace.open(folder.root) as workspace:
        project = workspace.project
    names = unit_test_names(project.models[ModelName("db", "double")], project.tests)
    checks = set(names.values())
    assert len(checks) == len(project.tests) == 4
    assert all(name.startswith("test_") for name in checks)
    graph = vde_definitions(folder.root).resolve_asset_graph()
    declared = {key.name for key in graph.asset_check_keys if key.asset_key == DOUBLE}
    assert checks < declared
    assert len(declared) == 5


@pytest.mark.spark
def test_a_unit_test_runs_on_spark_with_the_plan(
    folder: ProjectFolder, instance: dg.DagsterInstance, spark_engine: SparkEngine
) -> None:
    folder.edit("models/double.sql", "n * 2", "n * 2 + 1")
    with pytest.raises(dg.Failure, match="test_doubles"):
        apply_all(folder, instance)
    assert partitions_of(instance, "db/raw") == set()
    folder.edit("models/double.sql", "n * 2 + 1", "n + n")
    (found,) = evaluations(apply_all(folder, instance))
    assert found.passed
    assert len(partitions_of(instance, "db/double")) == 1


def test_a_plan_that_failed_is_red_with_its_reason_whichever_job_applied_it(
    folder: ProjectFolder, wrong: Workspace, instance: dg.DagsterInstance
) -> None:
    config = {"environment": "prod"}
    run_job(
        folder,
        instance,
        "vde_plan_and_apply",
        config,
        op="plan_and_apply",
        raise_on_error=False,
    )
    (plan,) = instance.get_dynamic_partitions(str(SHORT.plans.name))
    assert reds(instance, "vde/apply", [plan]) == {plan}
    (record,) = instance.fetch_observations(SHORT.apply_key, limit=5).records
    said = record.asset_observation
    assert said is not None
    assert said.partition == plan
    assert "unit tests failed" in str(said.description)


@pytest.mark.parametrize("how", ["the sensor", "vde_new_plan"])
def test_they_run_with_the_plan_before_anybody_is_asked_and_an_apply_repeats_none_that_passed(
    folder: ProjectFolder, instance: dg.DagsterInstance, how: str
) -> None:
    folder.write("pyproject.toml", "[tool.vde.dagster]\ncheck_queries = false")
    with open_fake(folder.root, AnsweringSpark(right=False)) as workspace, lend(workspace):
        if how == "the sensor":
            plan = workspace.plan("prod", author="anna").id
            instance.add_dynamic_partitions(str(SHORT.plans.name), [plan])
            job = run_job(folder, instance, "vde_plan_job", partition=plan)
        else:
            job = run_job(folder, instance, "vde_new_plan", op="plan")
        (plan,) = instance.get_dynamic_partitions(str(SHORT.plans.name))
        found = {e.check_name: e for e in job.get_asset_check_evaluations()}["unit_tests_pass"]
        assert not found.passed
        assert "test_doubles of db.double: rows missing: 1, unexpected: 1" in str(found.description)
    with open_fake(folder.root, AnsweringSpark()) as workspace, lend(workspace):
        job = run_job(folder, instance, "vde_plan_job", partition=plan)
        found = {e.check_name: e for e in job.get_asset_check_evaluations()}["unit_tests_pass"]
        assert found.passed
    with open_fake(folder.root, AnsweringSpark(right=False)) as workspace, lend(workspace):
        assert run_job(folder, instance, "vde_apply_job", partition=plan).success, "not run again"
