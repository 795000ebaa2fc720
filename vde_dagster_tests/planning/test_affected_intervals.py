"""What of a table follows a change of the rows that it is made of."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.affected_intervals import EVERYTHING, Widening, affected_intervals
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, IncrementalByUniqueKey, Kind
from vde_dagster_tests.state.builders import days, snapshot

FILLED = days(0, 1, 2, 5, 6)


def of_kind(kind: Kind, cron: str = "0 0 * * *", *, reads_itself: bool = False) -> Snapshot:
    made = snapshot("db.orders", kind=kind)
    return replace(made, model=replace(made.model, cron=cron, reads_itself=reads_itself))


TIME = IncrementalByTimeRange("ts")
KEY = IncrementalByUniqueKey(("a",))


@pytest.mark.parametrize(
    ("changed", "again"),
    [(days(1), days(1)), (days(2, 3, 4, 5), days(2, 5)), (days(3, 4), days()), (days(), days())],
    ids=["within", "over a gap", "in a gap", "nothing"],
)
def test_whole_intervals_around_the_change_follow_as_far_as_they_are_filled(
    changed: IntervalSet, again: IntervalSet
) -> None:
    found = affected_intervals(of_kind(TIME), FILLED, changed)
    assert (found.intervals, found.changed, found.widened) == (again, again, None)


def test_an_hour_is_the_whole_day_of_a_daily_model_and_passed_on_as_that() -> None:
    start = datetime(2024, 1, 2, 5, 30, tzinfo=timezone.utc)
    found = affected_intervals(
        of_kind(TIME), FILLED, IntervalSet((Interval(start, start.replace(hour=6)),))
    )
    assert found.intervals == found.changed == days(1)


def test_a_change_without_an_end_stays_within_what_is_filled() -> None:
    found = affected_intervals(of_kind(TIME, cron="0 0 1 * *"), IntervalSet(), EVERYTHING)
    assert not found.intervals
    year = IntervalSet(
        (
            Interval(
                datetime(9998, 1, 1, tzinfo=timezone.utc), datetime(9999, 1, 1, tzinfo=timezone.utc)
            ),
        )
    )
    assert affected_intervals(of_kind(TIME, cron="0 0 1 * *"), year, EVERYTHING).intervals == year


def test_a_model_that_reads_itself_follows_to_its_end() -> None:
    found = affected_intervals(of_kind(TIME, reads_itself=True), FILLED, days(2))
    assert found.intervals == days(2, 5, 6)
    assert found.changed.contains(Interval(days(2).ranges[0].start, days(30).ranges[0].end))
    assert found.widened is Widening.IN_ORDER


def test_a_model_that_reads_itself_is_not_widened_where_it_ends_anyway() -> None:
    assert affected_intervals(of_kind(TIME, reads_itself=True), FILLED, days(5, 6)).widened is None


def test_a_model_without_rows_by_interval_follows_from_its_beginning() -> None:
    found = affected_intervals(of_kind(KEY), FILLED, days(6))
    assert found.intervals == FILLED
    assert found.changed == days(6)
    assert found.widened is Widening.FROM_BEGINNING


def test_a_whole_table_is_made_again_into_the_slot_that_it_filled_last() -> None:
    found = affected_intervals(of_kind(Full()), FILLED, days(1))
    assert (found.intervals, found.changed) == (days(6), days(1))
