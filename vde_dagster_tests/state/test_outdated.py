"""Ranges that have to be computed again: what settles them, and what comes too late to."""

from __future__ import annotations

import pytest

from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.plan.affected_intervals import EVERYTHING
from vde_dagster.planning.tables.table import Part
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import FakeClock, day, days, plan, table


@pytest.fixture
def table_id(store: StateStore, clock: FakeClock) -> str:
    """A table that is filled for ten days; the first is outdated since day one, noon."""
    made = store.tables.ensure(table())
    store.fills.record(FillRecord(made.id, day(0, 10), "first"))
    begin(store, "before")
    clock.advance(hours=12)
    outdate(store, made.id)
    clock.advance(hours=12)
    begin(store, "after")
    return made.id


def begin(store: StateStore, plan_id: str) -> None:
    store.plans.save(plan(plan_id))
    store.plans.set_status(plan_id, "applying")


def outdate(store: StateStore, table_id: str) -> None:
    """Give up the second and third day, as a restatement's publication does."""

    def work(conn: object) -> None:
        store.fills.remove(table_id, day(1, 2), conn)  # type: ignore[arg-type]
        store.outdated.note(conn, table_id, days(1, 2))  # type: ignore[arg-type]

    store.database.run_transaction(work)


def test_work_that_began_later_settles_what_it_covers(store: StateStore, table_id: str) -> None:
    store.fills.record(FillRecord(table_id, day(1), "after"))
    assert store.tables.get(table_id).intervals == days(0, 1, 3, 4, 5, 6, 7, 8, 9)
    assert store.outdated.ranges_by_table([table_id]) == {table_id: days(2)}
    store.fills.record(FillRecord(table_id, day(2, 2), "after"))
    assert store.tables.get(table_id).intervals == days(*range(10))
    assert store.outdated.ranges_by_table([table_id]) == {}
    assert store.outdated.latest_time(table_id) is None


def test_work_that_began_earlier_fills_only_what_is_not_outdated(
    store: StateStore, table_id: str
) -> None:
    store.fills.record(FillRecord(table_id, day(1, 12), "before"))
    assert store.tables.get(table_id).intervals == days(0, *range(3, 13))
    assert store.outdated.ranges_by_table([table_id]) == {table_id: days(1, 2)}


def test_a_table_whose_ranges_hang_together_is_settled_by_the_first_of_them(
    store: StateStore, table_id: str, clock: FakeClock
) -> None:
    store.database.run_transaction(lambda conn: store.outdated.note(conn, table_id, EVERYTHING))
    store.fills.record(FillRecord(table_id, day(20), "after"))
    assert not store.tables.get(table_id).intervals.contains(day(20))
    clock.advance(hours=1)
    begin(store, "later")
    store.fills.record(FillRecord(table_id, day(20), "later"))
    assert store.tables.get(table_id).intervals.contains(day(20))
    assert store.outdated.ranges_by_table([table_id]) == {}


def test_what_is_noted_again_counts_from_the_later_instant(
    store: StateStore, table_id: str, clock: FakeClock
) -> None:
    clock.advance(hours=1)
    outdate(store, table_id)
    store.fills.record(FillRecord(table_id, day(1, 2), "after"))
    assert store.tables.get(table_id).intervals == days(0, *range(3, 10))
    assert store.outdated.latest_time(table_id) == clock.now()


def test_what_is_remembered_but_not_wrong_stays_filled(
    store: StateStore, table_id: str, clock: FakeClock
) -> None:
    store.outdated.remember({table_id: (days(5), clock.now())})
    assert store.tables.get(table_id).intervals.contains(day(5))
    assert store.outdated.ranges_by_table([table_id]) == {table_id: days(1, 2, 5)}


def test_a_part_of_a_unit_is_settled_by_later_work_and_not_by_its_own(
    store: StateStore, clock: FakeClock
) -> None:
    made = store.tables.ensure(table())
    begin(store, "own")
    store.tables.note_parts([(made.id, Part(day(1), IntervalUnit.MONTH))])
    store.tables.note_parts([(made.id, Part(day(0, 3), IntervalUnit.MONTH))])
    store.fills.record(FillRecord(made.id, day(0, 3), "own"))
    filled = store.tables.get(made.id)
    assert filled.parts == (Part(day(0, 3), IntervalUnit.MONTH),)
    assert filled.with_ranges_for_unit(IntervalUnit.MONTH).intervals == days(0, 1, 2)
    assert not filled.with_ranges_for_unit(IntervalUnit.DAY).intervals
    clock.advance(hours=1)
    begin(store, "later")
    store.fills.record(FillRecord(made.id, day(1), "later"))
    settled = store.tables.load([made.id])[made.id]
    assert settled.parts == tuple(Part(day(n), IntervalUnit.MONTH) for n in (0, 2))
    assert settled.with_ranges_for_unit(IntervalUnit.DAY).intervals == days(1)


def test_parts_of_which_the_same_is_left_become_one(store: StateStore, clock: FakeClock) -> None:
    made = store.tables.ensure(table())
    for length in (3, 2):
        store.tables.note_parts([(made.id, Part(day(0, length), IntervalUnit.MONTH))])
    clock.advance(hours=1)
    begin(store, "later")
    store.fills.record(FillRecord(made.id, day(1, 3), "later"))
    assert store.tables.get(made.id).parts == (Part(day(0), IntervalUnit.MONTH),)
