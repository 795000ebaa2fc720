"""Projects on a cluster: one with every way of writing tables, and the example."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.example.counted_by_pandas import FLIGHTS, copy_example, counted, shown_marts
from vde_dagster_tests.kinds.test_lives import FILES
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.spark.clusters import standalone_cluster
from vde_dagster_tests.state.conftest import postgres
from vde_dagster_tests.state.postgres_server import PostgresServer

__all__ = ["postgres"]

pytestmark = [pytest.mark.spark, pytest.mark.server]

TIMES = "start '2024-01-01', end '2024-01-03'"
RANGE = "WHERE day BETWEEN @start_date AND @end_date"
ROWS = f"SELECT id, day, v FROM raw.events {RANGE}"
KINDS = {
    "merged": "INCREMENTAL_BY_UNIQUE_KEY (unique_key id)",
    "parted": "INCREMENTAL_BY_PARTITION, partitioned_by id",
    "added": "INCREMENTAL_UNMANAGED",
    "custom": "CUSTOM (materialization 'add')",
}
SHARED = ("models/events.sql", "seeds/events.csv", "materializations/add.py")
PROJECT = {
    **{path: FILES[path] for path in SHARED},
    **{
        f"models/{name}.sql": f"MODEL (name m.{name}, {TIMES}, kind {kind}); {ROWS}"
        for name, kind in KINDS.items()
    },
    "models/daily.sql": f"""
        MODEL (name m.daily, {TIMES}, partitioned_by bucket(1, v),
          audits (not_null(columns := (v))), kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST(day AS TIMESTAMP) AS day, sum(v) AS v FROM raw.events {RANGE} GROUP BY day
    """,
    "models/history.sql": f"""
        MODEL (name m.history, {TIMES}, kind SCD_TYPE_2_BY_TIME (unique_key id));
        SELECT id, v, CAST(day AS TIMESTAMP) AS updated_at FROM raw.events {RANGE}
    """,
    "models/shown.sql": "MODEL (name m.shown, kind VIEW); SELECT sum(v) AS v FROM m.daily",
    "models/total.sql": "MODEL (name m.total, kind FULL, clustered_by (id)); "
    "SELECT id, sum(v) AS v FROM m.added GROUP BY id",
    "models/doubled.py": """
        from models.arithmetic import twice
        from pyspark.sql.functions import col, udf

        from vde_dagster import model


        @model("m.doubled", kind="FULL", columns={"id": "INT", "v": "INT"}, depends_on=["m.total"])
        def doubled(context, **kwargs):
            rows = context.table("m.total").repartition(2)
            return rows.select("id", udf(twice, "INT")(col("v").cast("INT")).alias("v"))
    """,
    "models/arithmetic.py": """
        def twice(value):
            return 2 * value
    """,
    "tests/test_total.yaml": """
        test_totals:
          model: m.total
          inputs:
            m.added:
              - {id: 1, day: 2024-01-01, v: 1}
              - {id: 1, day: 2024-01-01, v: 2}
          outputs:
            query:
              - {id: 1, v: 3}
    """,
}
EVERY = [(1, 1, 1), (1, 2, 2), (1, 3, 4), (2, 1, 10), (3, 2, 5), (3, 3, -1)]
NEWEST = [(1, 3, 4), (2, 1, 10), (3, 3, -1)]
TOTALS = [(1, 7), (2, 10), (3, 4)]
SMALL = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("machines")


@pytest.fixture(scope="module")
def master(machines: Path) -> Iterator[str]:
    with standalone_cluster(machines) as url:
        yield url


def project_on(root: Path, master: str, config: dict[str, str]) -> ProjectFolder:
    return with_settings(ProjectFolder(root, PROJECT), master, config)


def example_on(root: Path, master: str, config: dict[str, str], state: str) -> ProjectFolder:
    """A copy of the example, with its state in another database."""
    return with_settings(ProjectFolder(copy_example(root)), master, config, state_url=state)


def with_settings(
    folder: ProjectFolder, master: str, config: dict[str, str], **settings: str
) -> ProjectFolder:
    def lines(values: dict[str, str]) -> list[str]:
        return [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in values.items()]

    written = ["[tool.vde]", *lines(settings), "[tool.vde.spark]", *lines({"master": master})]
    written += ["[tool.vde.spark.config]", *lines(config)]
    folder.write("pyproject.toml", "\n".join(written))
    return folder


def vde(folder: ProjectFolder, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to a good end."""
    command = [sys.executable, "-m", "vde_dagster.cli", *arguments, "--project", str(folder.root)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1500)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended


def shown(folder: ProjectFolder, model: str) -> list[tuple[Any, ...]]:
    """Read what production shows, without Spark."""
    with Workspace.open(folder.root) as workspace:
        rows = workspace.queries.read("prod", model).to_pylist()
    return sorted(tuple(getattr(v, "day", v) for v in row.values()) for row in rows)


def check_rows(folder: ProjectFolder) -> None:
    """Compare what production shows with what the seed's rows come to."""
    assert {name: shown(folder, f"m.{name}") for name in KINDS} == {
        "merged": NEWEST,
        **dict.fromkeys(("parted", "added", "custom"), EVERY),
    }
    assert shown(folder, "m.daily") == [(1, 11), (2, 7), (3, 3)]
    assert shown(folder, "m.total") == TOTALS
    assert shown(folder, "m.doubled") == [(one, 2 * v) for one, v in TOTALS]
    assert [row[:2] for row in shown(folder, "m.history")] == [(1, 4), (2, 10), (3, -1)]


@pytest.mark.turns(16, "Spark elsewhere")
def test_every_kind_is_filled_audited_tested_and_queried_by_executors_of_two_workers(
    tmp_path: Path, machines: Path, master: str
) -> None:
    folder = project_on(tmp_path / "project", master, SMALL)
    vde(folder, "apply", "prod", "--yes")
    check_rows(folder)
    for worker in ("worker0", "worker1"):
        assert list(machines.glob(f"{worker}/app-*/*/stderr")), worker
    found = json.loads(vde(folder, "query", "prod", "SELECT v FROM m.shown", "--json").stdout)
    assert "21" in json.dumps(found)


@pytest.mark.turns(16, "Spark elsewhere")
def test_the_example_with_its_state_in_postgresql_holds_what_pandas_counts(
    tmp_path: Path, machines: Path, master: str, postgres: PostgresServer
) -> None:
    before = set(machines.glob("worker*/app-*"))
    state = postgres.url(postgres.create_database())
    config = {**SMALL, "spark.driver.memory": "2g"}  # Tasks with the flights pass through it.
    folder = example_on(tmp_path / "example", master, config, state)
    vde(folder, "apply", "prod", "--yes")
    assert shown_marts(folder.root, "prod") == counted()
    used = set(machines.glob("worker*/app-*")) - before
    assert {application.parent.name for application in used} == {"worker0", "worker1"}
    query = "SELECT sum(flights) AS n FROM marts.airline_months"
    assert str(FLIGHTS) in vde(folder, "query", "prod", query, "--json").stdout
