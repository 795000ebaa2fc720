"""Examples of models and of what belongs to them."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.api.errors import SourceLocation
from vde_dagster.api.kinds import Kind
from vde_dagster.api.models import (
    Asset,
    Audit,
    BuiltinAudit,
    Column,
    Exposure,
    Model,
    PythonSource,
    TestTable,
    UnitTest,
    ViewWriter,
)
from vde_dagster.api.values import ModelName

DAILY = ModelName("marts", "daily")
PLACE = SourceLocation(Path("models/daily.sql"), 1)


def test_Asset() -> None:
    assert Asset(("shop", "daily"), group="marts", owners=("team:data",)).key == ("shop", "daily")


def test_Audit() -> None:
    audit = Audit("not_null", (("columns", "day"),), "SELECT * FROM @this_model WHERE day IS NULL")
    assert audit.blocking


def test_BuiltinAudit() -> None:
    positive = BuiltinAudit(
        required=("column",),
        build=lambda items: f"SELECT * FROM @this_model WHERE {items['column'][0]} < 0",
    )
    assert positive.build({"column": ["amount"]}).endswith("amount < 0")


def test_Column() -> None:
    assert Column("day", "DATE", "the day of the order").type == "DATE"


def test_Exposure() -> None:
    board = Exposure("board", "ann@shop.test", None, ((DAILY, "day", PLACE),), PLACE)
    assert board.reads_column(DAILY, "day")


def test_Model() -> None:
    kind = Kind.from_json({"name": "FULL"})
    model = Model(DAILY, kind, PLACE, query="SELECT 1 AS orders", tags=("core",))
    assert model.cron == "0 0 * * *"


def test_PythonSource() -> None:
    code = "def daily(context):\n    return context.spark.range(3)\n"
    assert PythonSource("daily", {"models/daily.py": code}).outside == {}


def test_TestTable() -> None:
    rows = TestTable(("day", "orders"), (("2024-01-01", 3),))
    assert not rows.partial


def test_UnitTest() -> None:
    given = TestTable(("id",), ((1,), (2,)))
    expected = TestTable(("orders",), ((2,),))
    test = UnitTest("counts", DAILY, PLACE, ((ModelName("raw", "orders"), given),), expected)
    assert test.model == DAILY


def test_ViewWriter() -> None:
    writer = ViewWriter(
        select=lambda table, columns, catalog, pinned: f"SELECT * FROM {catalog}.{table.name}",
        query=lambda sql, columns, catalog, own: None,  # No view of a query in this dialect.
    )
    assert writer.query("SELECT 1", [], "lake", "lake") is None
