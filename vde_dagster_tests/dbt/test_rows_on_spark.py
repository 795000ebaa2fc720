"""Every row of the table of docs/dbt.md that computes something, on Spark, over two days."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.unit_testing.run_test import run_test
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.dbt.conftest import PROJECTS, SETTINGS

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

EVENTS = (
    "(1, 'a', 5, TIMESTAMP '2024-01-01 10:00:00'), (2, 'b', 7, TIMESTAMP '2024-01-02 11:00:00')"
)
LATER = "(3, 'a', 1, TIMESTAMP '2024-01-03 09:00:00'), (4, 'c', 2, TIMESTAMP '2024-01-03 12:00:00')"


def _at(day: int) -> datetime:
    return datetime(2024, 1, day, 0, 30, tzinfo=timezone.utc)


def _rows(workspace: Workspace, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(map(str, row)) for row in workspace.query("prod", query).rows)


def test_each_row_of_the_table_computes_what_dbt_does(tmp_path: Path) -> None:
    root = tmp_path / "project"
    shutil.copytree(PROJECTS / "table", root)
    (root / "pyproject.toml").write_text(SETTINGS.format(name="rows"))
    with Workspace.open(root) as workspace:

        def sql(text: str) -> None:
            workspace.engine().session.sql(text)  # type: ignore[attr-defined]

        sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.raw")
        sql(
            "CREATE TABLE lakehouse.raw.events "
            "(id BIGINT, kind STRING, amount BIGINT, at TIMESTAMP) USING iceberg"
        )
        sql(f"INSERT INTO lakehouse.raw.events VALUES {EVENTS}")
        workspace.apply(workspace.plan("prod", now=_at(3)))
        sql(f"INSERT INTO lakehouse.raw.events VALUES {LATER}")
        workspace.apply(workspace.plans.due("prod", now=_at(4)))

        assert _rows(workspace, "SELECT id FROM main.appended") == [("1",), ("2",), ("3",), ("4",)]
        assert _rows(workspace, "SELECT id FROM main.by_time") == [("1",), ("2",), ("3",), ("4",)]
        assert _rows(workspace, "SELECT kind, total, DATE(first_seen) FROM main.merged") == [
            ("a", "1", "2024-01-01"),  # The total is updated, when it was seen first is not.
            ("b", "7", "2024-01-02"),
            ("c", "2", "2024-01-03"),
        ]
        assert _rows(workspace, "SELECT kind, total, DATE(first_seen) FROM main.first_kept") == [
            ("a", "1", "2024-01-01"),
            ("b", "7", "2024-01-02"),
            ("c", "2", "2024-01-03"),
        ]
        # Of three open events the first is gone, which is a record of its own.
        columns = "id, kind, dbt_is_deleted, DATE(dbt_updated_at), dbt_updated_at = dbt_valid_from"
        log = f"SELECT {columns}, DATE(dbt_valid_to) FROM main.open_log"
        assert _rows(workspace, log) == [
            ("1", "a", "False", "2024-01-03", "True", "2024-01-04"),
            ("1", "a", "True", "2024-01-04", "True", "9999-12-31"),
            ("2", "b", "False", "2024-01-03", "True", "9999-12-31"),
            ("3", "a", "False", "2024-01-04", "True", "9999-12-31"),
            ("4", "c", "False", "2024-01-04", "True", "9999-12-31"),
        ]
        ids = "SELECT COUNT(DISTINCT dbt_scd_id), COUNT(DISTINCT length(dbt_scd_id)) "
        assert _rows(workspace, ids + "FROM main.open_log") == [("5", "1")]
        assert _rows(workspace, "SELECT * FROM main.either") == [
            ("1", "first"),
            ("2", "first"),
            ("3", "later"),
            ("4", "later"),
        ]
        assert _rows(workspace, "SELECT day, events FROM main.by_day") == [
            ("2024-01-01", "1"),
            ("2024-01-02", "1"),
            ("2024-01-03", "2"),
        ]
        assert _rows(workspace, "SELECT day, total FROM main.batched") == [
            ("2024-01-01", "5"),
            ("2024-01-02", "7"),
            ("2024-01-03", "3"),
        ]
        assert _rows(workspace, "SELECT * FROM main.in_python") == [
            ("a", "Apple", "2", "4"),
            ("b", "None", "1", "4"),
            ("c", "None", "1", "4"),
        ]
        assert _rows(workspace, "SELECT * FROM main.readers") == [
            ("a", "6", "2"),
            ("b", "7", "1"),
            ("c", "2", "1"),
        ]
        snapshots, engine = workspace.snapshots(), workspace.engine()
        results = [run_test(test, snapshots, engine) for test in workspace.project.tests]
        assert [(one.test.name, one.summary) for one in results if not one.passed] == []
        assert len(results) == 3
