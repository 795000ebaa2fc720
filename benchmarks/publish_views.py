"""How long a publication takes: 100, 1,000 and 5,000 views, all of them new, then all replaced.

    python benchmarks/publish_views.py [--postgres] [--process] [--spark] [--sizes 100 1000]

`--postgres` also measures a real PostgreSQL server, `--process` whole processes (start, open,
publish, exit), `--spark` the same views by Spark's `CREATE OR REPLACE VIEW` for comparison.
Prints one line per measurement: wall-clock and this process' CPU seconds, best of three.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from vde_dagster.lakehouse import Lakehouse, Publication
from vde_dagster.planning.environment import Entry, Environment
from vde_dagster.planning.work import ViewDefinition
from vde_dagster.project.names import ModelName
from vde_dagster.state import StateStore

COLUMNS = 10
GOALS = {("sqlite", 100): 0.1, ("sqlite", 1_000): 0.3, ("sqlite, process", 1_000): 1.5}


def views(count: int, version: int) -> tuple[ViewDefinition, ...]:
    """Make views of ten documented columns each."""
    names = [f"c{column}" for column in range(COLUMNS)]
    columns = tuple((name, "BIGINT", f"what {name} means") for name in names)
    selected = ", ".join(f"`{name}`" for name in names)
    return tuple(
        ViewDefinition(
            namespace="bench",
            name=f"v{number}",
            columns=columns,
            spark_sql=f"SELECT {selected} FROM `lakehouse`.`physical`.`t{number}_{version}`",
            trino_sql=f'SELECT * FROM "lakehouse"."physical"."t{number}_{version}"',
            query_columns=tuple(names),
            properties=(("vde.snapshot", f"s{number}-{version}"),),
            comment="a view",
        )
        for number in range(count)
    )


def publication(count: int, version: int) -> Publication:
    """Make the publication of an environment's next version, every model changed."""
    names = [ModelName("bench", f"v{number}") for number in range(count)]
    environment = Environment(
        name="prod",
        version=0,
        entries={name: Entry(name, f"{name}-{version}", None) for name in names},
        publication_id=uuid.uuid4().hex,
        published_at=datetime.now(timezone.utc),
        published_by="benchmark",
    )
    return Publication(environment, version, views(count, version))


def open_lakehouse(url: str, folder: str) -> Lakehouse:
    """Open a store and a lakehouse."""
    return Lakehouse(StateStore.open(url), "lakehouse", folder)


def report(what: str, count: int, kind: str, wall: float, cpu: float | None) -> None:
    """Print one measurement."""
    goal = GOALS.get((what, count))
    verdict = "" if goal is None else f"  goal {goal} s {'met' if wall <= goal else 'MISSED'}"
    spent = "" if cpu is None else f"  cpu {cpu:.3f} s"
    print(f"{what:<22} {count:>5} views {kind:<9} {wall:.3f} s{spent}{verdict}", flush=True)


def in_process(what: str, url: str, count: int) -> None:
    """Measure publications inside this process."""
    with tempfile.TemporaryDirectory() as folder:
        lakehouse = open_lakehouse(url, folder)
        walls: dict[str, list[tuple[float, float]]] = {"new": [], "replaced": []}
        for version in range(4):
            prepared = publication(count, version)
            wall, cpu = time.perf_counter(), time.process_time()
            lakehouse.publish(prepared)
            measured = (time.perf_counter() - wall, time.process_time() - cpu)
            walls["replaced" if version else "new"].append(measured)
        for kind, measurements in walls.items():
            report(what, count, kind, *min(measurements))
        lakehouse.store.close()


def whole_process(what: str, url: str, count: int) -> None:
    """Measure processes that start, publish once and end."""
    with tempfile.TemporaryDirectory() as folder:
        StateStore.open(url).close()
        best = []
        for version in range(3):
            started = time.perf_counter()
            arguments = ["--child", url, folder, str(count), str(version)]
            subprocess.run([sys.executable, __file__, *arguments], check=True)
            best.append(time.perf_counter() - started)
        report(f"{what}, process", count, "new", best[0], None)
        report(f"{what}, process", count, "replaced", min(best[1:]), None)


def by_spark(count: int) -> None:
    """Measure Spark's own statement, one view at a time, in a session that is warm."""
    from vde_dagster.spark import SparkEngine, SparkSettings

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/vde.db"
        store = StateStore.open(url)
        Lakehouse(store, "lakehouse", f"{folder}/warehouse").ensure_namespaces(["bench"])
        engine = SparkEngine(
            SparkSettings(
                catalog="lakehouse",
                state_url=url,
                warehouse=f"{folder}/warehouse",
                master="local[2]",
                log_file=Path(folder) / "spark.log",
                project_root=Path(folder),
            )
        )
        session = engine.session
        session.sql("CREATE OR REPLACE VIEW lakehouse.bench.warm AS SELECT 1 AS a")
        started = time.perf_counter()
        for number in range(count):
            session.sql(f"CREATE OR REPLACE VIEW lakehouse.bench.v{number} AS SELECT 1 AS a")
        report("Spark, one by one", count, "new", time.perf_counter() - started, None)
        engine.close()
        store.close()


def run_on(measure: Callable[[str, str, int], None], sizes: list[int], postgres: bool) -> None:
    """Run a measurement on SQLite, and on PostgreSQL when asked to."""
    for count in sizes:
        with tempfile.TemporaryDirectory() as folder:
            measure("sqlite", f"sqlite:///{folder}/vde.db", count)
    if postgres:
        from vde_dagster_tests.state.postgres_server import PostgresServer

        server = PostgresServer()
        try:
            for count in sizes:
                measure("postgresql", server.url(server.create_database()), count)
        finally:
            server.stop()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, default=[100, 1_000, 5_000])
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--process", action="store_true")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        url, folder, count, version = chosen.child
        open_lakehouse(url, folder).publish(publication(int(count), int(version)))
        return
    run_on(in_process, chosen.sizes, chosen.postgres)
    if chosen.process:
        run_on(whole_process, chosen.sizes, chosen.postgres)
    if chosen.spark:
        by_spark(min(100, chosen.sizes[0]))


if __name__ == "__main__":
    main()
