"""A sample of the crash sweep on real Spark: Python or the JVM is killed; another finishes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import SMALL_SPARK
from vde_dagster_tests.faults import VARIABLE
from vde_dagster_tests.lakehouse.oracle import load, query
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.spark

FILES = {path: SHOP[path] for path in ("models/raw/orders.sql", "seeds/orders.csv")} | {
    "models/marts/customers.sql": """
        MODEL (name marts.customers, kind FULL);
        SELECT customer, sum(amount) AS revenue FROM raw.orders GROUP BY customer
    """
}
KILLED = -9
POINTS = {
    "after Iceberg's commit, before its record": ("fill.advance.file", "kill_before", 0),
    "before the publication's commit": ("publish.commit", "kill_before", 0),
    "after the publication's commit": ("publish.commit", "kill_after", 1),
}


@pytest.fixture
def folder(tmp_path: Path, empty_database: Path) -> ProjectFolder:
    """A project of a seed and a table, with a small Spark."""
    made = ProjectFolder(tmp_path / "shop", FILES)
    config = "\n".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in SMALL_SPARK.items())
    (made.root / "pyproject.toml").write_text(
        f'[tool.vde.spark]\nmaster = "local[1]"\n[tool.vde.spark.config]\n{config}\n'
    )
    (made.root / ".vde").mkdir()
    shutil.copy(empty_database, made.root / ".vde" / "vde.db")
    return made


def worker(folder: ProjectFolder, *arguments: str, effects: str = "") -> int:
    """Run a process to its end; return its exit code, negative when it was killed."""
    program = [sys.executable, "-m", "vde_dagster_tests.execution.spark_worker"]
    variables = {**os.environ, VARIABLE: effects}
    return subprocess.run(
        [*program, str(folder.root), *arguments],
        env=variables,
        cwd=Path(__file__).parents[2],
        timeout=240,
        check=False,
    ).returncode


def url(folder: ProjectFolder) -> str:
    return f"sqlite:///{folder.root / '.vde' / 'vde.db'}"


def views(folder: ProjectFolder) -> list[str]:
    sql = "SELECT table_name FROM iceberg_tables WHERE iceberg_type = 'VIEW' ORDER BY 1"
    return [row[0] for row in query(url(folder), sql)]


def finish(folder: ProjectFolder) -> None:
    """Let another process apply, to which the dead owner's leases have ended, and check."""
    workspace = Workspace.open(folder.root)
    workspace.apply(workspace.plan("prod"))
    assert views(folder) == ["customers", "orders"]
    assert workspace.query("prod", "SELECT count(*), sum(revenue) FROM marts.customers").rows == (
        (3, 36.0),
    )
    tables = "SELECT metadata_location FROM iceberg_tables WHERE iceberg_type = 'TABLE'"
    for (location,) in query(url(folder), tables):
        metadata = load("/" + location.removeprefix("file:").lstrip("/"))
        assert list(metadata["refs"]) == ["main"]
        fills = [s for s in metadata["snapshots"] if "vde.interval" in s["summary"]]
        assert len(fills) == 1, "a range was computed twice"
    workspace.close()


@pytest.mark.turns(6, "processes with Spark that die")
@pytest.mark.parametrize("point", POINTS)
def test_python_is_killed_and_another_process_finishes(
    point: str, folder: ProjectFolder, spark_engine: SparkEngine
) -> None:
    name, mode, version = POINTS[point]
    fault = json.dumps({"point": name, "mode": mode})
    assert worker(folder, effects=fault) == KILLED
    sql = "SELECT count(*) FROM vde_environments WHERE live"
    assert list(query(url(folder), sql)) == [(version,)]
    assert views(folder) == (["customers", "orders"] if version else [])
    finish(folder)


@pytest.mark.turns(6, "processes with Spark that die")
def test_the_jvm_is_killed_and_another_process_finishes(
    folder: ProjectFolder, spark_engine: SparkEngine
) -> None:
    code = worker(folder, "kill_jvm")
    # An engine that finds its JVM gone before a fill begins starts another one, and goes on.
    assert code in (0, 3)
    assert views(folder) == ([] if code else ["customers", "orders"])
    finish(folder)
