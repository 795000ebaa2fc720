"""The project with every form of SQLMesh's language on Spark: applied, tested, audited, read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.unit_testing.run_test import run_test
from vde_dagster.execution.workspace import Workspace
from vde_dagster.project.loading.loader import read_with_test_variables
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.yaml_files import read_yaml

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).parents[1] / "fixtures"
ROWS = read_yaml(FIXTURES / "sqlmesh_project_rows.yaml")


@pytest.fixture(scope="module")
def corners(
    tmp_path_factory: pytest.TempPathFactory, spark_engine: SparkEngine
) -> Iterator[Workspace]:
    root = tmp_path_factory.mktemp("corners") / "project"
    shutil.copytree(FIXTURES / "sqlmesh_project", root)
    with Workspace.open(root) as workspace:
        session = workspace.engine().guest_session
        raw = f"{workspace.settings.catalog}.raw"
        session.sql(f"CREATE NAMESPACE {raw}")
        session.sql(
            f"CREATE TABLE {raw}.events (id INT, at TIMESTAMP, kind STRING, "
            "point STRUCT<x: INT, y: ARRAY<STRING>>) USING iceberg"
        )
        session.sql(f"CREATE TABLE {raw}.rates (id INT, rate DECIMAL(10, 2)) USING iceberg")
        session.sql(
            f"INSERT INTO {raw}.events SELECT 1, TIMESTAMP '2024-01-01', 'a', "
            "NAMED_STRUCT('x', 1, 'y', ARRAY('b'))"
        )
        workspace.apply(workspace.plan("prod"))
        yield workspace


def shown(rows: Any) -> list[list[str]]:
    return sorted([str(value) for value in row] for row in rows)


def test_every_model_has_the_rows_that_its_query_says(corners: Workspace) -> None:
    found = {
        name: shown(
            corners.query("prod", f"SELECT {', '.join(f'`{c}`' for c in columns)} FROM {name}").rows
        )
        for name, (columns, _) in ROWS.items()
    }
    assert found == {name: shown(rows) for name, (_, rows) in ROWS.items()}
    models = corners.project.models.items()
    shows = {str(n) for n, m in models if m.kind.is_shown and not m.kind.is_external}
    assert set(ROWS) == shows


def test_its_unit_tests_and_audits_pass_and_a_second_plan_is_empty(corners: Workspace) -> None:
    snapshots, models = corners.snapshots(), corners.project.models
    tests = [read_with_test_variables(test, corners.root, models) for test in corners.project.tests]
    results = [run_test(test, snapshots, corners.engine()) for test in tests]
    assert [(result.test.name, result.summary) for result in results if not result.passed] == []
    report = corners.environments.audit("prod")
    assert not report.is_blocked
    assert corners.plan("prod").is_empty
