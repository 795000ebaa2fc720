"""Where clocks change, Dagster's partitions and schedules agree with what planning says is due."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._utils.schedules import schedule_execution_time_iterator
from hypothesis import given, settings
from hypothesis import strategies as st

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.models.catalog import (
    partition_keys,
    requested_ranges,
    time_partitions,
)
from vde_dagster.orchestration.names import SNAPSHOT, TIME
from vde_dagster.planning.intervals.cadence import Cadence
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.missing_intervals import Window, wanted_intervals
from vde_dagster_tests.orchestration.conftest import load_catalog
from vde_dagster_tests.projects import ProjectFolder

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",
    "America/Los_Angeles",
    "Asia/Kolkata",
    "Australia/Sydney",
    "Pacific/Apia",
)
CRONS = ("0 0 * * *", "30 2 * * *", "0 5 * * 1", "0 7 1 * *", "0 * * * *", "*/15 * * * *")
DAILY = ModelName("marts", "daily")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def ticks(cron: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """List when a schedule of Dagster ticks from a start to an end (UTC)."""
    found = []
    for tick in schedule_execution_time_iterator(start.timestamp(), cron, zone):
        if tick >= end:
            return found
        found.append(tick.astimezone(timezone.utc))
    raise AssertionError("schedules never end")


instants = st.datetimes(datetime(2019, 1, 1), datetime(2027, 1, 1), timezones=st.just(timezone.utc))


@pytest.mark.proof
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CRONS), st.sampled_from(ZONES), instants, st.integers(0, 400))
def test_partitions_of_what_is_due_are_the_intervals_that_planning_fills(
    cron: str, zone: str, now: datetime, hours: int
) -> None:
    cadence = Cadence(cron, zone)
    until = cadence.due_until(now)
    start = cadence.unit.floor(until - timedelta(hours=hours))
    due = IntervalSet((Interval(start, until),)) if start < until else IntervalSet()
    versions = dg.StaticPartitionsDefinition(["v"])
    times = time_partitions(cadence.unit, utc("2018-01-01"), utc("2028-01-01"))
    partitions = dg.MultiPartitionsDefinition({SNAPSHOT: versions, TIME: times})
    found = list(partition_keys(partitions, "v", due))
    assert len(found) == sum(cadence.unit.count(interval) for interval in due)
    assert IntervalSet.of(interval for _, interval in found) == due
    assert all(cadence.unit.count(interval) == 1 for _, interval in found)
    # And back: what somebody chooses on the page is what is filled.
    assert (
        requested_ranges(partitions, [str(key) for key, _ in found]).get("v", IntervalSet()) == due
    )
    # Dagster lists nothing that has not ended, and all that is due.
    with partition_loading_context(effective_dt=now):
        listed = times.get_last_partition_window()
    assert listed is not None
    assert until <= listed.end <= now


@pytest.mark.proof
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", CRONS)
def test_a_schedule_with_a_models_cron_finds_it_due_at_every_tick(cron: str, zone: str) -> None:
    cadence = Cadence(cron, zone)
    changes = _changes(zone) or [utc("2024-03-31")]
    for change in changes:
        around = timedelta(days=40 if "1 * *" in cron else 8 if cron.endswith("1") else 2)
        found = ticks(cron, zone, change - around, change + around)
        assert len(found) > 1
        for before, after in pairwise(found):
            # Of a time that clocks show twice Dagster takes the later one, planning the first.
            assert before < cadence.last_tick(after) <= after


def _changes(zone: str) -> list[datetime]:
    """List when the clocks of a zone change from 2019 to 2024, to the day."""
    days = [utc("2019-01-01") + timedelta(days=day) for day in range(6 * 366)]
    there = ZoneInfo(zone)
    return [
        day
        for day, next_day in pairwise(days)
        if day.astimezone(there).utcoffset() != next_day.astimezone(there).utcoffset()
    ]


@pytest.mark.parametrize(
    ("change", "tick"),
    [("2024-03-31", "2024-03-30T23:00:00"), ("2024-10-27", "2024-10-26T22:00:00")],
)
def test_a_day_of_berlin_falls_due_at_its_midnight_and_is_a_day_of_utc(
    days: ProjectFolder, change: str, tick: str
) -> None:
    """As in SQLMesh: the zone says when, the interval is that of UTC, of 24 hours on any day."""
    days.edit(
        "models/marts/daily.sql", "end '2024-01-05',", "end '2024-12-31', cron_tz 'Europe/Berlin',"
    )
    catalog = load_catalog(days)
    snapshot = catalog.live.models[DAILY].snapshot
    starts = {DAILY: utc("2024-01-01")}

    def due(now: datetime) -> datetime:
        return wanted_intervals(snapshot, Window(now), starts).ranges[-1].end

    midnight = utc(tick)
    assert midnight.astimezone(ZoneInfo("Europe/Berlin")).hour == 0
    assert due(midnight) == midnight.replace(hour=0)
    assert due(midnight - timedelta(minutes=1)) == midnight.replace(hour=0) - timedelta(days=1)
    day = utc(change)
    around = [Interval(day - timedelta(days=1), day + timedelta(days=2))]
    found = [interval for _, interval in partition_keys(catalog.partitions[DAILY], "v", around)]
    assert [interval.end - interval.start for interval in found] == [timedelta(days=1)] * 3
    assert IntervalSet.of(found).ranges == tuple(around)


def test_schedules_tick_in_the_time_zone_of_the_settings(built: ProjectFolder) -> None:
    built.write(
        "pyproject.toml",
        '[tool.vde.dagster]\nschedule_tz = "Europe/Berlin"\nschedules = { prod = "30 2 * * *" }',
    )
    definitions = vde_definitions(built.root)
    schedule = definitions.resolve_schedule_def("vde_run_prod")
    assert schedule.execution_timezone == "Europe/Berlin"
    assert definitions.resolve_schedule_def("vde_janitor").execution_timezone == "Europe/Berlin"
