"""Kills of every kind on Spark: `python -m benchmarks.kills_on_spark [SECONDS [SEED [NAME]]]`.

All kinds and operations of `vde_dagster_tests.kinds`, killed behind each step once, in an order
that the seed decides; whoever comes next applies the same plan or plans again. Then chains of two
kills (one in the recovery of the other), until the time is over.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from vde_dagster.spark import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.kinds.kills import OPERATIONS, Life, Operation, Trial, World
from vde_dagster_tests.kinds.lives import LIVES, know_kinds
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
        How many `steps` there are, how many kills were `tried`, how many `failed`.
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
        for case in cases:
            if time.monotonic() > until:
                break
            again = chance.random() < 0.5
            counts["tried"] += 1
            try:
                trial.kill(*case, again=again)
            except Exception:
                counts["failed"] += 1
                ends = [trial.pairs()[n - 1] for n in case]
                print(f"FAILED {life.name}, {operation.name}: {case} {ends}, again={again}")
                print(traceback.format_exc(limit=-3), flush=True)
    finally:
        shutil.rmtree(folder)
    return counts


def main(seconds: float = 900.0, seed: str = "1", name: str = "") -> int:
    """Sweep for so long, and print how many kills ended well.

    Args:
        seconds: When to stop.
        seed: Decides the order.
        name: Only kinds whose name holds this.

    Returns:
        How many kills failed.
    """
    began = time.monotonic()
    until = began + seconds
    chance = random.Random(seed)
    know_kinds()
    trials = [
        (life, operation)
        for life in LIVES
        for operation in OPERATIONS
        if operation.lived_by(life) and name in life.name
    ]
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        assert engine.session is not None
        print(f"{len(trials)} kinds in operations; seed {seed}", flush=True)
        for life, operation in trials:
            if time.monotonic() < until:
                found = sweep(life, operation, chance, 0, until)
                total += found
                told = f"{found['tried']} of {found['steps']} steps, {found['failed']} failed"
                print(f"{life.name}, {operation.name}: {told}", flush=True)
        singles = total["tried"]
        while time.monotonic() < until:
            total += sweep(*chance.choice(trials), chance, 5, until)
        engine.close()
    print(f"{singles} kills, {total['tried'] - singles} chains of two", end=" ")
    print(f"in {time.monotonic() - began:.0f} s; {total['failed']} failed")
    return total["failed"]


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(min(1, main(float(arguments[0]) if arguments else 900.0, *arguments[1:3])))
