"""The missing intervals of a table, as a plan finds them.

Plans over many steps are in `fixtures/planning/intervals.yaml`, random histories in
`test_parts_of_units.py`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.missing_intervals import (
    Window,
    add_lookback,
    audited_ranges,
    intervals_left_to_fill,
    last_units,
    missing_intervals,
    partly_filled_units,
    units_around,
    wanted_intervals,
)
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.kinds import Full, IncrementalByTimeRange
from vde_dagster_tests.state.builders import snapshot

NOW = datetime(2024, 1, 10, 12, tzinfo=timezone.utc)
ALL = IntervalSet.of([Interval.parse("2000-01-01/2100-01-01")])


def ranges(*texts: str) -> IntervalSet:
    return IntervalSet.of(map(Interval.parse, texts))


def daily(*, cron: str = "0 0 * * *", allow_partials: bool = False, **kind: Any) -> Snapshot:
    made = snapshot("a.b", kind=IncrementalByTimeRange("ts", **kind))
    return replace(made, model=replace(made.model, cron=cron, allow_partials=allow_partials))


def window(**given: Any) -> Window:
    return Window(NOW, **given)


def wanted(one: Snapshot, given: Window, start: str = "2024-01-07") -> IntervalSet:
    begin = datetime.fromisoformat(start).replace(tzinfo=timezone.utc)
    return wanted_intervals(one, given, {one.name: begin})


def missing(one: Snapshot, filled: IntervalSet, available: IntervalSet = ALL) -> IntervalSet:
    begin = datetime(2024, 1, 7, tzinfo=timezone.utc)
    return missing_intervals(one, filled, window(), {one.name: begin}, available)


def test_a_table_that_became_monthly_on_the_last_day_of_a_month_catches_up() -> None:
    made = snapshot("a.b", kind=Full())
    monthly = replace(made, model=replace(made.model, cron="0 0 1 * *"))
    until, now = ranges("2024-03-30/2024-03-31"), datetime(2024, 3, 31, 12, tzinfo=timezone.utc)
    found = missing_intervals(monthly, until, Window(now), {}, ALL, catches_up=True)
    assert found == until


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (window(), "2024-01-07/2024-01-10"),
        (window(start=datetime(2024, 1, 8, 15, tzinfo=timezone.utc)), "2024-01-08/2024-01-10"),
        (window(end=datetime(2024, 1, 9, 15, tzinfo=timezone.utc)), "2024-01-07/2024-01-09"),
        (
            window(start=datetime(2024, 1, 10, tzinfo=timezone.utc), min_intervals=2),
            "2024-01-08/2024-01-10",
        ),
    ],
)
def test_wanted_are_whole_units_until_the_last_tick(given: Window, expected: str) -> None:
    assert wanted(daily(), given) == ranges(expected)


def test_a_cron_at_noon_makes_the_day_due_at_noon() -> None:
    later = daily(cron="0 13 * * *")
    assert wanted(later, window()) == ranges("2024-01-07/2024-01-09")
    assert wanted(later, window(ignore_cron=True)) == ranges("2024-01-07/2024-01-10")


def test_partials_go_up_to_the_last_tick() -> None:
    hourly = daily(cron="0 * * * *", allow_partials=True)
    assert wanted(hourly, window()) == ranges("2024-01-07/2024-01-10T12:00")


def test_a_full_table_wants_its_latest_slot() -> None:
    full = snapshot("a.b", kind=Full())
    assert wanted(full, window()) == ranges("2024-01-09/2024-01-10")
    assert not missing(full, ranges("2024-01-09/2024-01-10"))


def test_missing_is_wanted_and_not_filled_where_parents_are_complete() -> None:
    filled = ranges("2024-01-08/2024-01-09")
    assert missing(daily(), filled) == ranges("2024-01-07/2024-01-08", "2024-01-09/2024-01-10")
    ready = ranges("2024-01-01/2024-01-09T18:00")
    assert missing(daily(), filled, ready) == ranges("2024-01-07/2024-01-08")


def test_a_lookback_fills_earlier_units_again_within_what_is_reachable() -> None:
    filled = ranges("2024-01-07/2024-01-09")
    assert missing(daily(lookback=1), filled) == ranges("2024-01-08/2024-01-10")
    one = daily(lookback=3)
    within = ranges("2024-01-08/2024-01-10")
    assert add_lookback(one, ranges("2024-01-09/2024-01-10"), within) == within
    assert not add_lookback(one, IntervalSet(), within)


def test_a_unit_that_is_filled_in_part_is_filled_again_from_its_beginning() -> None:
    filled = ranges("2024-01-07/2024-01-08T06:00")
    left = intervals_left_to_fill(daily(), ranges("2024-01-07/2024-01-10"), filled)
    assert left == ranges("2024-01-08/2024-01-10")
    (part,) = partly_filled_units(daily(), filled)
    assert part.interval == Interval.parse("2024-01-08/2024-01-08T06:00")


def test_a_change_reaches_the_missing_whole_units_around_it() -> None:
    change = ranges("2024-01-08T03:00/2024-01-08T04:00")
    assert units_around(daily(), ranges("2024-01-07/2024-01-10"), change) == ranges(
        "2024-01-08/2024-01-09"
    )


def test_the_last_units_of_a_table_are_counted_from_its_end() -> None:
    filled = ranges("2024-01-01/2024-01-03", "2024-01-05/2024-01-10")
    assert last_units(daily(), filled, 2) == ranges("2024-01-08/2024-01-10")
    assert last_units(daily(), filled, None) == filled


def test_a_table_that_is_replaced_as_a_whole_is_audited_once() -> None:
    filled = ranges("2024-01-01/2024-01-03", "2024-01-05/2024-01-10")
    assert audited_ranges(daily(), filled) == filled.ranges
    assert audited_ranges(snapshot("a.b", kind=Full()), filled) == filled.ranges[-1:]
