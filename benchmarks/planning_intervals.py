"""Planning models whose cron ticks every five minutes since 1970: 5.9 million intervals each.

    python -m benchmarks.planning_intervals [--models 100] [--holes 100000]

Prints the CPU time of a first plan and of a run, in all and for one model. Then, for one model in
a state store of SQLite and in Dagster's pages, once filled without a gap and once with many holes:
a run's plan from the store on, reading and writing filled ranges, and what the code location and
the plan's page take.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.assets.model_assets import model_specs
from vde_dagster.orchestration.models.catalog import build_catalog
from vde_dagster.orchestration.models.live import load_live
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.pages.plan_page import plan_metadata
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.project.loading.loader import load_project
from vde_dagster.state.db import schema
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

MODEL = """
    MODEL (name db.often_{number}, start '1970-01-01', cron '*/5 * * * *',
      kind INCREMENTAL_BY_TIME_RANGE (time_column at));
    SELECT at, {number} AS n FROM {source} WHERE at BETWEEN @start_ts AND @end_ts
"""
SOURCE = (
    "MODEL (name db.events, kind FULL, cron '*/5 * * * *'); SELECT TIMESTAMP '2024-01-01' AS at"
)
FIRST = datetime(1970, 1, 1, tzinfo=timezone.utc)
NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
FIVE_MINUTES = timedelta(minutes=5)
BETWEEN_HOLES = 58
"""How many intervals there are from a hole to the next: 100,000 holes then fit since 1970."""


def plans_of(models: int) -> None:
    """Measure a first plan and a run of many models, without a state store."""
    with tempfile.TemporaryDirectory() as folder:
        files = {
            f"models/m{n}.sql": MODEL.format(number=n, source="lake.events") for n in range(models)
        }
        project = load_project(ProjectFolder(Path(folder) / "project", files).root)
    snapshots = build_snapshots(project.models, lambda name: (("at", "TIMESTAMP"),))
    warehouse = Warehouse()
    began = time.process_time()
    plan = warehouse.plan_snapshots(snapshots, now=NOW)
    first = time.process_time() - began
    warehouse.apply(plan)
    began = time.process_time()
    run = warehouse.plan_run(now=NOW.replace(hour=13))
    again = time.process_time() - began
    assert len(plan.builds) == len(run.builds) == models
    assert all(len(model.intervals) == 1 for model in (*plan.builds, *run.builds))
    for what, seconds in (("first plan", first), ("run", again)):
        each = seconds / models * 1000
        print(f"{what}: {seconds * 1000:.1f} ms of CPU for {models} models, {each:.2f} ms a model")


def took(what: str, work: Callable[[], Any]) -> Any:
    """Print the least CPU time of three times; return the last result."""
    seconds = []
    for _ in range(3):
        began = time.process_time()
        found = work()
        seconds.append(time.process_time() - began)
    print(f"  {what}: {min(seconds) * 1000:.1f} ms of CPU")
    return found


def store_and_pages(workspace: Workspace, table: str) -> None:
    """Measure one model in the state store and in Dagster's pages."""
    store = workspace.store
    options = PlanOptions(now=NOW + timedelta(minutes=30))
    plan = took("plan of a run", lambda: workspace.plans.due("prod", options, save=False))
    assert any(model.table and model.table.id == table for model in plan.builds)
    ends = iter(NOW + 2 * number * FIVE_MINUTES for number in range(10, 20))

    def record() -> None:
        end = next(ends)
        store.fills.record(FillRecord(table, Interval(end - FIVE_MINUTES, end), plan.id))

    def save() -> str:
        named = replace(plan, id=uuid.uuid4().hex)
        store.plans.save(named)
        return named.id

    took("reading what is filled", lambda: store.tables.get(table))
    took("recording a fill", record)
    saved = took("storing the plan", save)
    took("loading the plan", lambda: store.plans.load(saved))
    live = took("reading what a code location shows", lambda: load_live(workspace, NOW))
    looks = VdeTranslator(workspace.root)
    took("its assets and partitions", lambda: model_specs(build_catalog(live, looks, NOW)))
    took("the plan's page", lambda: plan_metadata(store, plan))


def one_model(holes: int) -> None:
    """Measure one model as it is filled without a gap, and with holes."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"models/m.sql": MODEL.format(number=0, source="db.events"), "models/e.sql": SOURCE}
        project = ProjectFolder(Path(folder) / "project", files)
        with open_fake(project.root) as workspace:
            environment = workspace.apply(workspace.plan("prod", now=NOW)).environment
            assert environment is not None
            table = environment.entries[ModelName("db", "often_0")].table_id
            assert table is not None
            print("one model, filled without a gap")
            store_and_pages(workspace, table)
            step = BETWEEN_HOLES * FIVE_MINUTES
            with workspace.store.database.transaction("holes") as connection:
                connection.execute(
                    delete(schema.intervals).where(schema.intervals.c.table_id == table)
                )
                connection.execute(
                    insert(schema.intervals),
                    [
                        {
                            "table_id": table,
                            "start_at": FIRST + number * step + FIVE_MINUTES,
                            "end_at": FIRST + (number + 1) * step,
                        }
                        for number in range(holes)
                    ],
                )
            print(f"one model, filled with {holes:,} holes")
            store_and_pages(workspace, table)


def main() -> int:
    """Measure plans, the state store and pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--holes", type=int, default=100_000)
    given = parser.parse_args()
    plans_of(given.models)
    one_model(given.holes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
