"""Every crash of every command: `python -m benchmarks.execution_sweep [SECONDS [SEED]] [--…]`.

All side effects of `vde_dagster_tests.execution.crash_world` times all six ways to fail, in an
order that the seed decides; then, for the commands that hold leases, a stall after each side effect
during which another process takes over; then pairs (a crash during the recovery), until the time
is over. `--postgres` has the state and the catalog in a PostgreSQL server of its own, and
`--only WORD` takes the commands with a word in their names; `--once` ends before the pairs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from vde_dagster.state.store import StateStore
from vde_dagster_tests.execution.crash_world import (
    OPERATIONS,
    TAKEN_OVER,
    Stage,
    check_case,
    check_stall,
)
from vde_dagster_tests.faults import MODES, Fault
from vde_dagster_tests.state.postgres_server import PostgresServer

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


def main(
    seconds: float = 600.0,
    seed: str = "1",
    *,
    postgres: bool = False,
    only: str = "",
    once: bool = False,
) -> int:
    """Sweep for so long, and print how many cases held.

    Args:
        seconds: When to stop.
        seed: Decides the order.
        postgres: Whether state and catalog are in PostgreSQL.
        only: A word that the names of the commands have.
        once: Whether to end when each single fault and stall was tried.

    Returns:
        How many cases failed.
    """
    began = time.monotonic()
    server = PostgresServer() if postgres else None
    place: tuple[PostgresServer, str] | None = None
    if server is not None:
        place = server, server.create_database()
        StateStore.open(server.url(place[1])).close()
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.db"
        StateStore.open(f"sqlite:///{empty}").close()
        chosen = [operation for operation in OPERATIONS if only in operation.name]
        stages = [Stage(operation, empty, place) for operation in chosen]
    points = sum(len(stage.points) for stage in stages)
    print(
        f"{len(stages)} commands, {points} side effects, {points * len(MODES)} faults; seed {seed}",
        flush=True,
    )
    counts: Counter[str] = Counter()
    for kind, what, check in cases(stages, random.Random(seed)):
        if time.monotonic() - began > seconds or (once and kind == "pair"):
            break
        counts[kind] += 1
        try:
            check()
        except Exception:
            counts["failed"] += 1
            print(f"FAILED {what}\n{traceback.format_exc(limit=-3)}", flush=True)
    for stage in stages:
        stage.close()
    if server is not None:
        server.stop()
    took = time.monotonic() - began
    told = ", ".join(f"{counts[kind]} {kind}s" for kind in ("fault", "stall", "pair"))
    print(f"{told} in {took:.0f} s")
    print(f"{counts['failed']} failed")
    return counts["failed"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=600.0)
    parser.add_argument("seed", nargs="?", default="1")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--once", action="store_true")
    sys.exit(min(1, main(**vars(parser.parse_args()))))
