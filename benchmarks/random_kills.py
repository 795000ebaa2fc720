"""Real SIGKILLs at random moments, on Spark: `python -m benchmarks.random_kills`.

On both databases: applies, runs, rollbacks, clean-ups, syncs, deployments of merged commits,
upgrades of the state, the engine's own processes, and two approvals in Dagster at once, of one plan
and of two plans.
Each is killed at a random moment of its usual time and repeated at once; see
`vde_dagster_tests.execution.random_kills`.
Printed is for each operation in how many of its trials a process was killed before it had ended.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from vde_dagster.spark.session.warm import stop_engines
from vde_dagster_tests.execution.kill_sinks import open_sinks
from vde_dagster_tests.execution.random_kills import (
    APPROVALS,
    WORK,
    Engine,
    World,
    approvals,
    counts_text,
    migration,
    trial,
)
from vde_dagster_tests.state.postgres_server import PostgresServer

OPERATIONS = (*WORK, "apply", "run", "apply", "run", "engine", "migrate", *APPROVALS)

MANY = 3
"""Trials of the engine's own process among which one has to find a process."""


def attack(
    server: PostgresServer,
    folder: Path,
    state: str,
    engine: Engine,
    trials: int,
    until: float,
    seed: str,
    tried: Sequence[str],
) -> int:
    """Kill operations of one world; return how many trials went wrong."""
    chance = random.Random(f"{seed} {state}")
    sink = server.url(server.create_database())
    on_server = state == "postgresql"
    url = server.url(server.create_database()) if on_server else f"sqlite:///{folder / 'vde.db'}"
    with open_sinks(folder, sink) as sinks:
        world = World(folder, url, sinks, engine, chance)
        operations = [chance.choice(tried) for _ in range(trials)]
        return _attack(world, server, state, operations, until)


def _attack(
    world: World, server: PostgresServer, state: str, operations: Sequence[str], until: float
) -> int:
    engine, on_server = world.engine, state == "postgresql"
    counts, killed, failed = Counter[str](), Counter[str](), 0
    for name in operations:
        if time.monotonic() > until:
            break
        counts[name] += 1
        if sum(counts.values()) % 10 == 0:
            done = sum(counts.values()) - 1
            print(f"{state}: {done} trials so far; {counts_text(counts, killed)}", flush=True)
        try:
            if name == "migrate":
                empty = server.url(server.create_database()) if on_server else None
                killed[name] += migration(world, empty)
            elif name in APPROVALS:
                killed[name] += approvals(world, plans=APPROVALS[name])
            else:
                killed[name] += trial(world, name)
        except Exception:
            failed += 1
            print(
                f"FAILED {state}, {name}, trial {world.number}: {traceback.format_exc()}",
                flush=True,
            )
            break  # The world may be damaged.
    total = sum(counts.values())
    if engine == "spark" and counts["engine"] >= MANY and not killed["engine"]:
        failed += 1
        print(f"FAILED {state}: no engine's process was found to kill", flush=True)
    print(
        f"{state}, {engine}: {total} trials, {sum(killed.values())} killed before their end, "
        f"{failed} failed; killed of tried: {counts_text(counts, killed)}",
        flush=True,
    )
    stop_engines(world.folder.root / ".vde" / "engine")
    return failed


def main(
    seconds: float, trials: int, seed: str, engine: str, states: list[str], only: list[str]
) -> int:
    """Kill operations on each database, and print how many ended well.

    Args:
        seconds: When to stop, for each database.
        trials: The most trials on each database.
        seed: Decides what is killed, and when.
        engine: `spark`, or `duck` for one without a JVM.
        states: The databases: `sqlite`, `postgresql`.
        only: The operations to kill; all without one.

    Returns:
        How many trials failed.
    """
    print(f"seed {seed}", flush=True)
    # Tests have an engine that ends with its process; here it is the one that stays.
    os.environ["VDE_SPARK__WARM"] = "true"
    server, failed = PostgresServer(), 0
    try:
        for state in states:
            with tempfile.TemporaryDirectory() as folder:
                until = time.monotonic() + seconds
                chosen = cast("Engine", engine)
                failed += attack(
                    server, Path(folder), state, chosen, trials, until, seed, only or OPERATIONS
                )
    finally:
        server.stop()
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kill real processes at random moments.")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--engine", default="spark", choices=["spark", "duck"])
    parser.add_argument("--states", nargs="*", default=["sqlite", "postgresql"])
    parser.add_argument("--only", nargs="*", default=[], choices=sorted({*OPERATIONS}))
    sys.exit(min(1, main(**vars(parser.parse_args()))))
