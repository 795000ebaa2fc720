"""Fixed costs of refreshes, and copy-on-write beside merge-on-read by the share of replaced rows.

    python -m benchmarks.refresh_modes [--fixed] [--rows 3000000] [--shares 0.001,0.01,0.1,0.5]
        [--rounds 3]

With `--fixed`, a few rows of a small table change, and each method refreshes its model. Otherwise
a share of the groups gets another row, and each mode replaces them; printed are medians of a fill
and of reading all rows of the table after it, and the table is compacted before each fill.
CPU seconds are those of Spark's JVM and of this process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from vde_dagster.base.names import ModelName
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.strategies.replace_rows import COPY_ON_WRITE, MERGE_ON_READ, MODE
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.daily_runs import DailyRuns

T = TypeVar("T")
_GROUPED = (
    "SELECT customer, count(*) AS orders, sum(amount) AS amount{more}, '{way}' AS way "
    "FROM raw.orders GROUP BY customer"
)
_BY_KEYS = ", count(DISTINCT note) AS notes, max(note) AS note"
_CHANGES = "FULL (refresh changes)"
METHODS = {
    "whole": ("FULL (refresh whole)", _GROUPED.format(more=_BY_KEYS, way="whole")),
    "keys": (_CHANGES, _GROUPED.format(more=_BY_KEYS, way="keys")),
    "groups": (_CHANGES, _GROUPED.format(more="", way="groups")),
    "rows": (_CHANGES, "SELECT id, amount * 2 AS twice, note FROM raw.orders WHERE amount > 3"),
}
MODES = {"cow": COPY_ON_WRITE, "mor": MERGE_ON_READ, "chosen": ""}


class Measured:
    """Wall and CPU seconds of calls by name."""

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        self.found: dict[str, list[tuple[float, float, float]]] = {}

    def call(self, name: str, function: Callable[[], T]) -> T:
        """Call a function and keep its seconds."""
        jvm, own, clock = self._jvm_seconds(), time.process_time(), time.perf_counter()
        try:
            return function()
        finally:
            took = time.perf_counter() - clock
            figures = took, self._jvm_seconds() - jvm, time.process_time() - own
            self.found.setdefault(name, []).append(figures)

    def line(self, name: str) -> str:
        """Return the medians of a name."""
        medians = [statistics.median(part) for part in zip(*self.found[name], strict=True)]
        return "{:8.2f} {:8.2f} {:8.2f}".format(*medians)

    def _jvm_seconds(self) -> float:
        fields = Path(f"/proc/{self._jvm}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--shares", default="0.001,0.01,0.1,0.5")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        session: Any = engine.session
        measured = Measured(session._jvm.java.lang.ProcessHandle.current().pid())
        _watch(measured)
        root = Path(folder) / "project"
        root.mkdir()
        if args.fixed:
            _fixed(root, measured, args.rounds)
        else:
            shares = [float(one) for one in args.shares.split(",")]
            _modes(root, measured, args.rows, shares, args.rounds)
        engine.close()


def _watch(measured: Measured) -> None:
    fill = SparkEngine.fill

    def watched(self: SparkEngine, task: FillTask) -> FillResult:
        return measured.call(task.snapshot.name.name, lambda: fill(self, task))

    SparkEngine.fill = watched  # type: ignore[method-assign]


def _world(root: Path, files: dict[str, str], rows: int, keys: int) -> DailyRuns:
    return DailyRuns(
        root,
        files,
        "CREATE TABLE lakehouse.raw.orders (id INT, customer INT, amount INT, note STRING) "
        "USING iceberg",
        f"INSERT INTO lakehouse.raw.orders {_orders(rows, keys)}",
    )


def _orders(count: int, keys: int) -> str:
    """Write orders of customers that are spread over all files."""
    return (
        f"SELECT CAST(id AS INT), CAST(id * 7919 % {keys} AS INT), CAST(id % 97 AS INT), uuid() "
        f"FROM range({count})"
    )


def _fixed(root: Path, measured: Measured, rounds: int) -> None:
    files = {
        f"models/{name}.sql": f"MODEL (name m.{name}, kind {kind}); {query}"
        for name, (kind, query) in METHODS.items()
    }
    world = _world(root, files, 20_000, 2_000)
    for number in range(3 + rounds):
        if number == 3:
            measured.found.clear()  # The first fills of a session are slower.
        update = "UPDATE lakehouse.raw.orders SET amount = amount + 1"
        world.sql(f"{update} WHERE id IN ({number * 3 + 4}, {number * 31 + 5})")
        world.sql(f"INSERT INTO lakehouse.raw.orders {_orders(20, 2_000)}")
        world.tick()
    print("method    seconds      JVM   Python (CPU)")
    for name in METHODS:
        print(f"{name:8} {measured.line(name)}")


def _modes(root: Path, measured: Measured, rows: int, shares: list[float], rounds: int) -> None:
    keys = rows // 3
    files = {}
    for name, mode in MODES.items():
        properties = f", physical_properties ('{MODE}' = '{mode}')" if mode else ""
        query = _GROUPED.format(more=_BY_KEYS, way=name)
        files[f"models/{name}.sql"] = f"MODEL (name m.{name}, kind {_CHANGES}{properties}); {query}"
    world = _world(root, files, rows, keys)
    workspace: Any = world.workspace
    for share in shares:
        measured.found.clear()
        for _ in range(rounds):
            count = max(1, int(keys * share))
            world.sql(f"INSERT INTO lakehouse.raw.orders {_orders(count, keys)}")
            world.tick()
            for name in MODES:
                read = f"SELECT sum(orders), sum(notes), max(note) FROM m.{name}"
                for _ in range(2):
                    measured.call(f"read {name}", partial(workspace.query, "prod", read))
                for table in workspace.store.tables.own_tables(ModelName("m", name)):
                    workspace.engine().compact(table.ref)
        print(f"{share:6.1%} of {keys:,}  fill s      JVM   Python    read s      JVM   Python")
        for name in MODES:
            print(f"{name:15} {measured.line(name)}  {measured.line(f'read {name}')}", flush=True)


if __name__ == "__main__":
    main()
