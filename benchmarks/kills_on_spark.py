"""Kills of every kind on Spark: `python -m benchmarks.kills_on_spark`.

All pairs of a kind and an operation of `vde_dagster_tests.kinds`, killed behind each step once, in
an order that the seed decides; whoever comes next applies the same plan or plans again. With
`--seconds` it stops then, and what is left of the time has chains of two kills, one in the recovery
of the other. A pair has a name such as `SCD_TYPE_2_BY_TIME, run`: `--only` takes those whose name
holds a text, `--begin` starts with the first such pair, and those before it come last.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.kinds.kills import OPERATIONS, Life, Operation, Trial, World
from vde_dagster_tests.kinds.lives import LIVES
from vde_dagster_tests.kinds.own_kinds import know_kinds
from vde_dagster_tests.lakehouse.protocol import fast_folder


def sweep(
    life: Life, operation: Operation, chance: random.Random, chains: int, until: float
) -> Counter[str]:
    """Kill one kind in one operation behind each step, or in chains.

    Args:
        life: The kind.
        operation: The operation.
        chance: Decides the order.
        chains: How many chains of two to try instead; 0 for every single step.
        until: When to stop, on the monotonic clock.

    Returns:
        How many `steps` there are, how many kills were `tried`, how many `failed`; and whether
        what the pair does when nobody dies went wrong, so that none or not all were tried.
    """
    folder = Path(fast_folder())
    counts: Counter[str] = Counter()
    try:
        trial = Trial(World(folder, life), operation)
        numbers = range(1, len(trial.steps) + 1)
        counts["steps"] = len(numbers)
        cases = [(n,) for n in chance.sample(numbers, len(numbers))]
        if chains:
            cases = [tuple(chance.choices(numbers, k=2)) for _ in range(chains)]  # type: ignore[misc]
        else:
            trial.check_from_scratch()
        if life.refreshes and life.has_only_current_rows:
            cases += [(-number,) for number in numbers]
        for case in cases:
            if time.monotonic() > until:
                break
            again = chance.random() < 0.5
            counts["tried"] += 1
            try:
                if case[0] < 0:
                    trial.kill_before_changes(-case[0])
                else:
                    trial.kill(*case, again=again)
            except Exception:
                counts["failed"] += 1
                ends = [trial.pairs()[abs(n) - 1] for n in case]
                print(f"FAILED {name_of(life, operation)}: {case} {ends}, again={again}")
                print(traceback.format_exc(limit=-3), flush=True)
    except Exception:
        counts["not tried"] += 1
        print(f"NOT TRIED {name_of(life, operation)}: {traceback.format_exc(limit=-3)}", flush=True)
    finally:
        shutil.rmtree(folder)
    return counts


def pairs(only: str = "", begin: str = "") -> list[tuple[Life, Operation]]:
    """Return what is tried, in order.

    Args:
        only: Takes the pairs whose name holds this.
        begin: Starts with the first pair whose name holds this; those before it come last.

    Raises:
        SystemExit: No pair has such a name.
    """
    every = [(a, b) for a in LIVES for b in OPERATIONS if b.lived_by(a)]
    found = [pair for pair in every if only in name_of(*pair)]
    starts = [n for n, pair in enumerate(found) if begin in name_of(*pair)]
    if not starts:
        sys.exit(
            f"no pair is called {only!r} and {begin!r}; there are:\n" + "\n".join(names(every))
        )
    return found[starts[0] :] + found[: starts[0]]


def names(trials: list[tuple[Life, Operation]]) -> list[str]:
    """Return what pairs are called."""
    return [name_of(*trial) for trial in trials]


def name_of(life: Life, operation: Operation) -> str:
    """Return what a pair is called."""
    return f"{life.name}, {operation.name}"


def main(seconds: float, seed: str, only: str, begin: str) -> int:
    """Sweep, and print how many kills ended well.

    Args:
        seconds: When to stop; infinite for when each pair was swept once.
        seed: Decides the order.
        only: As in `pairs`.
        begin: As in `pairs`.

    Returns:
        How many kills failed, and pairs that could not be tried.
    """
    began = time.monotonic()
    until = began + seconds
    chance = random.Random(seed)
    know_kinds()
    trials = pairs(only, begin)
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        assert engine.session is not None
        print(f"{len(trials)} kinds in operations; seed {seed}", flush=True)
        for number, (life, operation) in enumerate(trials, 1):
            if time.monotonic() < until:
                found = sweep(life, operation, chance, 0, until)
                total += found
                told = f"{found['tried']} of {found['steps']} steps, {found['failed']} failed"
                print(f"{number}. {name_of(life, operation)}: {told}", flush=True)
        singles = total["tried"]
        while seconds < math.inf and time.monotonic() < until:
            total += sweep(*chance.choice(trials), chance, 5, until)
        engine.close()
    print(f"{singles} kills, {total['tried'] - singles} chains of two", end=" ")
    print(f"in {time.monotonic() - began:.0f} s; {total['failed']} failed", end=", ")
    print(f"{total['not tried']} pairs could not be tried")
    return total["failed"] + total["not tried"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kill every kind in every operation.")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="")
    parser.add_argument("--begin", default="")
    sys.exit(min(1, main(**vars(parser.parse_args()))))
