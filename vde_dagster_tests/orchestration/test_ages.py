"""Ages of short intervals, in what terminals and Dagster show of them."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from vde_dagster.orchestration.models.catalog import MAX_TIMES, display_unit, time_partitions
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.reports.document import count_units, format_ranges
from vde_dagster.reports.plan import work_text
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

NOW = datetime(9999, 12, 30, 12, tzinfo=timezone.utc)
OFTEN = """
    MODEL (name m.often, start '1900-01-01', cron '*/5 * * * *', columns (at TIMESTAMP),
      kind INCREMENTAL_BY_TIME_RANGE (time_column at));
    SELECT at FROM lake.events WHERE at BETWEEN @start_ts AND @end_ts
"""


def test_what_is_shown_of_ages_of_five_minutes_lists_none_of_them(tmp_path: Path) -> None:
    """Eight hundred million units would fit neither in memory nor in a test's time."""
    folder = ProjectFolder(tmp_path / "project", {"models/often.sql": OFTEN})
    plan = Warehouse({"lake.events": [("at", "TIMESTAMP")]}).plan(folder.root, now=NOW)
    (model,) = plan.builds
    snapshot = plan.snapshots[model.snapshot_id or ""]
    count = count_units(snapshot, model.intervals)
    assert count > 500_000_000
    assert work_text(plan, model).startswith(f"{count:,} five minutes, 1900-01-01 00:00")
    assert format_ranges(model.intervals) == "1900-01-01 00:00 … 9999-12-30 12:00"
    recent = datetime(1970, 1, 1, tzinfo=timezone.utc)
    today = datetime(2026, 1, 1, tzinfo=timezone.utc)
    shown = display_unit(snapshot, recent, today)
    assert shown is IntervalUnit.DAY
    partitions = time_partitions(shown, recent, today)
    assert partitions.get_num_partitions() <= MAX_TIMES
