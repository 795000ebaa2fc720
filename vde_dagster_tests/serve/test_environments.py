"""Environments of every sort through a real server: frozen, previews, dropped, on PostgreSQL."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from vde_dagster_tests.execution.conftest import empty_postgres, postgres
from vde_dagster_tests.lakehouse.pyiceberg_tables import pyiceberg_catalog
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.duck_engine import open_duck
from vde_dagster_tests.serve.served_process import REPOSITORY, VDE, refused, serving_here, vde
from vde_dagster_tests.serve.shops import FILES, publish, publish_twice, run
from vde_dagster_tests.serve.test_pyiceberg import connect
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = pytest.mark.server
__all__ = ["empty_postgres", "postgres"]


def shown(catalog: RestCatalog, model: str) -> tuple[list[str], int]:
    """Return the columns of a table and how many rows it has."""
    rows = catalog.load_table(model).scan().to_arrow()
    return rows.column_names, rows.num_rows


def test_a_frozen_environment_is_read_as_its_version_was(tmp_path: Path) -> None:
    folder = publish_twice(tmp_path / "shop")
    vde("freeze", "prod@1", "year", root=folder.root)
    run(folder, 6)
    with serving_here(folder.root) as server:
        year, first = (connect(server, warehouse) for warehouse in ("year", "prod@1"))
        for model, count in (("raw.orders", 4), ("marts.daily", 8)):
            assert shown(year, model) == shown(first, model)
            assert shown(year, model)[1] == count
        assert year.list_views("marts") == [("marts", "sums")]
        assert shown(connect(server, "prod"), "marts.daily")[1] == 20


def test_a_preview_is_read_by_those_who_ask_for_its_environment(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    publish(folder)
    folder.edit("models/daily.sql", "SELECT CAST", "SELECT id * 2 AS more, CAST")
    publish(folder, 4, "dev", forward_only=True)
    with open_duck(folder.root) as workspace:
        current = workspace.store.environments.get("dev")
        assert current is not None
        tables = workspace.store.tables.load(current.tables)
        assert any(table.preview is not None for table in tables.values())
    with serving_here(folder.root) as server:
        assert shown(connect(server, "prod"), "marts.daily") == (["day", "id", "amount"], 8)
        columns, count = shown(connect(server, "dev"), "marts.daily")
        # The third day waits for the orders, which production makes.
        assert (columns[0], count) == ("more", 8)


def test_what_was_published_before_a_column_came_is_read_without_it(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    publish(folder)
    folder.edit("models/daily.sql", "SELECT CAST", "SELECT id * 2 AS more, CAST")
    publish(folder, 4, forward_only=True)
    with serving_here(folder.root) as server:
        assert shown(connect(server, "prod@1"), "marts.daily") == (["day", "id", "amount"], 8)
        assert shown(connect(server, "prod"), "marts.daily")[0][0] == "more"


def test_a_dropped_environment_is_no_warehouse_and_a_new_one_of_its_name_is(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    publish(folder)
    publish(folder, environment="dev")
    with serving_here(folder.root) as server:
        assert server.ask("/v1/config?warehouse=dev").json["overrides"] == {"prefix": "dev@1"}
        vde("drop", "dev", root=folder.root)
        vde("janitor", root=folder.root)
        gone = server.ask("/v1/config?warehouse=dev")
        assert (gone.status, gone.json["error"]["type"]) == (404, "NoSuchWarehouseException")
        publish(folder, environment="dev")
        again = server.ask("/v1/config?warehouse=dev").json["overrides"]["prefix"]
        assert again == "dev@3", "the drop was its version 2"
        assert shown(connect(server, "dev"), "raw.orders")[1] == 4


def test_a_state_on_postgresql_is_served(
    tmp_path: Path, postgres: PostgresServer, empty_postgres: str
) -> None:
    name = postgres.create_database(empty_postgres)
    folder = ProjectFolder(tmp_path / "shop", FILES)
    folder.write("pyproject.toml", f'[tool.vde]\nstate_url = "{postgres.url(name)}"')
    publish(folder)
    run(folder, 4)
    token = vde("token", "create", "prod", "--filter", "tenant = 7", root=folder.root)["token"]
    whole = vde("token", "create", "prod", root=folder.root)["token"]
    with serving_here(folder.root) as server:
        for warehouse, count in (("prod@1", 8), ("prod", 12)):
            catalog = connect(server, warehouse, token=whole)
            assert shown(catalog, "marts.daily")[1] == count
        answer = server.ask("/data/prod/raw.orders", Authorization=f"Bearer {token}")
        assert {row["id"] for row in answer.json["rows"]} == {1, 2}
    postgres.drop_database(name)


def test_while_the_state_is_away_clients_are_told_so_and_not_where_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    away = PostgresServer()
    try:
        url = away.url(away.create_database())
        folder = ProjectFolder(tmp_path / "shop", FILES)
        folder.write("pyproject.toml", f'[tool.vde]\nstate_url = "{url}"')
        publish(folder)
        with serving_here(folder.root) as server:
            paths = ("/v1/config?warehouse=prod", "/data/prod/raw.orders", "/data/prod")
            first = [server.ask(path).json for path in paths]
            away.end()
            for path in paths:
                answer = server.ask(path)
                assert (answer.status, answer.headers["retry-after"]) == (503, "5")
                assert answer.json["error"]["type"] == "ServiceUnavailableException"
                for secret in (b"postgres", b"127.0.0.1", b"vde@", str(away.port).encode()):
                    assert secret not in answer.body
            away.start()
            assert [server.ask(path).json for path in paths] == first
    finally:
        away.stop()
    assert "the state store postgresql" in capfd.readouterr().err, "whoever runs the server is told"


def test_a_page_that_is_being_sent_is_sent_to_its_end(tmp_path: Path) -> None:
    """The answer is larger than what a line takes at once, and its reader slow."""
    words = """
        MODEL (name raw.words, kind FULL);
        SELECT explode(sequence(1, 10000)) AS id, repeat('x', 2000) AS word
    """
    folder = ProjectFolder(tmp_path / "shop", {"models/words.sql": words})
    publish(folder)
    command = [*VDE, "serve", "--port", "0", "--project", str(folder.root), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=REPOSITORY
    ) as process:
        assert process.stdout is not None
        told = "".join(iter(process.stdout.readline, "}\n")) + "}"
        host, _, port = json.loads(told)["url"].removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as line:
            line.sendall(
                b"GET /data/prod/raw.words?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            stream = line.makefile("rb")
            head = b"".join(iter(stream.readline, b"\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].split()[0])
            assert length > 20_000_000
            process.send_signal(signal.SIGTERM)
            time.sleep(1)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, int(port)), timeout=60)
            assert len(json.loads(stream.read(length))["rows"]) == 10_000
        process.wait(60)


def test_clients_are_told_of_the_storage_what_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    publish(folder)
    folder.write(
        "pyproject.toml",
        """
        [tool.vde.io]
        "s3.secret-access-key" = "the server's own"
        [tool.vde.served_io]
        "s3.access-key-id" = "${READER_KEY}"
        """,
    )
    monkeypatch.setenv("READER_KEY", "reads-only")
    with serving_here(folder.root) as server:
        table = connect(server, "prod").load_table("raw.orders")
        assert table.io.properties["s3.access-key-id"] == "reads-only"
        answer = server.ask("/v1/prod@1/namespaces/raw/tables/orders")
        assert answer.json["config"] == {"s3.access-key-id": "reads-only"}
        assert b"the server" not in answer.body
        assert b"reads-only" not in server.ask("/v1/config?warehouse=prod").body


def test_a_package_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", {"models/one.sql": "SELECT 1"})
    without = tmp_path / "without"
    without.mkdir()
    (without / "uvicorn.py").write_text("raise ModuleNotFoundError('no module', name='uvicorn')")
    told = refused("serve", root=folder.root, path=without)
    assert "uvicorn" in told
    assert "[serve]" in told


def test_production_with_tables_in_place_of_views_is_served_alike(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    folder.write("pyproject.toml", '[tool.vde]\nvirtual_environment_mode = "dev_only"')
    publish(folder)
    run(folder, 4)
    with serving_here(folder.root) as server:
        assert shown(connect(server, "prod@1"), "marts.daily")[1] == 8
        assert shown(connect(server, "prod"), "marts.daily") == (["day", "id", "amount"], 12)


def test_a_table_that_others_write_is_there_as_it_is_now(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    folder.write("external_models.yaml", "- name: lake.rates\n  columns: {rate: int}\n")
    folder.write(
        "models/rates.sql",
        "MODEL (name marts.rates, kind VIEW); SELECT max(rate) AS rate FROM lake.rates",
    )
    with open_duck(folder.root) as workspace:
        catalog = pyiceberg_catalog(workspace.lakehouse)
        catalog.create_namespace("lake")
        rates = pa.table({"rate": pa.array([1, 2], pa.int32())})
        theirs = catalog.create_table("lake.rates", schema=rates.schema)
        theirs.append(rates)
        publish(folder)
        with serving_here(folder.root) as server:
            page = server.ask("/data/prod/lake.rates?limit=1&sort=rate")
            assert page.json["rows"] == [{"rate": 1}]
            tag = page.headers["etag"]
            assert server.ask("/data/prod/lake.rates", If_None_Match=tag).status == 304
            session = connect(server, "prod@1")
            assert ("lake",) in session.list_namespaces()
            assert session.list_tables("lake") == [("lake", "rates")]
            assert shown(session, "lake.rates") == (["rate"], 2)
            theirs.append(rates)
            assert shown(session, "lake.rates") == (["rate"], 4)
            # There was no publication, and yet other rows are there.
            again = server.ask("/data/prod/lake.rates", If_None_Match=tag)
            assert (again.status, len(again.json["rows"])) == (200, 4)
            path = page.headers["link"].partition("<")[2].partition(">")[0]
            behind = server.ask(path)
            assert behind.status == 400
            assert "written since" in behind.json["error"]["message"]
            view = server.ask("/v1/prod@1/namespaces/marts/views/rates").json["metadata"]
            (spark, *_) = view["versions"][0]["representations"]
            assert "FROM `lake`.`rates`" in spark["sql"]


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = refused("serve", "--port", port, root=folder.root)
    assert port in told
    assert "--port" in told
    told = refused("serve", "--port", "0", "--log", str(tmp_path / "no" / "log"), root=folder.root)
    assert "No such file or directory" in told
    assert "--log" in told


def test_a_signal_ends_the_server_at_once_and_quietly(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    publish(folder)
    command = [*VDE, "serve", "--port", "0", "--project", str(folder.root), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as process:
        assert process.stdout is not None
        assert "{" in process.stdout.readline()
        process.stdout.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error" not in rest, "the address is the only object"
    assert "Traceback" not in said
