"""What a fill is expected to cost, by those that there were."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.execution.plans.estimate import estimate_fill, past_estimates
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.table_contents import FillFacts, Skipped
from vde_dagster.state.fills.fills import FillRecord

START = datetime(2024, 1, 1, tzinfo=timezone.utc)


def days(count: float) -> Interval:
    return Interval(START, START + timedelta(days=count))


def fill(length: float, seconds: float | None, rows: int | None = None, **more: Any) -> FillRecord:
    at = START + timedelta(days=length)
    return FillRecord("t", days(length), "p", 1, rows, None, seconds, recorded_at=at, **more)


@pytest.mark.parametrize(
    ("fills", "wanted", "by_range", "expected"),
    [
        ([(1, 10.0)], 3, True, (15, 30, 60)),
        ([(1, 10.0)], 3, False, (5, 10, 20)),
        ([(1, 12.0), (1, 8.0), (1, 10.0)], 1, True, (6, 10, 16)),
        # Four seconds each, and two a day.
        ([(1, 6.0), (5, 14.0), (10, 24.0)], 20, True, (33, 44, 44 * 4 / 3)),
        # Longer ranges took less: what a fill costs does not hang on its range.
        ([(1, 12.0), (10, 8.0)], 100, True, (8 / 1.5, 12, 18)),
        # It takes twice as long as it once did.
        ([(1, 20.0), (1, 20.0), (1, 20.0), *[(1, 10.0)] * 4], 1, True, (8.75, 20, 20 * 8 / 7)),
    ],
)
def test_a_fill_costs_a_part_for_itself_and_one_that_grows(
    fills: list[tuple[float, float]],
    wanted: float,
    by_range: bool,
    expected: tuple[float, float, float],
) -> None:
    known = [fill(*one) for one in fills]
    found = estimate_fill(known, days(wanted), by_range=by_range)
    assert found is not None
    assert found.seconds is not None
    told = (found.seconds.low, found.seconds.expected, found.seconds.high)
    assert told == pytest.approx(expected)
    assert found.fills == len(fills)
    assert (found.rows, found.bytes) == (None, None)


def test_what_was_skipped_or_not_timed_tells_nothing() -> None:
    skipped = fill(1, 5.0, facts=FillFacts(skipped=Skipped(START, 5.0)))
    assert estimate_fill([skipped, fill(1, None)], days(1), by_range=True) is None


KNOWN = st.lists(
    st.tuples(st.floats(0.04, 400), st.floats(0.0, 1e5), st.integers(0, 10**9)), min_size=1
)


@given(KNOWN, st.floats(0.04, 400), st.booleans())
def test_an_estimate_is_in_its_range_and_never_below_nothing(
    fills: list[tuple[float, float, int]], wanted: float, by_range: bool
) -> None:
    found = estimate_fill([fill(*one) for one in fills], days(wanted), by_range=by_range)
    assert found is not None
    for part in (found.seconds, found.rows):
        assert part is not None
        assert 0 <= part.low <= part.expected <= part.high


@given(st.floats(0.5, 100), st.floats(0, 50), st.lists(st.integers(1, 60), min_size=2, max_size=9))
def test_costs_that_lie_on_a_line_are_told_exactly(
    fixed: float, a_day: float, lengths: list[int]
) -> None:
    fills = [fill(length, fixed + a_day * length) for length in lengths]
    if len(set(lengths)) > 1:
        for one, told in past_estimates([*fills, *fills], by_range=True):
            if len(set(lengths)) > 1 and told.fills >= len(lengths):
                assert told.seconds is not None
                assert told.seconds.expected == pytest.approx(one.seconds, rel=1e-6)
