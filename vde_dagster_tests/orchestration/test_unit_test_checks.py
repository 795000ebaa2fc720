"""Unit tests of models as asset checks: declared on the model, evaluated by the plan's run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events.unit_test_checks import MAX_ROWS, unit_test_names
from vde_dagster.orchestration.names import PLANS
from vde_dagster.orchestration.resource import lend
from vde_dagster.spark import SparkEngine
from vde_dagster_tests.execution.answering import FILES, AnsweringSpark
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import apply_all, partitions_of, run_job
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
    plan = wrong.plan("prod")
    instance.add_dynamic_partitions(str(PLANS.name), [plan.id])
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
        plan = wrong.plan("prod")
        instance.add_dynamic_partitions(str(PLANS.name), [plan.id])
        result = run_job(folder, instance, "vde_apply_job", partition=plan.id, raise_on_error=False)
    (found,) = evaluations(result)
    assert found.metadata["vde/missing_rows"].value == 30
    table = str(found.metadata["vde/rows"].value)
    assert table.count("| expected |") == table.count("| returned |") == MAX_ROWS
    assert table.endswith("and 20 more rows")


def test_those_of_an_embedded_model_run_though_its_page_shows_none(
    folder: ProjectFolder, wrong: Workspace, instance: dg.DagsterInstance
) -> None:
    folder.edit("models/double.sql", "kind FULL", "kind EMBEDDED")
    with pytest.raises(dg.Failure, match="unit tests failed"):
        apply_all(folder, instance)


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
