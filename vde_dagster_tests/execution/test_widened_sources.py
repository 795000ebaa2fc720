"""A published VIEW model over a table in which another program has widened a column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

DECLARED = "- name: raw.orders\n  columns: {{n: {}}}\n"


@pytest.mark.parametrize("declared", [False, True], ids=["undeclared", "declared"])
def test_the_next_plan_mends_a_view_whose_source_was_widened(
    tmp_path: Path,
    spark_engine: SparkEngine,
    open_workspace: Callable[[ProjectFolder], Workspace],
    declared: bool,
) -> None:
    views = {
        "models/shown.sql": "MODEL (name m.shown, kind VIEW); SELECT n FROM raw.orders",
        "models/more.sql": "MODEL (name m.more, kind VIEW); SELECT n + 1 AS n FROM m.shown",
    }
    folder = ProjectFolder(tmp_path / "widened", views)
    if declared:
        folder.write("external_models.yaml", DECLARED.format("INT"))
    with open_workspace(folder) as workspace:
        sql = workspace.engine().session.sql
        sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.raw")
        sql("CREATE TABLE lakehouse.raw.orders (n INT) USING iceberg")
        workspace.apply(workspace.plan("prod"))
        sql("ALTER TABLE lakehouse.raw.orders ALTER COLUMN n TYPE BIGINT")
        sql("INSERT INTO lakehouse.raw.orders VALUES (5000000000)")

        with pytest.raises(UsageError, match="Cannot up cast") as raised:
            workspace.query("prod", "SELECT n FROM m.more")
        assert "run `vde plan`" in (raised.value.hint or "")

        if declared:
            folder.write("external_models.yaml", DECLARED.format("BIGINT"))
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        for name, n in (("shown", 5_000_000_000), ("more", 5_000_000_001)):
            assert workspace.query("prod", f"SELECT n FROM m.{name}").rows == ((n,),)
            assert [row.n for row in sql(f"SELECT n FROM lakehouse.m.{name}").collect()] == [n]
