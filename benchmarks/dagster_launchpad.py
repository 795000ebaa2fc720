"""A backfill of one interval from Dagster's launchpad, from the click to the run's end.

    python -m benchmarks.dagster_launchpad [--models 40] [--times 4]

A webserver and a daemon of Dagster on a project with a warm Spark; each time, one day of a model
that nobody reads is materialised again, as its page does it. Seconds by the clock: until the run's
process has begun its first step, and until the run has ended. Use a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.inner_loop import Ours
from vde_dagster_tests.orchestration.servers import Dagster, running_dagster, wait_for

LEAF = """MODEL (
  name l9.leaf, start '2024-01-01', cron '@daily',
  kind INCREMENTAL_BY_TIME_RANGE (time_column day)
);
SELECT DATE '2024-01-01' + CAST(id AS INT) AS day, source, count(*) AS number
FROM l0.m_00000
WHERE DATE '2024-01-01' + CAST(id AS INT) BETWEEN @start_date AND @end_date
GROUP BY ALL
"""
EVENTS = """
query L($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events {
  __typename ... on MessageEvent { timestamp } } } } }
"""
STEPS = {
    "RunStartingEvent": "taken",
    "RunStartEvent": "running",
    "ExecutionStepStartEvent": "first step",
    "ExecutionStepSuccessEvent": "last step",
    "RunSuccessEvent": "done",
}


def main() -> None:
    """Print a line for each backfill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--times", type=int, default=4)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        side = Ours(Path(folder) / "warm", said.models, warm=True)
        try:
            (side.file.parent / "leaf.sql").write_text(LEAF)
            took, failed = side.run("build")
            assert not failed, failed
            print(f"{said.models} models built in {took:.1f} s")
            with running_dagster(side.root, Path(folder) / "home") as dagster:
                keys = wait_for(lambda: _days(dagster), "the model's partitions")
                print("".join(f"{name:>12}" for name in STEPS.values()), " seconds since the click")
                for number in range(said.times):
                    print(_line(dagster, keys[number % len(keys)]), flush=True)
                    time.sleep(2)
        finally:
            side.close()


def _days(dagster: Dagster) -> list[str]:
    """Return five days of the model's version, as its partitions."""
    return [str(key) for key in dagster.asset("l9/leaf").get("partitionKeys", [])][:5]


def _line(dagster: Dagster, partition: str) -> str:
    began = time.time()
    run = dagster.materialize("l9/leaf", partition)
    dagster.succeed(run)
    events = dagster.ask(EVENTS, id=run)["logsForRun"]["events"]
    found: dict[str, float] = {}
    for event in events:
        if event["__typename"] in STEPS:
            found[event["__typename"]] = float(event["timestamp"]) / 1000 - began
    return "".join(f"{found[name]:12.1f}" for name in STEPS)


if __name__ == "__main__":
    main()
