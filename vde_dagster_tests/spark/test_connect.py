"""A project runs on a Spark Connect server, from processes that have no JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vde_dagster.errors import StoreError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.by_settings import POSTGRES_PACKAGE
from vde_dagster.spark import sessions
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session import warm
from vde_dagster.spark.session.connect import has_client, is_connect_url
from vde_dagster.spark.session.settings import SessionSettings, WarmSettings, packages
from vde_dagster_tests.example.counted_by_pandas import counted, shown_marts
from vde_dagster_tests.processes import until
from vde_dagster_tests.spark.clusters import connect_server
from vde_dagster_tests.spark.test_cluster import check_rows, example_on, project_on, vde
from vde_dagster_tests.state.conftest import postgres
from vde_dagster_tests.state.postgres_server import PostgresServer

__all__ = ["postgres"]

TOKYO = {"TZ": "Asia/Tokyo"}
"""Where the clients are: what they read is in UTC all the same."""
CONFIG = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "3g"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    needed = packages(SessionSettings("lakehouse", f"sqlite:///{folder}/vde.db", str(folder)))
    with connect_server(folder, *needed, POSTGRES_PACKAGE) as url:
        yield url


@pytest.mark.parametrize("lacking", ["grpc", "grpc_status", "zstandard"])
def test_a_client_of_which_a_part_is_not_installed_is_none(
    monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """Dagster brings gRPC without the rest, and Spark then begins in the process itself."""
    assert has_client()

    monkeypatch.setitem(sys.modules, lacking, None)

    assert not has_client()


def test_a_missing_client_is_named_once_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setattr(sessions, "has_own_jvm", lambda: False)
    sessions._warn_without_client.cache_clear()
    own = WarmSettings(tmp_path, by_itself=True, idle_seconds=60)
    settings = SessionSettings("lakehouse", "sqlite://", str(tmp_path), warm=own)

    for _ in range(2):
        sessions.Sessions(settings)._join_engine(ExitStack())

    (message,) = caplog.messages
    assert "client of Spark Connect is not installed; run " in message
    assert not list(tmp_path.iterdir())


def test_closing_ends_a_warm_engine_that_is_still_starting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An error of a new project is reported while Spark starts for it: nobody waits for that."""
    monkeypatch.setattr(sessions, "has_own_jvm", lambda: False)
    monkeypatch.setattr(sessions, "require_spark", lambda settings: None)
    monkeypatch.setattr(warm, "import_module", lambda name: None)
    begun: list[subprocess.Popen[bytes]] = []

    def sleep(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen(["sh", "-c", "sleep 60; true"], **options))
        return begun[-1]

    monkeypatch.setattr(warm, "subprocess", SimpleNamespace(Popen=sleep, PIPE=subprocess.PIPE))
    own = WarmSettings(tmp_path, by_itself=True, idle_seconds=60)
    state = f"sqlite:///{tmp_path}/vde.db"
    engine = SparkEngine(SessionSettings("lakehouse", state, str(tmp_path), warm=own))
    engine.start_in_background()
    until(lambda: bool(begun))
    began = time.monotonic()
    engine.close()
    assert begun[0].poll() == -signal.SIGKILL
    assert time.monotonic() - began < 5


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.spark
@pytest.mark.server
def test_every_kind_is_filled_audited_tested_and_queried_through_a_server(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in TOKYO.items():
        monkeypatch.setenv(name, value)
    folder = project_on(tmp_path / "project", server, CONFIG)
    said = vde(folder, "apply", "prod", "--yes").stderr
    assert said.count("spark.driver.memory is ignored") == 1
    check_rows(folder)
    with Workspace.open(folder.root) as workspace:
        shown = workspace.store.environments.get("prod")
        assert shown is not None
        tables = [entry.table_id for entry in shown.entries.values() if entry.table_id]
        fills = [fill for table in tables for fill in workspace.store.fills.log(table)]
    # Nobody asks others' server what its tasks did, and that is not nothing.
    assert {(fill.task_seconds, fill.bytes_read) for fill in fills} == {(None, None)}
    query = "SELECT v, TIMESTAMP'2024-01-01 10:00:00Z' AS at FROM m.shown"
    found = vde(folder, "query", "prod", query, "--json").stdout
    assert "21" in found
    assert "2024-01-01T10:00:00" in found.replace(" ", "T")
    worker = [sys.executable, "-m", "vde_dagster_tests.spark.connect_worker", str(folder.root)]
    ended = subprocess.run(worker, capture_output=True, text=True, check=False, timeout=1500)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.spark
@pytest.mark.server
def test_two_processes_at_once_publish_the_example_each_to_an_environment_of_its_own(
    tmp_path: Path, server: str, postgres: PostgresServer
) -> None:
    state = postgres.url(postgres.create_database())
    folder = example_on(tmp_path / "example", server, CONFIG, state)
    command = [sys.executable, "-m", "vde_dagster.cli", "apply", "--project", str(folder.root)]
    writers = {}
    for name in ("prod", "dev"):
        with (tmp_path / name).open("wb") as log:
            writers[name] = subprocess.Popen([*command, name, "--yes"], stdout=log, stderr=log)
    for name, writer in writers.items():
        assert writer.wait(1500) == 0, (tmp_path / name).read_text()
    wanted = counted()
    with Workspace.open(folder.root) as workspace:
        shown = {name: workspace.store.environments.get(name) for name in writers}
        assert shown["prod"] is not None
        assert shown["dev"] is not None
        assert shown["prod"].entries == shown["dev"].entries
        for entry in shown["prod"].entries.values():
            # Whoever came second found what the first had filled.
            fills = workspace.store.fills.log(entry.table_id) if entry.table_id else []
            ranges = sorted((fill.interval.start, fill.interval.end) for fill in fills)
            for (_, end), (start, _) in pairwise(ranges):
                assert end <= start, f"{entry.name}: a range was filled twice"
    for name in writers:
        assert shown_marts(folder.root, name) == wanted


@pytest.mark.spark
@pytest.mark.server
def test_a_server_without_iceberg_is_told_what_to_start_it_with(tmp_path: Path) -> None:
    with connect_server(tmp_path) as url:
        folder = project_on(tmp_path / "project", url, CONFIG)
        command = [sys.executable, "-m", "vde_dagster.cli", "apply", "prod", "--yes"]
        command += ["--project", str(folder.root)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert f"the Spark Connect server {url} lacks Iceberg" in ended.stderr
    assert "--packages org.apache.iceberg:iceberg-spark-runtime" in ended.stderr


def test_a_master_of_spark_connect_is_known_by_its_scheme() -> None:
    assert is_connect_url("sc://host:15002/;token=x")
    assert not is_connect_url("spark://host:7077")


@pytest.mark.spark
def test_a_process_that_has_a_jvm_says_that_it_cannot_use_a_server(
    spark_engine: object, tmp_path: Path
) -> None:
    from vde_dagster.spark.session.connect import connect

    settings = SessionSettings("lakehouse", "sqlite://", str(tmp_path), master="sc://localhost")
    with pytest.raises(StoreError, match="this process has started Spark itself") as raised:
        connect(settings)
    assert raised.value.hint is not None
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ
