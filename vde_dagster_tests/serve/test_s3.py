"""A warehouse in S3: clients read it with the keys that the server was told to hand out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.s3_store import BUCKET, READER, REGION, WRITER, Store, running_store
from vde_dagster_tests.serve.served_process import Served, serving
from vde_dagster_tests.serve.shops import FILES, RENAMED, publish
from vde_dagster_tests.serve.spark_reader import spark_reader
from vde_dagster_tests.serve.test_duckdb import attach, duck
from vde_dagster_tests.serve.test_pyiceberg import ROWS, connect

pytestmark = pytest.mark.server
__all__ = ["duck"]

SETTINGS = """
    [tool.vde]
    warehouse = "s3://{bucket}/warehouse"

    [tool.vde.io]
    "s3.endpoint" = "{url}"
    "s3.region" = "{region}"
    "s3.access-key-id" = "${{STORE_USER}}"
    "s3.secret-access-key" = "${{STORE_KEY}}"
"""
HANDED_OUT = """
    [tool.vde.served_io]
    "s3.endpoint" = "{url}"
    "s3.region" = "{region}"
    "s3.access-key-id" = "${{READER_USER}}"
    "s3.secret-access-key" = "${{READER_KEY}}"
"""
KEYS = dict(
    zip(("STORE_USER", "STORE_KEY", "READER_USER", "READER_KEY"), (*WRITER, *READER), strict=True)
)


@dataclass
class Far:
    """A project whose data are in a store.

    Args:
        folder: The project.
        store: The store.
        server: A server that hands out the reader's key.
    """

    folder: ProjectFolder
    store: Store
    server: Served


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    """The orders at version 1, and with other columns at version 2."""
    with pytest.MonkeyPatch.context() as patch, running_store() as store:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        folder = ProjectFolder(tmp_path_factory.mktemp("s3") / "shop", FILES)
        told = {"url": store.url, "region": REGION, "bucket": BUCKET}
        folder.write("pyproject.toml", SETTINGS.format(**told) + HANDED_OUT.format(**told))
        publish(folder)
        folder.write("models/orders.sql", RENAMED)
        for path in ("models/daily.sql", "models/big.sql"):
            folder.write(path, FILES[path].replace("id,", "number AS id,"))
        folder.write("models/sums.sql", FILES["models/sums.sql"].replace("o.id", "o.number"))
        publish(folder)
        with serving(folder.root) as server:
            store.seen.clear()
            yield Far(folder, store, server)


@pytest.mark.parametrize(("version", "warehouse"), [(1, "prod@1"), (3, "prod@2")])
def test_pyiceberg_and_duckdb_read_with_the_key_that_is_handed_out(
    far: Far, duck: duckdb.DuckDBPyConnection, version: int, warehouse: str
) -> None:
    far.store.seen.clear()
    rows = connect(far.server, warehouse).load_table("raw.orders").scan().to_arrow()
    wanted = {tuple(map(str, row)) for row in ROWS[version]}
    assert {tuple(map(str, row.values())) for row in rows.to_pylist()} == wanted
    assert far.store.who_read_data() == {READER[0]}
    attach(duck, far.server, warehouse, "p")
    other = duck.sql("SELECT * FROM p.raw.orders").fetchall()
    assert {tuple(map(str, row)) for row in other} == wanted
    assert far.store.who_read_data() == {READER[0]}


def test_no_client_writes_with_the_key(far: Far) -> None:
    table = connect(far.server, "prod@1").load_table("raw.orders")
    rows = table.scan().to_arrow()
    far.store.seen.clear()
    with pytest.raises(OSError, match=r"(?i)access|denied"):
        table.append(rows)
    tried = {key for key, method, _ in far.store.seen if method in ("PUT", "POST", "DELETE")}
    assert tried == {READER[0]}, "the store refused it, and nobody lent it another key"
    assert table.refresh().scan().to_arrow().num_rows == rows.num_rows


def test_rows_are_read_with_the_servers_own_key(far: Far) -> None:
    far.store.seen.clear()
    answer = far.server.ask("/data/prod@1/raw.orders?filter=tenant%20=%207&sort=id")
    assert [row["id"] for row in answer.json["rows"]] == [1, 2]
    assert far.store.who_read_data() == {WRITER[0]}
    for secret in (WRITER, READER):
        assert secret[1].encode() not in answer.body


def test_only_tables_say_the_key_and_never_the_servers_own(far: Far) -> None:
    table = far.server.ask("/v1/prod@1/namespaces/raw/tables/orders")
    assert table.json["config"] == {
        "s3.endpoint": far.store.url,
        "s3.region": REGION,
        "client.region": REGION,
        "s3.path-style-access": "true",
        "s3.access-key-id": READER[0],
        "s3.secret-access-key": READER[1],
    }
    assert WRITER[1].encode() not in table.body
    for path in (
        *("/v1/config?warehouse=prod", "/v1/prod@1/namespaces", "/v1/prod@1/namespaces/raw"),
        *("/v1/prod@1/namespaces/raw/tables", "/v1/prod@1/namespaces/marts/views/sums"),
        *("/data/prod", "/openapi.json", "/v1/prod@1/namespaces/raw/tables/nope"),
    ):
        body = far.server.ask(path).body
        assert WRITER[1].encode() not in body
        assert READER[1].encode() not in body


def test_without_a_key_to_hand_out_clients_need_their_own(far: Far, tmp_path: Path) -> None:
    text = (far.folder.root / "pyproject.toml").read_text()
    far.folder.write("pyproject.toml", text.partition("[tool.vde.served_io]")[0])
    try:
        with serving(far.folder.root) as server:
            answer = server.ask("/v1/prod@1/namespaces/raw/tables/orders")
            assert answer.json["config"] == {}
            own = {
                "s3.endpoint": far.store.url,
                "s3.region": REGION,
                "s3.access-key-id": READER[0],
                "s3.secret-access-key": READER[1],
            }
            far.store.seen.clear()
            table = connect(server, "prod@1", **own).load_table("raw.orders")
            assert table.scan().to_arrow().num_rows == 4
            assert far.store.who_read_data() == {READER[0]}
            unknown = {**own, "s3.access-key-id": "nobody"}
            with pytest.raises(OSError, match=r"(?i)access|denied|forbidden"):
                connect(server, "prod@1", **unknown).load_table("raw.orders").scan().to_arrow()
    finally:
        far.folder.write("pyproject.toml", text)


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.spark
def test_spark_reads_with_the_key_that_is_handed_out(far: Far, tmp_path: Path) -> None:
    far.store.seen.clear()
    with spark_reader(far.server.url, tmp_path) as reader:
        for version, warehouse in ((1, "prod@1"), (3, "prod@2")):
            (rows,) = reader.rows(warehouse, "SELECT * FROM {}.raw.orders")
            wanted = {tuple(map(str, row)) for row in ROWS[version]}
            assert {tuple(map(str, row)) for row in rows} == wanted
        (sums,) = reader.rows("prod", "SELECT * FROM {}.marts.sums")
        assert sorted(map(tuple, sums), key=repr) == [(7, 2)]
    assert far.store.who_read_data() == {READER[0]}
