"""The example on Spark: its unit tests, and the small models with the counts of the package.

The whole of it, with all flights, is applied by `make run`, which CI runs first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.execution.unit_testing.run_test import run_test
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def workspace(example_root: Path, spark_engine: SparkEngine) -> Iterator[Workspace]:
    with Workspace.open(example_root) as opened:
        yield opened


def test_its_unit_tests_pass(workspace: Workspace) -> None:
    results = [
        run_test(test, workspace.snapshots(), workspace.engine())
        for test in workspace.project.tests
    ]
    assert [result for result in results if not result.passed] == []


def test_the_published_views_return_the_rows_of_the_package(workspace: Workspace) -> None:
    small = ["staging.airlines", "staging.airports", "staging.planes", "staging.weather"]
    workspace.apply(workspace.plan("prod", select=small))
    for view, rows in {
        "raw.airlines": 16,
        "staging.airlines": 16,
        "staging.airports": 1458,
        "staging.planes": 3322,
        "staging.weather": 26115,
    }.items():
        assert workspace.query("prod", f"SELECT COUNT(*) FROM {view}").rows == ((rows,),), view
    unknown = "SELECT COUNT(*) FROM staging.airlines WHERE business_model IS NULL"
    assert workspace.query("prod", unknown).rows == ((0,),)
    missing = "SELECT COUNT(*) FROM staging.planes WHERE built_in IS NULL"
    assert workspace.query("prod", missing).rows == ((70,),)
