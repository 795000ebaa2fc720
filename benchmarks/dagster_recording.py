"""Recording 10,000 partitions in Dagster: `python -m benchmarks.dagster_recording`.

A daily model with 10,000 partitions is filled by an engine that computes nothing, and recorded in
SQLite by the package's storage: by the sensor after an apply outside of Dagster (goal: 15 s), and
by a run of the job `vde_plan_and_apply` and a backfill from the asset's page (goal: 30 s after the
last fill). The last line shows the time of the events of planned materializations, which Dagster
writes before a run begins. `--storage dagster` measures Dagster's own storage, which takes one
transaction for each of them; `postgres` and `dagster-postgres` need that package with psycopg2, and
measure a server that the benchmark starts.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg

from vde_dagster.cli.main_job import QUIET
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events.applying import watch_events
from vde_dagster.orchestration.events.consumer import forward_outbox
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.postgres_server import PostgresServer

OUTSIDE, INSIDE = 15.0, 30.0
STORAGES: dict[str, dict[str, Any]] = {
    "batched": {
        "storage": {
            "custom": {
                "module": "vde_dagster.orchestration.storage",
                "class": "BatchedSqliteStorage",
                "config": {},
            }
        }
    },
    "dagster": {},
    "postgres": {
        "storage": {
            "custom": {
                "module": "vde_dagster.orchestration.postgres_storage",
                "class": "BatchedPostgresStorage",
            }
        }
    },
    "dagster-postgres": {
        "storage": {"custom": {"module": "dagster_postgres", "class": "DagsterPostgresStorage"}}
    },
}
DAYS = dg.AssetKey(["db", "days"])


def make_project(root: Path, partitions: int, batch: int) -> ProjectFolder:
    """Write a project with one daily model."""
    start = f"{2024 - partitions // 365 - 1}-01-01"
    text = f"""
        MODEL (name db.days, start '{start}', end '2024-01-01', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size {batch}));
        SELECT 1 AS n, CAST('2024-01-01' AS DATE) AS day
    """
    return ProjectFolder(root, {"models/days.sql": text})


@contextmanager
def fake_engine() -> Iterator[None]:
    """Let runs of this process fill tables without Spark."""

    class Engine(FakeSpark):
        def __init__(self, _: object, __: object, lakehouse: Lakehouse, **___: object) -> None:
            super().__init__()
            self.attach(lakehouse)

    with patch("vde_dagster.spark.engine.SparkEngine", Engine):
        yield


def events_of(instance: dg.DagsterInstance) -> list[dg.EventLogRecord]:
    """Return all materializations of the model, oldest first."""
    found: list[dg.EventLogRecord] = []
    cursor = None
    while True:
        page = instance.fetch_materializations(DAYS, limit=5000, cursor=cursor, ascending=True)
        found += page.records
        if not page.has_more:
            return found
        cursor = page.cursor


def print_figures(name: str, records: list[dg.EventLogRecord], after: float, goal: float) -> None:
    """Print the number and the order of events, and the seconds until the last one."""
    keys = [str(record.partition_key) for record in records]
    order = "in order of time" if keys == sorted(keys) else "NOT in order of time"
    seconds = records[-1].timestamp - after
    met = "met" if seconds <= goal else "MISSED"
    print(f"{name:12} {len(keys):>7,} events {order}, {seconds:6.1f} s, goal {goal:.0f} s {met}")


@contextmanager
def open_instance(home: Path, storage: str) -> Iterator[dg.DagsterInstance]:
    """Open an empty instance."""
    os.environ["DAGSTER_HOME"] = str(home)
    config: dict[str, Any] = deepcopy(STORAGES[storage])
    with ExitStack() as opened:
        if "postgres" in storage:
            server = PostgresServer()
            opened.callback(server.stop)
            url = server.url(server.create_database())
            url = url.replace("postgresql:", "postgresql+psycopg2:")
            config["storage"]["custom"]["config"] = {"postgres_url": url}
        yield opened.enter_context(dg.DagsterInstance.local_temp(str(home), overrides=config))


def record_outside(folder: ProjectFolder, home: Path, storage: str) -> None:
    """Record an apply of another process by the ticks of the sensor."""
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    with open_instance(home, storage) as instance:
        looks, log = VdeTranslator(folder.root), logging.getLogger("vde")
        began, cpu, ticks = time.time(), time.process_time(), 1
        while not isinstance(forward_outbox(folder.root, instance, None, looks, log), str):
            ticks += 1
        print_figures("sensor", events_of(instance), began, OUTSIDE)
        print(
            f"{'':12} {ticks} ticks, {time.time() - began:.1f} s in all, "
            f"{time.process_time() - cpu:.1f} s of CPU"
        )


def record_inside(folder: ProjectFolder, home: Path, storage: str) -> None:
    """Record an apply and a backfill by the run that does the work."""
    last = 0.0

    def watch(event: Event) -> None:
        nonlocal last
        if isinstance(event, IntervalFilled):
            last = time.time()

    with open_instance(home, storage) as instance, fake_engine(), watch_events(watch):
        job = vde_definitions(folder.root).resolve_job_def("vde_plan_and_apply")
        ops = {"plan_and_apply": {"config": {"environment": "prod"}}}
        job.execute_in_process(instance=instance, run_config={**QUIET, "ops": ops})
        print_figures("apply", found := events_of(instance), last, INSIDE)

        keys = [str(record.partition_key) for record in found]
        job = vde_definitions(folder.root).resolve_implicit_global_asset_job_def()
        ends = {
            "dagster/asset_partition_range_start": keys[0],
            "dagster/asset_partition_range_end": keys[-1],
        }
        began = time.time()
        job.execute_in_process(
            instance=instance, asset_selection=[DAYS], tags=ends, run_config=QUIET
        )
        print_figures("backfill", events_of(instance)[len(keys) :], last, INSIDE)
        first = instance.get_run_records(limit=1)[0].start_time or began
        print(f"{'':12} planned events before the run: {first - began:.1f} s")


def main() -> None:
    """Record partitions on each path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=200, help="Days of one fill.")
    parser.add_argument("--only", choices=("outside", "inside"), help="Measure one path.")
    parser.add_argument("--storage", choices=STORAGES, default="batched")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, record in (("outside", record_outside), ("inside", record_inside)):
            if arguments.only not in (None, name):
                continue
            project = make_project(root / name, arguments.partitions, arguments.batch)
            (root / f"{name}-home").mkdir()
            record(project, root / f"{name}-home", arguments.storage)


if __name__ == "__main__":
    main()
