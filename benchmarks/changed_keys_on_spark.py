"""INCREMENTAL_BY_CHANGES on Spark: copy-on-write and merge-on-read beside a table made whole.

    python -m benchmarks.changed_keys_on_spark [--rows 1000000] [--keys 100000] [--changed 10,1000]
        [--rounds 4]

Orders of customers are counted by models that differ in nothing but how their tables are written.
Each round adds an order for some customers, taken at random, and runs the day. Told are the seconds
of a fill, what a reader of the table's own changes takes, and after all rounds what a read of all
rows takes. Last, in each round the parent of two models gets another physical table: one of them
computes the difference between the tables, the other all rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.daily_runs import DailyRuns

_BY_KEY = "INCREMENTAL_BY_CHANGES (key customer)"
WAYS = {
    "made_whole": ("FULL (refresh whole)", ""),
    "copy_on_write": (_BY_KEY, "'write.delete.mode' = 'copy-on-write'"),
    "chosen": (_BY_KEY, ""),
    "merge_v2": (_BY_KEY, "'write.delete.mode' = 'merge-on-read'"),
    "merge_v3": (_BY_KEY, "'write.delete.mode' = 'merge-on-read', 'format-version' = '3'"),
}
"""By model, its kind and the properties of its table."""


def main() -> None:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--changed", default="10,1000")
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    files = {}
    for name, (kind, properties) in WAYS.items():
        said = f", physical_properties ({properties})" if properties else ""
        files[f"models/{name}.sql"] = (
            f"MODEL (name m.{name}, kind {kind}{said}); SELECT customer, count(*) AS orders, "
            f"sum(amount) AS amount, max(note) AS note, '{name}' AS way FROM raw.orders "
            "GROUP BY customer"
        )
        files[f"models/of_{name}.sql"] = (
            f"MODEL (name m.of_{name}, kind INCREMENTAL_BY_CHANGES (key customer)); "
            f"SELECT customer, amount / orders AS mean, way FROM m.{name}"
        )
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        Path(folder, "project").mkdir()
        world = DailyRuns(
            Path(folder) / "project",
            files,
            "CREATE TABLE lakehouse.raw.orders (customer INT, amount INT, note STRING) "
            "USING iceberg",
            f"INSERT INTO lakehouse.raw.orders SELECT id % {args.keys}, id % 97, uuid() "
            f"FROM range({args.rows})",
        )
        for changed in map(int, args.changed.split(",")):
            _rounds(world, changed, args.keys, args.rounds)
        print("\nafter all rounds            seconds to read all rows")
        for name in WAYS:
            took = [_read(world.workspace, name) for _ in range(5)]
            print(f"{name:27} {statistics.median(took):8.2f}")
        _swaps(world, args.keys, args.rounds)
        engine.close()


def _base(number: int) -> str:
    more = f", amount + {number} AS more" if number else ""
    return f"MODEL (name m.base, kind FULL); SELECT customer, amount{more} FROM raw.orders"


def _swaps(world: DailyRuns, keys: int, rounds: int) -> None:
    query = "SELECT customer, count(*) AS n, sum(amount) AS total FROM m.base GROUP BY customer"
    world.folder.write("models/base.sql", _base(0))
    for name, kind in (("by_changes", _BY_KEY), ("whole", "FULL (refresh whole)")):
        text = f"MODEL (name m.{name}, kind {kind}); {query}"
        world.folder.write(
            f"models/{name}.sql", text.replace(" FROM", f", '{name}' AS way FROM", 1)
        )
    world.publish()
    seconds: dict[str, list[float]] = {}
    for number in range(1, rounds + 1):
        world.folder.write("models/base.sql", _base(number))
        world.sql(
            f"INSERT INTO lakehouse.raw.orders SELECT CAST(rand() * {keys} AS INT), 1, uuid() "
            "FROM range(10)"
        )
        world.publish()
        events = world.tick()
        for name in ("by_changes", "whole"):
            seconds.setdefault(name, []).extend(_seconds(events, name))
    print("\na parent in another table, 10 orders more    seconds")
    for name, took in seconds.items():
        print(f"{name:42} {statistics.median(took):8.2f} ({len(took)} fills)", flush=True)


def _rounds(world: DailyRuns, changed: int, keys: int, rounds: int) -> None:
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        world.sql(
            f"INSERT INTO lakehouse.raw.orders SELECT CAST(rand() * {keys} AS INT), 1, uuid() "
            f"FROM range({changed})"
        )
        events = world.tick()
        for name in (*WAYS, *(f"of_{name}" for name in WAYS)):
            seconds.setdefault(name, []).extend(_seconds(events, name))
    print(f"\n{changed:7,} orders a round    seconds  its reader by changes")
    for name in WAYS:
        took, reader = (statistics.median(seconds[one]) for one in (name, f"of_{name}"))
        print(f"{name:27} {took:6.2f} {reader:8.2f}", flush=True)


def _seconds(events: Iterable[Event], name: str) -> list[float]:
    filled = [event for event in events if isinstance(event, IntervalFilled)]
    return [event.result.seconds or 0.0 for event in filled if event.snapshot.name.name == name]


def _read(workspace: Workspace, name: str) -> float:
    began = time.perf_counter()
    workspace.query("prod", f"SELECT sum(orders), max(note) FROM m.{name}")
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
