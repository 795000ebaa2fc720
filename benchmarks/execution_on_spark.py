"""An apply on real Spark beside the bare statements: `python -m benchmarks.execution_on_spark`.

Projects of 24 and 200 small FULL models, all new. By hand: `CREATE TABLE … AS SELECT` and `CREATE
OR REPLACE VIEW` per model, in the same warm JVM, layer by layer, as many at once as the apply
runs. The two take turns. Goal: an apply takes 1.2 times the bare statements or less.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.execution_overhead import SIZES, WIDTH, project
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import small_spark

TURNS = 3
CONCURRENCY = 4
GOAL = 1.2


def by_hand(engine: SparkEngine, queries: dict[str, str], turn: str) -> float:
    """Run what a careful engineer would write; return the seconds."""
    session = engine.session
    tables, views = f"lakehouse.tables_{turn}", f"lakehouse.views_{turn}"
    for namespace in (tables, views):
        session.sql(f"CREATE NAMESPACE {namespace}")

    def build(name: str) -> None:
        query = queries[name].replace("db.m", f"{tables}.m")
        session.sql(f"CREATE TABLE {tables}.{name} USING iceberg AS {query}")

    def publish(name: str) -> None:
        session.sql(f"CREATE OR REPLACE VIEW {views}.{name} AS SELECT * FROM {tables}.{name}")

    names = list(queries)
    began = time.perf_counter()
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        for first in range(0, len(names), WIDTH):
            list(pool.map(build, names[first : first + WIDTH]))
        list(pool.map(publish, names))
    return time.perf_counter() - began


def applied(root: Path) -> tuple[float, float]:
    """Plan and apply a new project in the JVM that runs; return the seconds of both."""
    workspace = Workspace.open(root)
    began = time.perf_counter()
    plan = workspace.plan("prod")
    planned = time.perf_counter() - began
    session = getattr(workspace.engine(), "session")  # noqa: B009 - only Spark's engine has one
    session.sql("SELECT 1")  # a session of its own in the same JVM
    began = time.perf_counter()
    workspace.apply(plan, concurrency=CONCURRENCY)
    seconds = time.perf_counter() - began
    workspace.close()
    return planned, seconds


def queries_of(root: Path) -> dict[str, str]:
    """Return the models' queries as they are written, parents first."""
    files = sorted((root / "models").glob("m*.sql"), key=lambda path: int(path.stem[1:]))
    return {path.stem: path.read_text().split(";\n", 1)[1] for path in files}


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        applied(project(Path(folder) / "warm", WIDTH).root)
        by_hand(engine, queries_of(Path(folder) / "warm"), "warm")
        for size in SIZES:
            bare: list[float] = []
            whole: list[tuple[float, float]] = []
            for turn in range(TURNS):
                root = project(Path(folder) / f"project_{size}_{turn}", size).root
                bare.append(by_hand(engine, queries_of(root), f"{size}_{turn}"))
                whole.append(applied(root))
            planned, seconds = min(whole, key=lambda one: one[1])
            ratio = seconds / min(bare)
            print(
                f"{size:>4} models: by hand {min(bare):.2f} s, apply {seconds:.2f} s "
                f"(plan {planned:.2f} s), ratio {ratio:.2f} (goal {GOAL} "
                f"{'met' if ratio <= GOAL else 'MISSED'})",
                flush=True,
            )
        engine.close()


if __name__ == "__main__":
    main()
