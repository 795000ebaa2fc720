"""Python models that are written for SQLMesh, run with its conventions."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.project.kinds import Full, IncrementalByTimeRange
from vde_dagster.project.model import PythonSource
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.spark.tasks import Warehouse, days

pytestmark = pytest.mark.spark

START = datetime(2013, 1, 1, tzinfo=timezone.utc)
LAST = START + timedelta(days=2) - timedelta(microseconds=1)
PARENT = {ModelName("raw", "events"): "SELECT id, 'x' AS v FROM range(3)"}
COLUMNS = {"id": "bigint", "ts": "timestamp", "v": "string"}

INCREMENTAL = """
import typing as t
from datetime import datetime, timedelta
import pandas as pd
from sqlglot import exp
from sqlmesh import ExecutionContext, model
from sqlmesh.core.model.kind import ModelKindName
from sqlmesh.utils.date import to_datetime

@model("a.m", kind=dict(name=ModelKindName.INCREMENTAL_BY_TIME_RANGE, time_column="ts"),
       columns={"id": "bigint", "ts": "timestamp", "v": "text"})
def execute(
    context: ExecutionContext, execution_time: datetime, end: datetime, start: datetime,
    region: t.Optional[str] = None, **kwargs: t.Any
) -> t.Iterator[pd.DataFrame]:
    table = context.resolve_table("raw.events")
    found = context.fetchdf(exp.select("id", "v").from_(table), quote_identifiers=True)
    total = context.fetchdf(f"SELECT SUM(id)::BIGINT AS s, 7 // 2 AS h FROM {table}")
    ids = context.engine_adapter.fetchone(f"SELECT COUNT(*) FROM {table}")
    assert (total["s"][0], total["h"][0], ids, context.table("raw.events")) == (3, 3, (3,), table)
    assert context.fetch_pyspark_df(f"SELECT * FROM {table}").count() == 3
    assert context.spark.table(table).count() == 3
    assert (kwargs["latest"], context.var("size"), kwargs["size"]) == (execution_time, 3, 3)
    for day in range((end - start).days + 1):
        rows = found.assign(ts=start + timedelta(days=day), v=region)
        yield rows[rows["id"] == day]
    yield pd.DataFrame({"id": [9], "ts": [end], "v": [context.blueprint_var("customer")]})
"""


def source(code: str, **given: Any) -> PythonSource:
    return PythonSource("m.py:execute", {"m.py": code}, **given)


def test_an_incremental_model_gets_its_last_instant_variables_and_rows(
    spark_engine: SparkEngine,
) -> None:
    python = source(
        INCREMENTAL,
        variables={"customer": "c"},
        settings={"region": "eu", "size": 3},
        sqlmesh_dialect="duckdb",
    )
    table = Warehouse(spark_engine, IncrementalByTimeRange("ts"), COLUMNS, python=python)

    table.fill(None, days(1, 3), sources=PARENT)

    assert table.rows() == [
        (0, START, "eu"),
        (1, START + timedelta(days=1), "eu"),
        (9, LAST, "c"),
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "def execute(context, begin, until):\n"
            "    yield context.spark.createDataFrame([(1, begin, 'a')], 'id int, ts timestamp, v "
            "string')\n"
            "    yield context.table('raw.events').selectExpr('id', 'null ts', 'v').limit(0)\n"
            "    yield context.spark.createDataFrame([(2, until, 'b')], 'id int, ts timestamp, v "
            "string')\n",
            [(1, START, "a"), (2, START + timedelta(days=2), "b")],
        ),
        (
            "def execute(context, *, end, size):\n"
            "    return context.sql(f\"select id + {size} as id, timestamp '{end}' as ts, v from "
            'raw.events where id = 1")\n',
            [(4, START + timedelta(days=2), "x")],
        ),
    ],
)
def test_the_product_s_own_models_keep_the_end_that_is_excluded(
    spark_engine: SparkEngine, code: str, expected: list[tuple[object, ...]]
) -> None:
    table = Warehouse(spark_engine, Full(), COLUMNS, python=source(code, settings={"size": 3}))

    table.fill(None, days(1, 3), sources=PARENT)

    assert table.rows() == expected
