"""For how long stopped processes hold up others: `python -m benchmarks.stalled_publishers`.

A publisher on PostgreSQL is stopped (`SIGSTOP`) before and behind every side effect and statement
that it passes, and a sync into PostgreSQL before and behind every statement on its target, each
time another one; printed are how many of them held a transaction, and for how long the server let
the longest. The servers are the one that the development dependencies
install, and those whose folders (with `bin` in them) the environment variable
`VDE_POSTGRES_SERVERS` names, separated as in `PATH`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.postgres_server import PostgresServer
from vde_dagster_tests.state.stalls import (
    NotReachedError,
    make_project,
    passed_points,
    seconds_held,
)
from vde_dagster_tests.sync.stalls import make_synced, passed_statements
from vde_dagster_tests.sync.stalls import seconds_held as sync_held

VARIABLE = "VDE_POSTGRES_SERVERS"
Stop = tuple[str, int, bool]
"""A place, how often it is passed, and whether to stop behind it."""


def sweep(server: PostgresServer, idle_seconds: float, stops: int, seed: str) -> int:
    """Stop publishers of one server; return how many it did not end in time.

    Args:
        server: The server.
        idle_seconds: How long a transaction may be silent.
        stops: The most stops to try, in an order that the seed decides.
        seed: Decides it.
    """
    empty = server.create_database()
    StateStore.open(server.url(empty)).close()
    patience = 3 * idle_seconds + 5
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        url = server.url(server.create_database(empty))
        points = passed_points(make_project(root / "steps", url), "prod")

        def hold(number: int, url: str, stop: Stop) -> float | None:
            project = make_project(root / str(number), url)
            return seconds_held(project, url, "prod", stop, idle_seconds, patience)

        what = f"{server.version}, publishers"
        return _try_stops(server, what, points, idle_seconds, stops, seed, hold, empty)


def sweep_syncs(server: PostgresServer, idle_seconds: float, stops: int, seed: str) -> int:
    """Stop syncs into one server; return how many it did not end in time.

    Args:
        server: The server.
        idle_seconds: How long a transaction may be silent.
        stops: The most stops to try, in an order that the seed decides.
        seed: Decides it.
    """
    patience = 3 * idle_seconds + 5
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        url = server.url(server.create_database())
        kinds = passed_statements(make_synced(root / "steps", url), root / "statements")

        def hold(number: int, url: str, stop: Stop) -> float | None:
            project = make_synced(root / str(number), url)
            return sync_held(project, url, stop, idle_seconds, patience)

        what = f"{server.version}, syncs"
        return _try_stops(server, what, kinds, idle_seconds, stops, seed, hold)


def _try_stops(
    server: PostgresServer,
    what: str,
    passed: Iterable[str],
    idle_seconds: float,
    stops: int,
    seed: str,
    hold: Callable[[int, str, Stop], float | None],
    template: str | None = None,
) -> int:
    """Stop a process at some of the places that it passes; return how often it was not ended.

    Args:
        passed: Names of the places, in order, with repetitions.
        hold: Takes a number, a new database's URL and a stop; returns for how long (s) the process
            held a transaction, or None if it was not ended in time.
        template: A database of which each new one is a copy.
    """
    held: list[float] = []
    late = tried = 0
    counts: Counter[str] = Counter()
    cases: list[Stop] = []
    for place in passed:
        counts[place] += 1
        cases += [(place, counts[place], after) for after in (False, True)]
    chosen = random.Random(seed).sample(cases, min(stops, len(cases)))
    for number, stop in enumerate(chosen):
        database = server.create_database(template)
        try:
            seconds = hold(number, server.url(database), stop)
        except NotReachedError:
            continue
        tried += 1
        if seconds is None:
            late += 1
            print(f"  NOT ENDED: {stop}", flush=True)
        elif seconds > 0.2:
            held.append(seconds)
        server.drop_database(database)
    _print_held(what, tried, len(cases), held, late, idle_seconds)
    return late


def _print_held(
    name: str, tried: int, cases: int, held: list[float], late: int, idle_seconds: float
) -> None:
    longest = f", the longest for {max(held):.1f} s" if held else ""
    print(
        f"{name}: {tried} of {cases} stops, {len(held)} in a transaction{longest} "
        f"(limit {idle_seconds} s); {late} not ended",
        flush=True,
    )


def main(idle_seconds: float, stops: int, seed: str) -> int:
    """Stop processes on every server that is found, and print how long they held up others.

    Args:
        idle_seconds: How long a transaction may be silent.
        stops: The most stops of publishers and of syncs, for each server.
        seed: Decides which, and in which order.

    Returns:
        How many stopped processes no server ended.
    """
    print(f"seed {seed}")
    others = [Path(one) for one in os.environ.get(VARIABLE, "").split(os.pathsep) if one]
    late = 0
    for folder in (None, *others):
        server = PostgresServer(folder)
        try:
            late += sweep(server, idle_seconds, stops, seed)
            late += sweep_syncs(server, idle_seconds, stops, seed)
        finally:
            server.stop()
    return late


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Stop publishers on PostgreSQL.")
    parser.add_argument("--idle-seconds", type=float, default=1.5)
    parser.add_argument("--stops", type=int, default=10_000)
    parser.add_argument("--seed", default="1")
    sys.exit(min(1, main(**vars(parser.parse_args()))))
