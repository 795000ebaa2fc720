"""Proposals: a rejected plan stays rejected, and equal ones wait once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier

import pytest

from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.planning.intervals.cadence import EPOCH, FAR
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Proposal
from vde_dagster.state.plans.plans import PlanStatus
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import FakeClock, plan


def test_a_rejected_plan_says_who_when_and_why(store: StateStore, clock: FakeClock) -> None:
    store.plans.save(plan())
    clock.advance(hours=3)
    record = store.plans.reject("p1", "anna", "  the office\n reads it ")
    assert (record.status, record.message) == ("rejected", "rejected by anna: the office reads it")
    assert record.finished_at == clock.now()
    with pytest.raises(ConflictError, match=r"rejected by anna: the office reads it \(2024-01-01"):
        store.plans.require_open("p1")
    assert store.plans.find_dead(["p1"]) == {"p1"}


@pytest.mark.parametrize("status", ["applying", "applied", "superseded", "failed", "rejected"])
def test_a_rejected_plan_goes_nowhere(store: StateStore, status: PlanStatus) -> None:
    store.plans.save(plan())
    store.plans.reject("p1", "anna")
    with pytest.raises(ConflictError, match="was rejected by anna"):
        store.plans.set_status("p1", status)


@pytest.mark.parametrize("status", ["applying", "applied", "superseded"])
def test_what_is_applied_or_over_cannot_be_rejected(store: StateStore, status: PlanStatus) -> None:
    store.plans.save(plan())
    store.plans.set_status("p1", status)
    with pytest.raises(ConflictError, match=f"is {status} and cannot become rejected"):
        store.plans.reject("p1", "anna")


def test_a_plan_that_failed_can_be_rejected(store: StateStore) -> None:
    store.plans.save(plan())
    store.plans.set_status("p1", "failed", "Spark was away")
    assert store.plans.reject("p1", "anna").status == "rejected"


def test_a_plan_that_is_being_applied_has_not_ended(store: StateStore, clock: FakeClock) -> None:
    store.plans.save(plan())
    store.plans.set_status("p1", "applying")
    clock.advance(days=3)
    now = clock.now()
    found = store.plans.between(now - timedelta(days=1), now)
    assert [one.id for one in found] == ["p1"]
    store.plans.set_status("p1", "applied")
    clock.advance(days=3)
    assert store.plans.between(clock.now() - timedelta(days=1), clock.now()) == []


def test_an_unknown_plan_cannot_be_rejected(store: StateStore) -> None:
    with pytest.raises(UsageError, match="plan 'p1' does not exist"):
        store.plans.reject("p1", "anna")


def test_a_plan_of_the_same_models_is_known_as_the_one_that_was_rejected(
    store: StateStore,
) -> None:
    made = plan()
    store.plans.save(made)
    again = replace(made, id="p2")
    assert store.plans.find_rejected(again) is None
    store.plans.reject("p1", "anna")
    assert store.plans.find_rejected(again) == "p1"
    assert store.plans.find_rejected(replace(again, environment="dev")) is None
    (name, entry), *rest = again.entries.items()
    other = {**dict(rest), name: replace(entry, snapshot_id="other")}
    assert store.plans.find_rejected(replace(again, entries=other)) is None


def test_an_equal_proposal_waits_once_however_many_store_it_together(store: StateStore) -> None:
    made = replace(plan(), proposal=Proposal("files", "anna"))
    both = Barrier(4)

    def save(number: int) -> str:
        both.wait(20)
        return store.plans.save(replace(made, id=f"p{number}"), once=True)

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(save, range(4)))
    assert len(found) == 1
    assert {record.id for record in store.plans.recent()} == found


def test_a_proposal_with_later_intervals_replaces_the_waiting_one(store: StateStore) -> None:
    made = replace(plan(), proposal=Proposal("files", "anna"))
    model, *rest = made.models
    more = IntervalSet((Interval(EPOCH, FAR),))
    later = replace(made, id="p2", models=(replace(model, intervals=more), *rest))
    others = [
        replace(made, id="p3", proposal=Proposal("other files", "anna")),
        replace(made, id="p4", proposal=Proposal("files", "ben")),
        replace(made, id="p5", start=EPOCH),
        replace(made, id="p6", environment="dev"),
    ]
    for one in (made, later, *others):
        assert store.plans.save(one, once=True) == one.id
    statuses = store.plans.statuses(["p1", *(f"p{number}" for number in range(2, 7))])
    assert statuses.pop("p1") == "superseded"
    assert set(statuses.values()) == {"planned"}
    assert store.plans.save(replace(later, id="p7"), once=True) == "p2"
    assert store.plans.save(replace(later, id="p8")) == "p8", "as a person plans again"
