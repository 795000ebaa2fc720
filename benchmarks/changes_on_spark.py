"""Random histories of published models on Spark and Iceberg, replayed by their changes.

    python -m benchmarks.changes_on_spark [--seeds 3] [--first 0] [--steps 8] [--how lineage]
        [--every 1]

Models are filled, edited, renamed, restated, rolled back with and without their data, frozen and
taken out. Between all pairs of versions a copy follows by the net changes, by those of each
version, and by what the catalog's view of changes showed: each has to be what the view shows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.execution.spark_history import HOW, MODELS, History
from vde_dagster_tests.projects import ProjectFolder


def main() -> int:
    """Live through the histories; returns how many pairs of versions went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--how", choices=[*HOW], action="append")
    parser.add_argument("--every", type=int, default=1, help="query one of so many pairs")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        assert engine.session
        for seed in range(args.first, args.first + args.seeds):
            for how in args.how or HOW:
                began = time.monotonic()
                name = f"seed {seed}, {how}"
                try:
                    history = _live(Path(folder) / f"{seed}-{how}", seed, how, args.steps)
                except Exception:
                    wrong += 1
                    print(f"{name}:", traceback.format_exc(), flush=True)
                    continue
                wrong += _check(history, counts, name, args.every)
                history.workspace.close()
                took = time.monotonic() - began
                print(f"{name}: {', '.join(history.did)}; {took:.0f} s", flush=True)
        engine.close()
    for what, count in sorted(counts.items()):
        print(f"{what:24}{count:8}")
    print(f"{'went wrong':24}{wrong:8}")
    return wrong


def _live(root: Path, seed: int, how: str, steps: int) -> History:
    opened: list[Workspace] = []

    def open_(folder: ProjectFolder) -> Workspace:
        while opened:
            opened.pop().close()
        opened.append(Workspace.open(folder.root))
        return opened[0]

    history = History(ProjectFolder(root), open_, how, seed)
    for _ in range(steps):
        history.step()
    return history


def _check(history: History, counts: Counter[str], name: str, every: int) -> int:
    """Compare pairs of versions; return how many went wrong."""
    wrong = 0
    for model in MODELS:
        for until in range(1, history.last + 1):
            for since in range(history.last + 1):
                asked = history.dice.randrange(every) == 0
                try:
                    if since and asked:
                        counts[f"net: {history.check_net(model, since, until)}"] += 1
                    if asked:
                        counts["each: steps"] += history.check_each(model, since, until)
                    if since <= until:
                        counts[f"view: {history.check_view(model, since, until)}"] += 1
                except Exception:
                    wrong += 1
                    where = f"{name}, {model} from {since} to {until}, {history.did}"
                    print(f"{where}:", traceback.format_exc(), flush=True)
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
