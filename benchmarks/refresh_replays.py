"""Regret of `refresh auto` in replayed months, without Spark.

    python -m benchmarks.refresh_replays [--seeds 40] [--days 30] [--csv FILE]

Projects of four tables are filled each day; the true seconds of both ways differ from the rule of
thumb by random factors, fills have noise of 15 %, and every 30th takes five times as long. With the
file of `benchmarks.refresh_costs`, each table draws its days from the measured fills of one method
and size. Printed are the seconds that the choice takes, always computing all rows, and always
refreshing, as multiples of the better way of each fill.
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from vde_dagster.planning.changes.refresh import (
    CHANGES_FIXED,
    NEWEST,
    RULE_OF_THUMB,
    MeasuredFill,
    Refresh,
    RefreshCosts,
    RefreshSizes,
    choose_refresh,
)

Day = tuple[RefreshSizes, float, float]
"""Sizes of a fill, and the seconds of computing all rows and of refreshing."""
Table = Callable[[], Day]


def main() -> None:
    """Replay the months and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--csv", type=Path, help="a file of benchmarks.refresh_costs")
    args = parser.parse_args()
    found = []
    for seed in range(args.seeds):
        draws = random.Random(seed)
        tables = _measured(args.csv, draws) if args.csv else _random(draws)
        found.append(replay(tables, draws, args.days))
    for place, name in enumerate(("auto", "always whole", "always changes")):
        ratios = sorted(one[place] for one in found)
        print(
            f"{name:15} mean {statistics.fmean(ratios):.3f}, median {statistics.median(ratios):.3f}"
            f", most {ratios[-1]:.3f}, at most 1.1 in {sum(r <= 1.1 for r in ratios)} of "
            f"{len(ratios)}"
        )


def replay(tables: Sequence[Table], draws: random.Random, days: int) -> tuple[float, float, float]:
    """Return the seconds of each strategy as multiples of the better way of each fill."""
    fills: list[list[MeasuredFill]] = [[] for _ in tables]
    auto = whole = changes = better = 0.0
    for day in range(days + 1):
        for table, own in zip(tables, fills, strict=True):
            sizes, all_rows, refreshed = table()
            by_changes = False
            if day:
                project = RULE_OF_THUMB.fit(fill for one in fills for fill in one)
                code = choose_refresh(sizes, project.fit(own, NEWEST), own)
                by_changes = Refresh(code).from_changes
                auto += refreshed if by_changes else all_rows
                whole, changes = whole + all_rows, changes + refreshed
                better += min(all_rows, refreshed)
            noise = draws.lognormvariate(0, 0.15) * (5 if draws.random() < 1 / 30 else 1)
            seconds = (refreshed if by_changes else all_rows) * noise
            own.insert(0, MeasuredFill(by_changes, sizes, seconds))
    return auto / better, whole / better, changes / better


def _random(draws: random.Random) -> list[Table]:
    speed = draws.lognormvariate(0, 0.5)
    common = [speed * draws.lognormvariate(0, 0.4) for _ in range(8)]
    return [_random_table(draws, common) for _ in range(4)]


def _random_table(draws: random.Random, common: Sequence[float]) -> Table:
    method = draws.choice(list(CHANGES_FIXED))
    inputs = int(10 ** draws.uniform(5, 10))
    own = int(inputs * draws.uniform(0.001, 1))
    scanned = own + inputs if method == "keys" else 0 if method == "added" else own
    usual_share = 10 ** draws.uniform(-4, -0.7)
    factors = [one * draws.lognormvariate(0, 0.5) for one in common]
    costs = RefreshCosts(tuple(factors[:4]), tuple(factors[4:]))

    def day() -> Day:
        share = min(1.0, usual_share * draws.lognormvariate(0, 1))
        if draws.random() < 0.05:
            share = draws.uniform(0.2, 1.5)
        changed = int(inputs * share)
        sizes = RefreshSizes(inputs, own, changed, scanned, method, changed // 24)
        return sizes, costs.whole_seconds(sizes), costs.changes_seconds(sizes)

    return day


def _measured(file: Path, draws: random.Random) -> list[Table]:
    def project(row: dict[str, str]) -> tuple[str, int]:
        return row["method"], len(row["inputs"])

    rows = sorted(csv.DictReader(file.read_text().splitlines()), key=project)
    groups = [list(map(_day, group)) for _, group in groupby(rows, project)]
    return [lambda group=group: draws.choice(group) for group in groups]  # type: ignore[misc]


def _day(row: dict[str, str]) -> Day:
    inputs, table, changed, scanned = (
        int(row[name]) for name in ("inputs", "table", "changed", "scanned")
    )
    rows = None if row["rows"] == "None" else int(row["rows"])
    method = next(one for one in CHANGES_FIXED if one == row["method"])
    sizes = RefreshSizes(inputs, table, changed, scanned, method, rows)
    return sizes, float(row["whole"]), float(row["changes"])


if __name__ == "__main__":
    main()
