"""How long a publication takes: 100, 1,000 and 5,000 views, all of them new, then all replaced.

    python -m benchmarks.publish_views [--sizes 100 1000] [--stores sqlite] [--without-spark]

On SQLite and on a real PostgreSQL server: inside one process, as a member of roles, as a whole
process (start, open, publish, exit), and what a reader waits meanwhile, who looks up views one
after the other without a pause. Beside it, the same number of new files written bare: a view is one
metadata file, and file systems differ more than everything else here. Last, Spark's `CREATE OR
REPLACE VIEW` for comparison. Seconds; wall-clock and this process' CPU, best of three.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import datetime, timezone
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from vde_dagster.base.names import ModelName
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import Entry, Environment
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.postgres_server import PostgresServer

COLUMNS = 10
ROOT = Path(tempfile.gettempdir()) / f"vde-publish-views-{os.getpid()}"
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
            queries={
                "spark": f"SELECT {selected} FROM `lakehouse`.`physical`.`t{number}_{version}`",
                "trino": f'SELECT * FROM "lakehouse"."physical"."t{number}_{version}"',
            },
            query_columns=tuple(names),
            properties=(("vde.snapshot", f"s{number}-{version}"),),
            comment="a view",
        )
        for number in range(count)
    )


def publication(count: int, version: int, environment_name: str = "prod") -> Publication:
    """Make the publication of an environment's next version, every model changed."""
    names = [ModelName("bench", f"v{number}") for number in range(count)]
    environment = Environment(
        name=environment_name,
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


def new_folder() -> str:
    """Make a folder that stays until the end.

    ext4 does not use the inodes of deleted files again for minutes and searches past them, so a
    benchmark that cleans up as it goes would time its own deletions.
    """
    return tempfile.mkdtemp(dir=ROOT)


def bare_files(count: int) -> None:
    """Measure writing as many files of about the same size, and nothing else."""
    folder, data = new_folder(), b"x" * 2_000
    began = time.perf_counter()
    for number in range(count):
        with open(f"{folder}/{number}", "xb", buffering=0) as file:
            file.write(data)
    report("files alone", count, "new", time.perf_counter() - began, None)


def in_process(what: str, url: str, count: int) -> None:
    """Measure publications inside this process: of three environments in a catalog each."""
    store = StateStore.open(url)
    walls: dict[str, list[tuple[float, float]]] = {"new": [], "replaced": []}
    for turn in range(3):
        lakehouse = Lakehouse(store, f"lakehouse_{turn}", new_folder())
        for version, kind in enumerate(walls):
            prepared = publication(count, version, f"environment_{turn}")
            wall, cpu = time.perf_counter(), time.process_time()
            lakehouse.publish(prepared)
            walls[kind].append((time.perf_counter() - wall, time.process_time() - cpu))
    for kind, measurements in walls.items():
        report(what, count, kind, *min(measurements))
    store.close()


def whole_process(what: str, url: str, count: int) -> None:
    """Measure processes that start, publish once and end."""
    folder = new_folder()
    StateStore.open(url).close()
    durations = []
    for version in range(3):
        started = time.perf_counter()
        arguments = ["--child", url, folder, str(count), str(version)]
        subprocess.run([sys.executable, "-m", "benchmarks.publish_views", *arguments], check=True)
        durations.append(time.perf_counter() - started)
    report(f"{what}, process", count, "new", durations[0], None)
    report(f"{what}, process", count, "replaced", min(durations[1:]), None)


def look_up(url: str, count: int, ready: Event, busy: Event, stop: Event, waits: Any) -> None:
    """Read views as an Iceberg client does, its pointer and its file; note the longest wait."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    query = text("SELECT metadata_location FROM iceberg_tables WHERE table_name = :name")
    longest = {False: 0.0, True: 0.0}
    number = 0
    while not stop.is_set():
        during = busy.is_set()
        began = time.perf_counter()
        with engine.connect() as connection:
            location: str = connection.execute(query, {"name": f"v{number % count}"}).scalar_one()
        with open(location.removeprefix("file://"), "rb") as file:
            assert file.read(1) == b"{"
        longest[during] = max(longest[during], time.perf_counter() - began)
        number += 1
        if number == 200:  # connections and code are warm
            longest = {False: 0.0, True: 0.0}
            ready.set()
    waits.put((longest[False], longest[True], number))


def reader_waits(what: str, url: str, count: int) -> None:
    """Measure a reader in another process while three publications replace every view."""
    lakehouse = open_lakehouse(url, new_folder())
    lakehouse.publish(publication(count, 0))
    context = multiprocessing.get_context("spawn")
    ready, busy, stop, waits = context.Event(), context.Event(), context.Event(), context.Queue()
    reader = context.Process(target=look_up, args=(url, count, ready, busy, stop, waits))
    reader.start()
    ready.wait()
    time.sleep(1)
    busy.set()
    for version in range(1, 4):
        lakehouse.publish(publication(count, version))
    stop.set()
    idle, during, reads = waits.get()
    reader.join()
    print(
        f"{what + ', reader':<22} {count:>5} views longest wait {during * 1000:.0f} ms while they "
        f"are replaced, {idle * 1000:.0f} ms without ({reads:,} look-ups)",
        flush=True,
    )
    lakehouse.store.close()


def by_spark(count: int) -> None:
    """Measure Spark's own statement, one view at a time, in a session that is warm."""
    from vde_dagster.spark.engine import SparkEngine
    from vde_dagster_tests.conftest import small_spark

    settings = small_spark(Path(new_folder()))
    engine = SparkEngine(settings)
    session = engine.session
    session.sql("CREATE NAMESPACE lakehouse.bench")
    session.sql("CREATE OR REPLACE VIEW lakehouse.bench.warm AS SELECT 1 AS a")
    for kind in ("new", "replaced"):
        started = time.perf_counter()
        for number in range(count):
            statement = f"CREATE OR REPLACE VIEW lakehouse.bench.v{number} AS SELECT 1 AS {kind}"
            session.sql(statement)
        report("Spark, one by one", count, kind, time.perf_counter() - started, None)
    engine.close()


MEASUREMENTS = (in_process, whole_process, reader_waits)


def on_sqlite(sizes: list[int]) -> None:
    """Run every measurement on a new SQLite file each."""
    for measure in MEASUREMENTS:
        for count in sizes:
            measure("sqlite", f"sqlite:///{new_folder()}/vde.db", count)


def _as_member(server: PostgresServer) -> str:
    """Make a state with roles, and return its URL for a login that may publish."""
    url = server.url(server.create_database())
    with create_engine(url.replace("postgresql://", "postgresql+psycopg://")).begin() as connection:
        known = text("SELECT count(*) FROM pg_roles WHERE rolname = 'publisher'")
        if not connection.execute(known).scalar():
            connection.execute(text("CREATE ROLE publisher LOGIN"))
    store = StateStore.open(url)
    store.rights.create("vde")
    store.rights.grant("publish", "publisher")
    store.close()
    return url.replace("vde@", "publisher@")


def on_postgresql(sizes: list[int]) -> None:
    """Run every measurement on a new database each of one server."""
    server = PostgresServer()
    try:
        for measure in MEASUREMENTS:
            for count in sizes:
                measure("postgresql", server.url(server.create_database()), count)
        for count in sizes:
            in_process("postgresql, roles", _as_member(server), count)
    finally:
        server.stop()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, default=[100, 1_000, 5_000])
    parser.add_argument("--stores", nargs="*", default=["sqlite", "postgresql"])
    parser.add_argument("--without-spark", action="store_true")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        url, folder, count, version = chosen.child
        open_lakehouse(url, folder).publish(publication(int(count), int(version)))
        return
    ROOT.mkdir()
    try:
        for count in chosen.sizes:
            bare_files(count)
        for store in chosen.stores:
            {"sqlite": on_sqlite, "postgresql": on_postgresql}[store](chosen.sizes)
        if not chosen.without_spark:
            by_spark(min(100, chosen.sizes[0]))
    finally:
        shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
