"""Names of tables in the code of Python models and notebooks mean what they mean in SQL models."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.project.kinds import Full
from vde_dagster.project.model import PythonSource
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.spark.tasks import Warehouse, days

pytestmark = pytest.mark.spark

MODEL = """
from vde_dagster import model

@model("counts", columns={"n": "bigint", "total": "bigint"})
def counts(context):
    assert context.table_exists("orders")
    n = context.fetchdf("SELECT count(*) AS n FROM orders")["n"][0]
    total = context.table("orders").agg({"id": "sum"}).collect()[0][0]
    view = context.resolve_table("sales.orders")
    assert context.spark.table(view).count() == context.table("lakehouse.sales.orders").count() == n
    return context.sql(f"SELECT {n} AS n, {total} AS total FROM lakehouse.sales.orders LIMIT 1")
"""


def test_a_name_of_one_part_is_in_the_default_namespace(
    tmp_path: Path, spark_engine: SparkEngine
) -> None:
    folder = ProjectFolder(
        tmp_path / "shop",
        {
            "models/orders.sql": "MODEL (name orders, kind FULL); SELECT id FROM range(1, 4)",
            "models/counts.py": MODEL,
            "pyproject.toml": "[tool.vde]\ndefault_namespace = 'sales'\n",
        },
    )
    with Workspace.open(folder.root) as workspace:
        plan = workspace.plan("prod")
        assert {str(model.name) for model in plan.models} == {"sales.orders", "sales.counts"}
        workspace.apply(plan)
        rows = workspace.query("prod", "SELECT n, total FROM sales.counts").rows
    assert [tuple(row) for row in rows] == [(3, 6)]


def test_a_table_of_another_catalog_is_not_the_project_s_table_of_that_name(
    spark_engine: SparkEngine,
) -> None:
    code = (
        "def rows(context):\n"
        "    own = context.sql('SELECT * FROM sales.orders').count()\n"
        "    other = context.sql('SELECT * FROM crm.sales.orders').count()\n"
        "    assert context.table('crm.sales.orders').count() == other\n"
        "    return context.sql(f'SELECT {own} AS own, {other} AS other')\n"
    )
    python = PythonSource("m.py:rows", {"m.py": code}, catalogs={"crm": "crm"})
    table = Warehouse(spark_engine, Full(), {"own": "int", "other": "int"}, python=python)
    sources = {
        ModelName("sales", "orders"): "SELECT id FROM range(2)",
        ModelName("crm__sales", "orders"): "SELECT id FROM range(5)",
    }
    table.fill(None, days(1, 2), sources=sources)
    assert table.rows() == [(2, 5)]
