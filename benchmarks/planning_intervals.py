"""Planning models whose cron ticks every five minutes since 1970: 5.9 million intervals each.

    python -m benchmarks.planning_intervals [--models 100]

Prints the CPU time of a first plan and of a run, in all and for one model.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

MODEL = """
    MODEL (name db.often_{number}, start '1970-01-01', cron '*/5 * * * *',
      kind INCREMENTAL_BY_TIME_RANGE (time_column at));
    SELECT at, {number} AS n FROM lake.events WHERE at BETWEEN @start_ts AND @end_ts
"""


def main() -> int:
    """Measure a first plan and a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=100)
    models = parser.parse_args().models
    with tempfile.TemporaryDirectory() as folder:
        files = {f"models/m{n}.sql": MODEL.format(number=n) for n in range(models)}
        project = load_project(ProjectFolder(Path(folder) / "project", files).root)
    snapshots = build_snapshots(project.models, lambda name: (("at", "TIMESTAMP"),))
    warehouse = Warehouse()
    now = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    began = time.process_time()
    plan = warehouse.plan_snapshots(snapshots, now=now)
    first = time.process_time() - began
    warehouse.apply(plan)
    began = time.process_time()
    run = warehouse.plan_run(now=now.replace(hour=13))
    again = time.process_time() - began
    assert len(plan.builds) == len(run.builds) == models
    assert all(len(model.intervals) == 1 for model in (*plan.builds, *run.builds))
    for what, seconds in (("first plan", first), ("run", again)):
        each = seconds / models * 1000
        print(f"{what}: {seconds * 1000:.1f} ms of CPU for {models} models, {each:.2f} ms a model")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
