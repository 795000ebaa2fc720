"""Interval sets behave like sets of instants."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.base.times import parse_instant
from vde_dagster.errors import UsageError
from vde_dagster.planning.intervals.interval import Interval, IntervalSet

BASE = datetime(2024, 1, 1, tzinfo=timezone.utc)


def at(hour: int) -> datetime:
    return BASE + timedelta(hours=hour)


def hours(*pairs: tuple[int, int]) -> IntervalSet:
    return IntervalSet.of(Interval(at(a), at(b)) for a, b in pairs)


def members(intervals: IntervalSet) -> set[int]:
    return {h for h in range(-5, 60) if any(r.start <= at(h) < r.end for r in intervals)}


pairs = st.tuples(st.integers(0, 50), st.integers(1, 9)).map(lambda t: (t[0], t[0] + t[1]))
sets = st.lists(pairs, max_size=8).map(lambda ps: hours(*ps))


@given(sets, sets)
def test_union_intersection_and_difference_agree_with_sets_of_hours(
    a: IntervalSet, b: IntervalSet
) -> None:
    assert members(a | b) == members(a) | members(b)
    assert members(a & b) == members(a) & members(b)
    assert members(a - b) == members(a) - members(b)


@given(sets, sets)
def test_results_are_sorted_disjoint_and_not_adjacent(a: IntervalSet, b: IntervalSet) -> None:
    for result in (a | b, a & b, a - b):
        for left, right in zip(result.ranges, result.ranges[1:], strict=False):
            assert left.end < right.start


@given(sets, pairs)
def test_contains_means_that_nothing_of_the_interval_is_left_over(
    a: IntervalSet, pair: tuple[int, int]
) -> None:
    interval = Interval(at(pair[0]), at(pair[1]))
    assert a.contains(interval) == (not IntervalSet((interval,)) - a)


def test_adding_out_of_order_adjacent_and_overlapping_ranges_makes_one() -> None:
    assert hours((4, 6), (0, 2), (2, 4), (1, 3)) == hours((0, 6))


@pytest.mark.parametrize("end", [0, -1])
def test_an_inverted_or_empty_range_is_refused(end: int) -> None:
    with pytest.raises(UsageError, match="does not end after its start"):
        Interval(at(0), at(end))


@given(pairs)
def test_text_form_reads_back(pair: tuple[int, int]) -> None:
    interval = Interval(at(pair[0]), at(pair[1]))
    assert Interval.parse(str(interval)) == interval


def test_an_instant_of_another_zone_is_kept_as_utc() -> None:
    east = timezone(timedelta(hours=2))
    interval = Interval(datetime(2024, 1, 1, 2, tzinfo=east), datetime(2024, 1, 1, 3, tzinfo=east))
    assert interval == Interval(at(0), at(1))


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("2024-01-01", "2024-01-02", "2024-01-01"),
        ("2024-01-01", "2024-02-01", "2024-01-01 … 2024-01-31"),
        ("2024-01-01", "2024-01-01T06:00", "2024-01-01 00:00 … 2024-01-01 06:00 UTC"),
        ("2024-01-01T05:30:10", "2024-01-02", "2024-01-01 05:30:10 … 2024-01-02 00:00 UTC"),
    ],
)
def test_a_range_is_said_as_people_say_it(start: str, end: str, said: str) -> None:
    assert Interval(parse_instant(start), parse_instant(end)).text == said
