"""Seconds of computing all rows and of refreshing from changes, by bytes and share of changes.

    python -m benchmarks.refresh_costs [--rows 20000,200000,1000000,4000000]
        [--shares 0.001,0.01,0.1,0.5] [--rounds 3]

Orders of customers are added up by a model that is computed whole and by one that refreshes from
changes, over the same table. Each round appends a share of orders, of random customers, and runs
the day. Printed are medians, and the lines of least squares through all fills, which are the source
of the constants of `planning.changes.refresh`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.planning.changes.refresh import RULE_OF_THUMB, RefreshSizes, choose_refresh
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.daily_runs import DailyRuns

_QUERY = (
    "SELECT customer, count(*) AS orders, sum(amount) AS amount, max(note) AS note, '{0}' AS way "
    "FROM raw.orders GROUP BY customer"
)


def main() -> None:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="20000,200000,1000000,4000000")
    parser.add_argument("--shares", default="0.001,0.01,0.1,0.5")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    shares = [float(one) for one in args.shares.split(",")]
    found: list[tuple[RefreshSizes, float, float]] = []
    print("    rows  share    inputs MB  changed MB   whole s  changes s  the rule chooses")
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        for rows in map(int, args.rows.split(",")):
            root = Path(folder) / f"project{rows}"
            root.mkdir()
            found += _measure(root, rows, shares, args.rounds)
        engine.close()
    _print_lines(found)


def _measure(
    root: Path, rows: int, shares: Sequence[float], rounds: int
) -> list[tuple[RefreshSizes, float, float]]:
    files = {
        f"models/{name}.sql": f"MODEL (name m.{name}, kind {kind}); {_QUERY.format(name)}"
        for name, kind in (("whole", "FULL"), ("changes", "FULL (refresh changes)"))
    }
    keys = max(10, rows // 10)

    def orders(count: int) -> str:
        return f"SELECT CAST(rand() * {keys} AS INT), id % 97, uuid() FROM range({count})"

    world = DailyRuns(
        root,
        files,
        "CREATE OR REPLACE TABLE lakehouse.raw.orders (customer INT, amount INT, note STRING) "
        "USING iceberg",
        f"INSERT INTO lakehouse.raw.orders {orders(rows)}",
    )
    found = []
    world.sql(f"INSERT INTO lakehouse.raw.orders {orders(1)}")
    world.tick()  # The first fills of a session are slower.
    for share in shares:
        own = []
        for _ in range(rounds):
            world.sql(f"INSERT INTO lakehouse.raw.orders {orders(max(1, int(rows * share)))}")
            own.append(_figures(world.tick()))
        sizes = own[-1][0]
        whole = statistics.median(one for _, one, _ in own)
        changes = statistics.median(one for _, _, one in own)
        print(
            f"{rows:8,} {share:6.1%} {sizes.inputs / 1e6:12.1f} {sizes.changed / 1e6:11.2f} "
            f"{whole:9.2f} {changes:10.2f}  {choose_refresh(sizes).value}",
            flush=True,
        )
        found += own
    return found


def _figures(events: Iterable[Event]) -> tuple[RefreshSizes, float, float]:
    filled = {
        event.snapshot.name.name: event for event in events if isinstance(event, IntervalFilled)
    }
    refresh = filled["changes"].refresh
    assert refresh is not None
    assert refresh.from_changes, refresh
    assert refresh.sizes is not None
    whole, changes = (filled[name].result.seconds or 0.0 for name in ("whole", "changes"))
    return refresh.sizes, whole, changes


def _print_lines(found: Sequence[tuple[RefreshSizes, float, float]]) -> None:
    sizes = [one for one, _, _ in found]
    moved = [[1.0, one.inputs + one.table] for one in sizes]
    read = [[1.0, one.scanned, one.changed] for one in sizes]
    fixed, rate = _least_squares(moved, [whole for _, whole, _ in found])
    print(f"\nwhole:   {fixed:.2f} s + {rate * 1e9:.1f} s/GB of inputs and table")
    fixed, scan, changed = _least_squares(read, [changes for _, _, changes in found])
    print(
        f"changes: {fixed:.2f} s + {scan * 1e9:.1f} s/GB scanned + {changed * 1e9:.1f} s/GB changed"
    )
    best = sum(min(whole, changes) for _, whole, changes in found)
    chosen = sum(
        changes if choose_refresh(one).value == "cheaper" else whole
        for one, whole, changes in found
    )
    always = sum(whole for _, whole, _ in found), sum(changes for _, _, changes in found)
    print(f"the rule takes {chosen / best:.2f} of the better way for each fill;")
    print(f"always whole {always[0] / best:.2f}, always changes {always[1] / best:.2f}")
    print(f"constants now: {RULE_OF_THUMB}")


def _least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    found = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)[0]
    return [float(one) for one in found]


if __name__ == "__main__":
    main()
