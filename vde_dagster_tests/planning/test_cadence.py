"""Cron expressions decide the interval unit and when intervals fall due."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.base.cron import last_tick, shortest_gap_seconds
from vde_dagster.errors import UsageError
from vde_dagster.planning.intervals.cadence import Cadence, IntervalUnit, require_time_for_ticks
from vde_dagster.planning.intervals.interval import Interval, IntervalSet


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("cron", "unit"),
    [
        ("*/5 * * * *", IntervalUnit.FIVE_MINUTE),
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
    ("cron", "hours"),
    [
        ("0 0 * * *", 24),
        ("0 0 * * 0", 7 * 24),
        ("0 0 1 * *", 28 * 24),  # February
        ("0 0 1 1 *", 365 * 24),
        ("0 0 29 2 *", 1461 * 24),
        ("0 0 */7 * *", 24),  # 29 February and 1 March
        ("0 0 * * 1#1,0#5", 24),
        ("0 0,4,8,12,16,20,22 * * *", 2),
        ("0 1,23 * * *", 2),
        ("0 1,23 1,3 * *", 22),
        ("0 0,1 1 1 *", 1),
        ("0,8,16,24,32,40,48,59 * * * *", 1 / 60),
    ],
)
def test_the_shortest_time_between_ticks_is_of_all_ticks(cron: str, hours: float) -> None:
    assert shortest_gap_seconds(cron) == hours * 3600


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
    assert daily.unit.align_inward(partial).ranges == (
        Interval(utc("2024-01-02T00:00:00"), utc("2024-01-03T00:00:00")),
    )
    assert daily.unit.align_outward(partial).ranges == (
        Interval(utc("2024-01-01T00:00:00"), utc("2024-01-04T00:00:00")),
    )


def test_a_range_smaller_than_the_unit_holds_none() -> None:
    half_day = IntervalSet((Interval(utc("2024-01-01T06:00:00"), utc("2024-01-01T18:00:00")),))
    assert not Cadence("0 0 * * *").unit.align_inward(half_day)


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
    assert len(cadence.unit.align_inward(everything - hole)) == 2


@pytest.mark.parametrize(
    ("cron", "zone", "now", "tick"),
    [
        ("0 0 * * *", "America/Los_Angeles", "2024-03-09T07:59", "2024-03-08T08:00"),
        ("0 0 * * *", "America/Los_Angeles", "2024-03-11T07:00", "2024-03-11T07:00"),
        # 02:30 is left out in Berlin on that day: 03:00 is the first time that is shown again.
        ("30 2 * * *", "Europe/Berlin", "2024-03-31T00:59", "2024-03-30T01:30"),
        ("30 2 * * *", "Europe/Berlin", "2024-03-31T01:00", "2024-03-31T01:00"),
        # Midnight is left out in Havana, and half an hour at two o'clock on Lord Howe.
        ("0 0 * * *", "America/Havana", "2024-03-10T05:00", "2024-03-10T05:00"),
        ("0 0 * * *", "America/Havana", "2024-03-10T04:59", "2024-03-09T05:00"),
        ("15 2 * * *", "Australia/Lord_Howe", "2024-10-05T15:30", "2024-10-05T15:30"),
        ("15 2 * * *", "Australia/Lord_Howe", "2024-10-05T15:29", "2024-10-04T15:45"),
        # Of Samoa's year 2011 the 30th of December is left out.
        ("0 5 30 12 *", "Pacific/Apia", "2012-01-01T00:00", "2011-12-30T10:00"),
        # 02:30 comes twice, and the first one counts.
        ("30 2 * * *", "Europe/Berlin", "2024-10-27T01:10", "2024-10-27T00:30"),
        ("30 2 * * *", "Europe/Berlin", "2024-10-27T20:00", "2024-10-27T00:30"),
        # Of a cron of every hour both count.
        ("0 * * * *", "Europe/Berlin", "2024-10-27T00:10", "2024-10-27T00:00"),
        ("0 * * * *", "Europe/Berlin", "2024-10-27T01:10", "2024-10-27T01:00"),
        ("*/5 * * * *", "Europe/Berlin", "2024-10-27T01:12", "2024-10-27T01:10"),
    ],
)
def test_ticks_in_a_time_zone_follow_its_clocks(cron: str, zone: str, now: str, tick: str) -> None:
    assert last_tick(cron, utc(now), zone) == utc(tick)


@pytest.mark.proof
@pytest.mark.parametrize("cron", ["0 * * * *", "*/5 * * * *", "30 2 * * *", "15 1,2,3 * * *"])
@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Europe/Berlin", "2024-03-30"),
        ("Europe/Berlin", "2024-10-26"),
        ("America/Havana", "2024-03-09"),
        ("America/Havana", "2024-11-02"),
        ("America/New_York", "2024-03-09"),
        ("America/New_York", "2024-11-02"),
    ],
)
def test_ticks_never_go_back_when_clocks_change(cron: str, zone: str, day: str) -> None:
    instants = [utc(day) + timedelta(minutes=5 * step) for step in range(48 * 12)]
    ticks = [last_tick(cron, instant, zone) for instant in instants]
    assert all(tick <= instant for tick, instant in zip(ticks, instants, strict=True))
    assert ticks == sorted(ticks)
    often = {"0 * * * *": timedelta(hours=1), "*/5 * * * *": timedelta(minutes=5)}
    if cron in often:
        gaps = {b - a for a, b in itertools.pairwise(ticks)} - {timedelta()}
        assert gaps == {often[cron]}


@given(
    st.sampled_from(["*/5 * * * *", "0 * * * *", "0 5 * * *", "0 0 * * 1", "0 7 1 * *"]),
    st.sampled_from([None, "Asia/Kolkata", "Australia/Lord_Howe"]),
    st.booleans(),
    instants,
)
def test_what_is_due_grows_with_time_and_never_lies_in_the_future(
    cron: str, zone: str | None, ignore_cron: bool, now: datetime
) -> None:
    cadence = Cadence(cron, zone)
    until = cadence.due_until(now, ignore_cron=ignore_cron)
    later = cadence.due_until(now + timedelta(hours=7), ignore_cron=ignore_cron)
    assert until <= later
    assert until <= now
    assert cadence.unit.floor(until) == until


def test_a_part_of_a_unit_counts_as_filled_only_up_to_the_same_tick() -> None:
    daily = Cadence("0 * * * *", given_unit=IntervalUnit.DAY, partials=True)
    yesterday, today = utc("2024-03-09"), utc("2024-03-10")
    noon, one = utc("2024-03-10T12:00"), utc("2024-03-10T13:00")
    filled = IntervalSet((Interval(yesterday, noon),))
    assert daily.fully_filled(filled, filled) == filled
    wanted = IntervalSet((Interval(yesterday, one),))
    assert daily.fully_filled(filled, wanted).ranges == (Interval(yesterday, today),)
    later = IntervalSet((Interval(utc("2024-03-10T06:00"), one),))
    assert not daily.fully_filled(later, wanted)


def test_batches_that_begin_within_a_month_end_with_months() -> None:
    monthly = Cadence("0 0 1 * *")
    rest = IntervalSet((Interval(utc("2024-01-31T10:00"), utc("2024-03-01")),))
    assert [batch.end for batch in monthly.batches(rest, 1)] == [
        utc("2024-02-01"),
        utc("2024-03-01"),
    ]
    assert [IntervalUnit.MONTH.count(batch) for batch in monthly.batches(rest, 1)] == [1, 1]


@pytest.mark.parametrize(
    ("unit", "cron"), [(IntervalUnit.FIVE_MINUTE, "0 0 * * *"), (IntervalUnit.HOUR, "0 0 1 1 *")]
)
def test_a_unit_of_its_own_replaces_that_of_the_cron(unit: IntervalUnit, cron: str) -> None:
    assert Cadence(cron, given_unit=unit).unit is unit


def test_units_are_counted_without_making_them() -> None:
    """From the first year to the last: a list of a thousand million units would not fit."""
    ages = Interval(utc("0001-01-01"), utc("9999-01-01"))
    assert IntervalUnit.FIVE_MINUTE.count(ages) == (ages.end - ages.start) // timedelta(minutes=5)
    cadence = Cadence("*/5 * * * *")
    assert cadence.batches(IntervalSet((ages,)), None) == [ages]
    assert cadence.unit.align_outward(IntervalSet((ages,))) == IntervalSet((ages,))


@pytest.mark.parametrize("unit", list(IntervalUnit))
@pytest.mark.parametrize("steps", [10_000_000, 2**31 - 1, 10**15])
def test_a_unit_moved_out_of_the_calendar_is_at_its_end(unit: IntervalUnit, steps: int) -> None:
    day = utc("2024-01-01")
    if unit.value * steps < 10_000 * IntervalUnit.YEAR.value:
        assert unit.shift(unit.shift(day, -steps), steps) == day
        return
    assert unit.shift(day, -steps) == utc("0001-01-01")
    assert unit.shift(day, steps) == utc("9999-12-31T23:59:59.999999")


@pytest.mark.parametrize("cron", ["0 0 29 2 *", "@yearly", "0 0 * * 1", "*/5 * * * *"])
def test_each_time_from_the_tenth_year_on_has_a_last_slot(cron: str) -> None:
    for now in (utc("0010-01-01"), utc("9999-12-30T23:59")):
        require_time_for_ticks(now, "the time")
        slot = Cadence(cron).latest_slot(now)
        assert slot.start < slot.end <= now
    with pytest.raises(UsageError, match="cannot be determined for the time 0009-12-31 00:00 UTC"):
        require_time_for_ticks(utc("0009-12-31"), "the time")
    with pytest.raises(UsageError, match="cannot be determined for the time 9999-12-31 00:00 UTC"):
        require_time_for_ticks(utc("9999-12-31"), "the time")
