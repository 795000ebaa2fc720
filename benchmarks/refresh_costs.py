"""Seconds of computing all rows and of refreshing from changes, by bytes and share of changes.

    python -m benchmarks.refresh_costs [--rows 20000,200000,1000000,4000000]
        [--shares 0.001,0.01,0.1,0.5] [--rounds 3] [--methods keys,rows,groups] [--csv FILE]
        [--cpu]

Three queries over orders of customers are computed whole and refreshed from changes, over the same
table: by keys, by rows, and by merged groups. Each round appends a share of orders, of random
customers, or updates as many orders of as few partitions as possible, and runs the day. Printed are
medians, and the rates of least squares through all fills, which are the source of the constants of
`planning.changes.refresh`. The file has all fills, for replays without Spark.
With `--cpu`, CPU seconds take the place of seconds, for a busy machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.cpu import measured_tick
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.planning.changes.refresh import (
    CHANGES_FIXED,
    CHANGES_RATE,
    SCAN_RATE,
    WHOLE_FIXED,
    WHOLE_RATE,
    RefreshSizes,
    choose_refresh,
)
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.daily_runs import DailyRuns

QUERIES = {
    "keys": "SELECT customer, count(*) AS orders, count(DISTINCT note) AS notes "
    "FROM raw.orders WHERE amount > {0} GROUP BY customer",
    "rows": "SELECT customer, amount * 2 AS amount, note FROM raw.orders WHERE amount > {0}",
    "groups": "SELECT customer, count(*) AS orders, count(amount) AS known, sum(amount) AS amount "
    "FROM raw.orders WHERE amount > {0} GROUP BY customer",
}
"""Queries by method; models with equal queries would share a table."""
PARTITIONS = 20


@dataclass(frozen=True, slots=True)
class Pair:
    """Two fills with the same changes: computed whole, and refreshed from changes."""

    sizes: RefreshSizes
    whole: float
    changes: float

    @property
    def chosen(self) -> float:
        """Seconds of the way that the rule of thumb chooses."""
        return self.changes if choose_refresh(self.sizes).value == "cheaper" else self.whole


def main() -> None:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="20000,200000,1000000,4000000")
    parser.add_argument("--shares", default="0.001,0.01,0.1,0.5")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--methods", default="keys,rows,groups")
    parser.add_argument("--csv", type=Path, help="a file for the sizes and seconds of all fills")
    parser.add_argument("--cpu", action="store_true", help="measure CPU seconds")
    args = parser.parse_args()
    shares = [float(one) for one in args.shares.split(",")]
    found: list[Pair] = []
    print("    rows  share  method    inputs MB  changed MB   whole s  changes s  the rule chooses")
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        for rows in map(int, args.rows.split(",")):
            root = Path(folder) / f"project{rows}"
            root.mkdir()
            methods = args.methods.split(",")
            for pairs in _measure(root, rows, shares, args.rounds, methods, args.cpu):
                found += pairs
                if args.csv:
                    _write(args.csv, found)
        engine.close()
    _print_rates(found)


def _measure(
    root: Path, rows: int, shares: Sequence[float], rounds: int, methods: Sequence[str], cpu: bool
) -> Iterable[list[Pair]]:
    files = {
        f"models/{method}_{name}.sql": f"MODEL (name m.{method}_{name}, kind {kind}); "
        + QUERIES[method].format(least)
        for method in methods
        for least, name, kind in (
            (-1, "whole", "FULL (refresh whole)"),
            (-2, "changes", "FULL (refresh changes)"),
        )
    }
    keys = max(10, rows // 10)

    def orders(count: int) -> str:
        return (
            f"SELECT CAST(rand() * {keys} AS INT), INT(id % 97), uuid(), INT(id % {PARTITIONS}) "
            f"FROM range({count})"
        )

    world = DailyRuns(
        root,
        files,
        "CREATE OR REPLACE TABLE lakehouse.raw.orders (customer INT, amount INT, note STRING, "
        "part INT) USING iceberg PARTITIONED BY (part)",
        f"INSERT INTO lakehouse.raw.orders {orders(rows)}",
    )
    world.sql(f"INSERT INTO lakehouse.raw.orders {orders(1)}")
    world.tick()  # The first fills of a session are slower.
    for share in shares:
        parts = max(1, round(share * PARTITIONS))
        every = max(1, round(1 / share * parts / PARTITIONS))
        for statement in (
            f"INSERT INTO lakehouse.raw.orders {orders(max(1, int(rows * share)))}",
            f"UPDATE lakehouse.raw.orders SET note = concat(note, 'x'), amount = amount + 1 "
            f"WHERE part < {parts} AND customer % {every} = 0",
        ):
            own: dict[str, list[Pair]] = {}
            for _ in range(rounds):
                world.sql(statement)
                events, seconds = measured_tick(world)
                for method in methods:
                    pair = _pair(method, events, seconds if cpu else None)
                    own.setdefault(pair.sizes.method, []).append(pair)
            for method, pairs in own.items():
                sizes = pairs[-1].sizes
                print(
                    f"{rows:8,} {share:6.1%}  {method:8} {sizes.inputs / 1e6:10.1f} "
                    f"{sizes.changed / 1e6:11.2f} {statistics.median(p.whole for p in pairs):9.2f} "
                    f"{statistics.median(p.changes for p in pairs):10.2f}  "
                    f"{choose_refresh(sizes).value}",
                    flush=True,
                )
                yield pairs
    world.workspace.close()


def _pair(method: str, events: Iterable[Event], cpu: Mapping[str, float] | None) -> Pair:
    filled = {
        event.snapshot.name.name: event for event in events if isinstance(event, IntervalFilled)
    }
    refresh = filled[f"{method}_changes"].refresh
    assert refresh is not None
    assert refresh.from_changes, refresh
    assert refresh.sizes is not None
    whole, changes = (
        (filled[name].result.seconds or 0.0) if cpu is None else cpu[name]
        for name in (f"{method}_whole", f"{method}_changes")
    )
    return Pair(refresh.sizes, whole, changes)


def _write(file: Path, pairs: Iterable[Pair]) -> None:
    lines = ["method,inputs,table,changed,scanned,rows,whole,changes"]
    for one in pairs:
        s = one.sizes
        sizes = f"{s.method},{s.inputs},{s.table},{s.changed},{s.scanned},{s.rows}"
        lines.append(f"{sizes},{one.whole:.3f},{one.changes:.3f}")
    file.write_text("\n".join([*lines, ""]))


def _print_rates(found: Sequence[Pair]) -> None:
    print()
    for method in CHANGES_FIXED:
        pairs = [one for one in found if one.sizes.method == method]
        if len(pairs) < 3:
            continue
        scanned = any(one.sizes.scanned for one in pairs)
        read = [
            [1.0, one.sizes.changed, *([one.sizes.scanned] if scanned else [])] for one in pairs
        ]
        whole, rate = _least_squares(
            [[1.0, one.sizes.inputs + one.sizes.table] for one in pairs], [p.whole for p in pairs]
        )
        fixed, changed, *scan = _least_squares(read, [one.changes for one in pairs])
        print(
            f"{method + ':':14}whole {whole:.2f} s + {rate * 1e9:.1f} s/GB of inputs and table; "
            f"changes {fixed:.2f} s + {changed * 1e9:.1f} s/GB changed"
            + "".join(f" + {one * 1e9:.1f} s/GB scanned" for one in scan)
        )
    best = sum(min(one.whole, one.changes) for one in found)
    print(f"the rule takes {sum(one.chosen for one in found) / best:.2f} of the better way's time;")
    print(
        f"always whole {sum(one.whole for one in found) / best:.2f}, "
        f"always changes {sum(one.changes for one in found) / best:.2f}"
    )
    rates = {method: (CHANGES_FIXED[method], CHANGES_RATE[method]) for method in CHANGES_FIXED}
    print(f"constants now: whole {WHOLE_FIXED}, {WHOLE_RATE}; scanned {SCAN_RATE}; {rates}")


def _least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return factors that are not negative, with the least squares of relative errors."""
    scaled = np.array(rows) / np.array(values)[:, None]
    used = list(range(scaled.shape[1]))
    while True:
        part = np.linalg.lstsq(scaled[:, used], np.ones(len(values)), rcond=None)[0]
        if (part >= 0).all():
            break
        used = [one for one, factor in zip(used, part, strict=True) if factor >= 0]
    found = np.zeros(scaled.shape[1])
    found[used] = part
    return [float(one) for one in found]


if __name__ == "__main__":
    main()
