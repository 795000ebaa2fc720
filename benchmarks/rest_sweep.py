"""Every crash of every command on a REST catalog: `python -m benchmarks.rest_sweep [--…]`.

All side effects of the commands of `vde_dagster_tests.execution.crash_world` (those of the catalog
and of the mirror of views among them) times the ways to fail, on a project whose tables are in
Iceberg's own test server and whose environments are mirrored there. `--postgres` has the state in a
PostgreSQL server of its own, `--only WORD` takes the commands with a word in their names,
`--modes kill_before,kill_after` some ways to fail, `--stride N` every Nth case from `--begin`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from vde_dagster.state.store import StateStore
from vde_dagster_tests.execution.crash_world import OPERATIONS
from vde_dagster_tests.execution.rest_world import RestStage, check_case
from vde_dagster_tests.faults import MODES, Fault
from vde_dagster_tests.lakehouse.rest_process import running_rest_server
from vde_dagster_tests.state.postgres_server import PostgresServer

STALL_SECONDS = 600.0


def main(
    *,
    postgres: bool = False,
    only: str = "",
    modes: str = ",".join(MODES),
    stride: int = 1,
    begin: int = 0,
) -> int:
    """Sweep, and print how many cases held.

    Args:
        postgres: Whether the state is in PostgreSQL.
        only: A word that the names of the commands have.
        modes: The ways to fail.
        stride: Take every one of so many cases.
        begin: The first case.

    Returns:
        How many cases failed.
    """
    began = time.monotonic()
    database = PostgresServer() if postgres else None
    place: tuple[PostgresServer, str] | None = None
    if database is not None:
        place = database, database.create_database()
        StateStore.open(database.url(place[1])).close()
    chosen = [mode for mode in MODES if mode in modes.split(",")]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, running_rest_server() as uri:
        empty = Path(folder) / "empty.db"
        StateStore.open(f"sqlite:///{empty}").close()
        for operation in OPERATIONS:
            if only not in operation.name:
                continue
            stage = RestStage(operation, empty, uri, place)
            faults = [
                Fault(point, mode, occurrence, STALL_SECONDS)
                for point, occurrence in stage.occurrences()
                for mode in chosen
            ]
            for number, fault in enumerate(faults[begin::stride]):
                counts["cases"] += 1
                try:
                    check_case(stage, fault, clean=number % 3 == 0)
                except Exception:
                    counts["failed"] += 1
                    print(
                        f"FAILED {operation.name}: {fault}\n{traceback.format_exc(limit=-5)}",
                        flush=True,
                    )
            stage.close()
            took = time.monotonic() - began
            print(
                f"{operation.name}: {len(stage.points)} side effects, {len(faults)} faults; by now "
                f"{counts['cases']} cases, {counts['failed']} failed, {took:.0f} s",
                flush=True,
            )
    if database is not None:
        database.stop()
    return counts["failed"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--begin", type=int, default=0)
    sys.exit(min(1, main(**vars(parser.parse_args()))))
