"""Random histories of published models on Spark and Iceberg, replayed by their changes.

    python -m benchmarks.changes_on_spark [--seeds 3] [--first 0] [--steps 8] [--how lineage]
        [--every 1] [--wide]

Models are filled, edited, renamed, restated, rolled back with and without their data, frozen and
taken out. Between all pairs of versions a copy follows by the net changes, by those of each
version, and by what the catalog's view of changes showed: each has to be what the view shows.
With `--wide` there are models of all kinds that have tables, with NaN, NULL and rows that are
there twice, changes in place, previews in development and clean-ups; after each step copies of all
earlier versions follow to the new one, and back.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.state.db.effects import Clock
from vde_dagster_tests.conftest import lakehouse_of, small_spark
from vde_dagster_tests.execution.change_copies import Copies
from vde_dagster_tests.execution.spark_history import HOW, MODELS, History
from vde_dagster_tests.execution.wide_history import MODELS as WIDE
from vde_dagster_tests.execution.wide_history import WideHistory
from vde_dagster_tests.projects import ProjectFolder


def main() -> int:
    """Live through the histories; returns how many pairs of versions went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--how", choices=[*HOW], action="append")
    parser.add_argument("--wide", action="store_true", help="all kinds, and a development")
    parser.add_argument("--every", type=int, default=1, help="query one of so many pairs")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        settings = small_spark(Path(folder))
        engine = SparkEngine(settings, lakehouse=lakehouse_of(settings))
        assert engine.session
        for seed in range(args.first, args.first + args.seeds):
            for how in args.how or HOW:
                began = time.monotonic()
                name = f"seed {seed}, {how}"
                live = _live_widely if args.wide else _live
                root = Path(folder) / f"{seed}-{how}"
                try:
                    found, did = live(root, seed, how, args.steps, counts, args.every)
                    wrong += found
                except Exception:
                    wrong += 1
                    print(f"{name}:", traceback.format_exc(), flush=True)
                    continue
                took = time.monotonic() - began
                print(f"{name}: {', '.join(did)}; {took:.0f} s", flush=True)
        engine.close()
    for what, count in sorted(counts.items()):
        print(f"{what:24}{count:8}")
    print(f"{'went wrong':24}{wrong:8}")
    return wrong


def _live(
    root: Path, seed: int, how: str, steps: int, counts: Counter[str], every: int
) -> tuple[int, list[str]]:
    """Live through a history, then compare all pairs of versions."""
    opened = _Opened()
    history = History(ProjectFolder(root), opened, how, seed)
    for _ in range(steps):
        history.step()
    last = history.copies.last
    pairs = [(since, until) for until in range(1, last + 1) for since in range(last + 1)]
    name = f"seed {seed}, {how}, {history.did}"
    wrong = _check(history.copies, MODELS, pairs, counts, name, history.dice, every)
    history.workspace.close()
    return wrong, history.did


def _live_widely(
    root: Path, seed: int, how: str, steps: int, counts: Counter[str], every: int
) -> tuple[int, list[str]]:
    """Live through a history of all kinds, and compare with each new version as it comes."""
    history, wrong = WideHistory(ProjectFolder(root), _Opened(), how, seed), 0
    dice = random.Random(seed)
    for _ in range(steps):
        for environment in history.step():
            copies = history.copies[environment]
            pairs = [(since, copies.last) for since in range(copies.last + 1)]
            pairs += [(copies.last, until) for until in range(1, copies.last)]
            name = f"seed {seed}, {how}, {environment}, {history.did}"
            wrong += _check(copies, WIDE, pairs, counts, name, dice, every)
    history.workspace.close()
    return wrong, history.did


class _Opened:
    """Opens a project as a new process would; the one before is closed."""

    def __init__(self) -> None:
        self.last: Workspace | None = None

    def __call__(self, folder: ProjectFolder, clock: Clock | None = None) -> Workspace:
        if self.last is not None:
            self.last.close()
        self.last = Workspace.open(folder.root, clock=clock)
        return self.last


def _check(
    copies: Copies,
    models: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    counts: Counter[str],
    name: str,
    dice: random.Random,
    every: int,
) -> int:
    """Compare pairs of versions; return how many went wrong."""
    wrong = 0
    for model in models:
        for since, until in pairs:
            asked = dice.randrange(every) == 0
            try:
                if since and asked:
                    counts[f"net: {copies.check_net(model, since, until)}"] += 1
                if asked:
                    steps = copies.check_each(model, since, until)
                    counts["each: steps" if steps is not None else "each: resync"] += steps or 1
                if since <= until:
                    counts[f"view: {copies.check_view(model, since, until)}"] += 1
            except Exception:
                wrong += 1
                where = f"{name}, {model} from {since} to {until}"
                print(f"{where}:", traceback.format_exc(), flush=True)
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
