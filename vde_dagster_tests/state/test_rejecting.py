"""A rejected plan stays rejected, whatever the state it was in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vde_dagster.errors import ConflictError, UsageError
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
    assert store.plans.past(["p1"]) == {"p1"}


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
