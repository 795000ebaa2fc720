"""Cron expressions decide the interval unit and when intervals fall due."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.planning.cadence import Cadence, IntervalUnit
from vde_dagster.planning.interval import Interval, IntervalSet


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("cron", "unit"),
    [
        ("*/5 * * * *", IntervalUnit.FIVE_MINUTES),
        ("*/15 * * * *", IntervalUnit.QUARTER_HOUR),
        ("*/30 * * * *", IntervalUnit.HALF_HOUR),
        ("0 * * * *", IntervalUnit.HOUR),
        ("0 */6 * * *", IntervalUnit.HOUR),
        ("0 0 * * *", IntervalUnit.DAY),
        ("0 5 * * *", IntervalUnit.DAY),
        ("0 0 * * 1", IntervalUnit.DAY),
        ("0 7 1 * *", IntervalUnit.MONTH),
        ("0 0 1 1 *", IntervalUnit.YEAR),
    ],
)
def test_the_unit_is_the_largest_that_fits_between_two_ticks(cron: str, unit: IntervalUnit) -> None:
    assert Cadence(cron).unit is unit


@pytest.mark.parametrize(
    ("cron", "now", "until"),
    [
        ("0 5 * * *", "2024-03-10T04:59:00", "2024-03-09T00:00:00"),
        ("0 5 * * *", "2024-03-10T05:00:00", "2024-03-10T00:00:00"),
        ("0 0 * * *", "2024-03-10T00:00:00", "2024-03-10T00:00:00"),
        ("0 0 * * 1", "2024-03-10T12:00:00", "2024-03-04T00:00:00"),
        ("0 7 1 * *", "2024-03-01T06:59:00", "2024-02-01T00:00:00"),
        ("0 7 1 * *", "2024-03-01T07:00:00", "2024-03-01T00:00:00"),
        ("0 * * * *", "2024-03-10T12:34:56", "2024-03-10T12:00:00"),
    ],
)
def test_an_interval_is_due_when_the_cron_has_ticked_after_it(
    cron: str, now: str, until: str
) -> None:
    assert Cadence(cron).due_until(utc(now)) == utc(until)


def test_partial_units_shrink_inward_and_widen_outward() -> None:
    daily = Cadence("0 0 * * *")
    partial = IntervalSet((Interval(utc("2024-01-01T06:00:00"), utc("2024-01-03T06:00:00")),))
    assert daily.align_inward(partial).ranges == (
        Interval(utc("2024-01-02T00:00:00"), utc("2024-01-03T00:00:00")),
    )
    assert daily.align_outward(partial).ranges == (
        Interval(utc("2024-01-01T00:00:00"), utc("2024-01-04T00:00:00")),
    )


def test_a_range_smaller_than_the_unit_holds_none() -> None:
    half_day = IntervalSet((Interval(utc("2024-01-01T06:00:00"), utc("2024-01-01T18:00:00")),))
    assert not Cadence("0 0 * * *").align_inward(half_day)


def test_batches_cut_ranges_to_jobs_of_at_most_the_size() -> None:
    january = IntervalSet((Interval(utc("2024-01-01T00:00:00"), utc("2024-02-01T00:00:00")),))
    batches = Cadence("0 0 * * *").batches(january, 10)
    assert [IntervalUnit.DAY.count(batch) for batch in batches] == [10, 10, 10, 1]
    assert IntervalSet.of(batches) == january


instants = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc))


@given(st.sampled_from(list(IntervalUnit)), instants)
def test_floor_and_ceil_enclose_an_instant_by_one_unit(
    unit: IntervalUnit, instant: datetime
) -> None:
    floor, ceil = unit.floor(instant), unit.ceil(instant)
    assert floor <= instant <= ceil
    assert unit.floor(floor) == floor
    assert ceil == floor or unit.shift(floor, 1) == ceil


def test_a_five_minute_cron_since_1970_costs_no_more_than_a_daily_one() -> None:
    """Ranges are never expanded to their units (there are six million of them here)."""
    cadence = Cadence("*/5 * * * *")
    everything = IntervalSet((Interval(utc("1970-01-01T00:00:00"), utc("2026-01-01T00:00:00")),))
    hole = IntervalSet((Interval(utc("2000-01-01T00:00:00"), utc("2000-01-01T00:05:00")),))
    assert len(cadence.align_inward(everything - hole)) == 2
