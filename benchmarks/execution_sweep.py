"""Every crash of every command: `python -m benchmarks.execution_sweep [SECONDS [SEED]]`.

All side effects of `vde_dagster_tests.execution.crash_world` times all six ways to fail, in an
order that the seed decides; then, for the commands that hold leases, a stall after each side effect
during which another process takes over; then pairs (a crash during the recovery), until the time
is over.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from vde_dagster.state import StateStore
from vde_dagster_tests.execution.crash_world import (
    OPERATIONS,
    TAKEN_OVER,
    Stage,
    check_case,
    check_stall,
)
from vde_dagster_tests.faults import MODES, Fault

STALL_SECONDS = 600.0


def cases(
    stages: list[Stage], chance: random.Random
) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """Name every single fault once, every stall, then pairs without end."""
    singles = [
        (stage, [Fault(point, mode, occurrence, STALL_SECONDS)])
        for stage in stages
        for point, occurrence in stage.occurrences()
        for mode in MODES
    ]
    chance.shuffle(singles)
    for stage, faults in singles:
        yield "fault", f"{stage.operation.name}: {faults}", partial(check_case, stage, faults)
    for stage in stages:
        if stage.operation in TAKEN_OVER:
            for after in stage.pauses():
                what = f"{stage.operation.name}: stalled after {after}"
                yield "stall", what, partial(check_stall, stage, after)
    while True:
        stage = chance.choice(stages)
        pair = chance.choices(stage.occurrences(), k=2)
        faults = [Fault(p, chance.choice(MODES), n, STALL_SECONDS) for p, n in pair]
        yield "pair", f"{stage.operation.name}: {faults}", partial(check_case, stage, faults)


def main(seconds: float = 600.0, seed: str = "1") -> int:
    """Sweep for so long, and print how many cases held.

    Args:
        seconds: When to stop.
        seed: Decides the order.

    Returns:
        How many cases failed.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.db"
        StateStore.open(f"sqlite:///{empty}").close()
        stages = [Stage(operation, empty) for operation in OPERATIONS]
    points = sum(len(stage.points) for stage in stages)
    print(
        f"{len(stages)} commands, {points} side effects, {points * len(MODES)} faults; seed {seed}"
    )
    counts: Counter[str] = Counter()
    for kind, what, check in cases(stages, random.Random(seed)):
        if time.monotonic() - began > seconds:
            break
        counts[kind] += 1
        try:
            check()
        except Exception:
            counts["failed"] += 1
            print(f"FAILED {what}\n{traceback.format_exc(limit=-3)}", flush=True)
    for stage in stages:
        stage.close()
    took = time.monotonic() - began
    told = ", ".join(f"{counts[kind]} {kind}s" for kind in ("fault", "stall", "pair"))
    print(f"{told} in {took:.0f} s")
    print(f"{counts['failed']} failed")
    return counts["failed"]


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(min(1, main(float(arguments[0]) if arguments else 600.0, *arguments[1:2])))
