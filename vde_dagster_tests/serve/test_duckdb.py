"""DuckDB attaches environments of a real server."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pytest

from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, serving, vde
from vde_dagster_tests.serve.shops import publish_twice, run

pytestmark = pytest.mark.server
OPEN = "AUTHORIZATION_TYPE 'none'"


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the extensions that were installed as packages."""
    packages = importlib.metadata.distribution("duckdb-ext-iceberg").locate_file("")
    with duckdb.connect() as connection:
        connection.execute("SET extension_directory = ?", [f"{packages}/duckdb_ext/extensions"])
        connection.execute("SET autoinstall_known_extensions = false")
        for extension in ("avro", "httpfs", "iceberg"):
            connection.execute(f"LOAD {extension}")
        yield connection


def attach(
    duck: duckdb.DuckDBPyConnection, server: Served, warehouse: str, name: str, how: str = OPEN
) -> None:
    duck.execute(f"ATTACH '{warehouse}' AS {name} (TYPE iceberg, ENDPOINT '{server.url}', {how})")


def test_renamed_dropped_and_reordered_columns_are_read(
    server: Served, duck: duckdb.DuckDBPyConnection
) -> None:
    attach(duck, server, "prod@1", "one")
    attach(duck, server, "prod", "three")
    assert duck.sql("SELECT * FROM one.raw.orders ORDER BY id").fetchall() == [
        (1, 7, Decimal("5.50"), "a"),
        (2, 7, Decimal("7.25"), None),
        (3, 8, Decimal("2.00"), "ü"),
        (4, None, Decimal("1.00"), "d"),
    ]
    newest = duck.sql("SELECT * FROM three.raw.orders ORDER BY number")
    assert newest.columns == ["tenant", "number", "amount"]
    assert newest.fetchall()[0] == (7, 1, Decimal("5.50"))
    count = "SELECT count(*) FROM {}.marts.daily WHERE day = DATE '2024-01-03'"
    assert duck.sql(count.format("one")).fetchall() == [(0,)]
    assert duck.sql(count.format("three")).fetchall() == [(4,)]


def test_an_attached_session_goes_on_with_its_publication(
    tmp_path_factory: pytest.TempPathFactory, duck: duckdb.DuckDBPyConnection
) -> None:
    folder: ProjectFolder = publish_twice(tmp_path_factory.mktemp("attached") / "shop")
    count = "SELECT count(*) FROM {}.marts.daily"
    with serving(folder.root) as server:
        attach(duck, server, "prod", "before")
        assert duck.sql(count.format("before")).fetchall() == [(12,)]
        run(folder, 6)
        attach(duck, server, "prod", "later")
        assert duck.sql(count.format("later")).fetchall() == [(20,)]
        assert duck.sql(count.format("before")).fetchall() == [(12,)]


def test_a_token_is_sent_and_without_one_nothing_is_attached(
    tmp_path_factory: pytest.TempPathFactory, duck: duckdb.DuckDBPyConnection
) -> None:
    folder: ProjectFolder = publish_twice(tmp_path_factory.mktemp("token") / "shop")
    token = vde("token", "create", "prod", root=folder.root)["token"]
    with serving(folder.root) as server:
        with pytest.raises(duckdb.Error):
            attach(duck, server, "prod", "without")
        attach(duck, server, "prod", "named", f"TOKEN '{token}'")
        assert duck.sql("SELECT count(*) FROM named.raw.orders").fetchall() == [(4,)]


def test_writes_are_refused(server: Served, duck: duckdb.DuckDBPyConnection) -> None:
    attach(duck, server, "prod", "p")
    for statement in (
        "DELETE FROM p.raw.orders",
        "DROP TABLE p.raw.orders",
        "CREATE SCHEMA p.more",
    ):
        with pytest.raises(duckdb.Error):
            duck.execute(statement)
