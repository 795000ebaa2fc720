"""VIEW models that only select columns are tables for clients; columns that are one are views."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pytest
from pyiceberg.exceptions import NoSuchTableError

from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, serving
from vde_dagster_tests.serve.shops import FILES, publish
from vde_dagster_tests.serve.test_duckdb import attach, duck
from vde_dagster_tests.serve.test_pyiceberg import connect

pytestmark = pytest.mark.server
__all__ = ["duck"]

VIEWS = {
    "chosen": "SELECT o.amount, o.id AS number, o.word FROM raw.orders AS o",
    "again": "SELECT * FROM marts.chosen",
    "narrow": "SELECT id, tenant FROM raw.orders",
    "renamed": "SELECT tenant AS whose, id FROM marts.narrow",
    "cast": "SELECT CAST(id AS BIGINT) AS id FROM raw.orders",
    "some": "SELECT id FROM raw.orders WHERE tenant = 7",
    "twice": "SELECT id, id AS again FROM raw.orders",
}


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on a project with views, of which version 2 has columns under two names."""
    folder = ProjectFolder(tmp_path_factory.mktemp("views") / "shop", FILES)
    for name, query in VIEWS.items():
        kind = "EMBEDDED" if name == "narrow" else "VIEW"
        folder.write(f"models/{name}.sql", f"MODEL (name marts.{name}, kind {kind}); {query}")
    publish(folder)
    folder.edit("models/daily.sql", "id, amount FROM", "id, amount, amount AS also FROM")
    folder.write(
        "models/below.sql",
        "MODEL (name marts.below, kind VIEW); SELECT also, max(id) AS id "
        "FROM marts.daily GROUP BY also",
    )
    publish(folder)
    with serving(folder.root) as served:
        yield served


@pytest.mark.parametrize("warehouse", ["prod@1", "prod@2"])
def test_views_that_select_columns_are_tables_with_those_columns(
    views: Served, duck: duckdb.DuckDBPyConnection, warehouse: str
) -> None:
    catalog = connect(views, warehouse)
    attach(duck, views, warehouse, "p")
    expected = {
        "raw.orders": ["id", "tenant", "amount", "word"],
        "marts.chosen": ["amount", "number", "word"],
        "marts.again": ["amount", "number", "word"],
        "marts.renamed": ["whose", "id"],
    }
    for name, columns in expected.items():
        rows = catalog.load_table(name).scan().to_arrow()
        assert rows.column_names == columns
        other = duck.sql(f"SELECT * FROM p.{name}").fetch_arrow_table()
        assert other.column_names == columns
        assert sorted(map(str, other.to_pylist())) == sorted(map(str, rows.to_pylist()))
        served = views.ask(f"/data/{warehouse}/{name}?limit=1").json
        assert [column["name"] for column in served["columns"]] == columns
    rows = catalog.load_table("marts.chosen").scan(row_filter="number = 2").to_arrow()
    assert rows.to_pylist() == [{"amount": Decimal("7.25"), "number": 2, "word": None}]
    assert {table for _, table in catalog.list_tables("marts")} >= {"chosen", "again", "renamed"}
    assert {view for _, view in catalog.list_views("marts")} >= {"cast", "some", "twice", "sums"}
    assert {"chosen", "again", "renamed", "narrow"}.isdisjoint(
        view for _, view in catalog.list_views("marts")
    )
    for name in ("cast", "some", "twice"):
        with pytest.raises(NoSuchTableError):
            catalog.load_table(f"marts.{name}")
    assert not catalog.view_exists("marts.chosen")


def test_such_tables_have_ids_of_their_own(views: Served) -> None:
    path = "/v1/prod@1/namespaces/{}/tables/{}"
    found = [
        views.ask(path.format(*name.split("."))).json
        for name in ("raw.orders", "marts.chosen", "marts.again")
    ]
    for of in ("table-uuid", "properties"):
        assert len({str(one["metadata"][of]) for one in found}) == 3
    assert len({one["metadata-location"] for one in found}) == 3
    assert len({one["metadata"]["current-snapshot-id"] for one in found}) == 1


def test_a_table_with_a_column_under_two_names_is_a_view_over_one_that_has_it_once(
    views: Served, duck: duckdb.DuckDBPyConnection
) -> None:
    before, after = connect(views, "prod@1"), connect(views, "prod@2")
    assert ("marts", "daily") in before.list_tables("marts")
    assert ("marts", "daily__columns") not in before.list_tables("marts")
    assert ("marts", "daily") in after.list_views("marts")
    assert ("marts", "daily") not in after.list_tables("marts")
    for catalog, name in ((before, "daily"), (after, "daily__columns")):
        fields = catalog.load_table(f"marts.{name}").schema().fields
        assert [(field.name, field.field_id) for field in fields] == [
            *(("day", 1), ("id", 2), ("amount", 3))
        ]
    with pytest.raises(NoSuchTableError, match="daily__columns"):
        after.load_table("marts.daily")
    attach(duck, views, "prod@2", "p")
    wanted = duck.sql("SELECT day, id, amount FROM p.marts.daily__columns").fetchall()
    assert len(wanted) == 8
    metadata = views.ask("/v1/prod@2/namespaces/marts/views/daily").json["metadata"]
    queries = {one["dialect"]: one["sql"] for one in metadata["versions"][0]["representations"]}
    assert queries["spark"] == (
        "SELECT `day`, `id`, `amount`, `amount` AS `also` FROM `marts`.`daily__columns`"
    )
    assert '"marts"."daily__columns"' in queries["trino"]
    fields = metadata["schemas"][0]["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [
        *(("day", "date"), ("id", "int"), ("amount", "decimal(10, 2)")),
        ("also", "decimal(10, 2)"),
    ]
    below = views.ask("/v1/prod@2/namespaces/marts/views/below").json["metadata"]
    assert "`marts`.`daily__columns`" in below["versions"][0]["representations"][0]["sql"]


@pytest.mark.parametrize(
    "query",
    [
        *("", "?columns=also", "?columns=also,id&sort=-also", "?filter=also=7.25"),
        *("?filter=amount=7.25&columns=also", "?sort=also&limit=3", "?columns=amount,also"),
    ],
)
def test_rows_have_such_a_column_under_both_names(views: Served, query: str) -> None:
    answer = views.ask(f"/data/prod@2/marts.daily{query}").json
    whole = views.ask("/data/prod@2/marts.daily").json["rows"]
    assert len(whole) == 8
    assert all(row["amount"] == row["also"] is not None for row in whole)
    for row in answer["rows"]:
        assert any(row.items() <= one.items() for one in whole)
    if "filter" in query:
        assert {row["also"] for row in answer["rows"]} == {"7.25"}
    if "sort=-also" in query:
        values = [Decimal(row["also"]) for row in answer["rows"]]
        assert values == sorted(values, reverse=True)
