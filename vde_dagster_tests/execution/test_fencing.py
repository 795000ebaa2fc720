"""An owner that stalls past its leases, is taken over, and goes on: nothing it does is seen.

At every side effect of an apply or a run the process stalls, another one repeats the command to
its end, and then the first goes on as if nothing had happened. Iceberg itself knows no leases.
Here at some of the side effects; `python -m benchmarks.execution_sweep` goes through all.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from vde_dagster.errors import LeaseLostError
from vde_dagster.execution.apply.table_branches import Target
from vde_dagster.execution.events import Event, ModelFinished
from vde_dagster.state import table_commits
from vde_dagster.state.db.leases import Lease, LeaseStore
from vde_dagster_tests.execution.crash_world import TAKEN_OVER, Operation, Stage, check_stall
from vde_dagster_tests.execution.fake_workspace import open_fake, publish_shop
from vde_dagster_tests.projects import Prepared

SAMPLES = 4


class AnyLease(LeaseStore):
    """Takes every lease for a valid one."""

    def check(self, connection: Connection, lease: Lease) -> None:
        """Find nothing wrong."""


def check_stalls(stage: Stage, after: Iterable[int]) -> None:
    for number in after:
        check_stall(stage, number)


@pytest.mark.turns(3)
@pytest.mark.parametrize("operation", TAKEN_OVER, ids=lambda operation: operation.name)
def test_a_stalled_owner_that_goes_on_changes_nothing_that_is_seen(
    operation: Operation, empty_database: Path
) -> None:
    stage = Stage(operation, empty_database)
    try:
        pauses = stage.pauses()
        check_stalls(stage, pauses[1 :: max(1, len(pauses) // SAMPLES)])
    finally:
        stage.close()


def test_without_the_leases_token_the_stalled_owner_is_noticed_here(
    empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep above would find out if `main` moved without asking for the lease."""
    (operation,) = [known for known in TAKEN_OVER if known.name == "first apply"]
    stage = Stage(operation, empty_database)
    unfenced = Target._change

    def careless(self: Target, *arguments: Any) -> Any:
        store = self.lakehouse.store
        with monkeypatch.context() as patch:
            patch.setattr(store, "leases", AnyLease(store.database))
            patch.setattr(table_commits, "is_shown", lambda connection, table_id: False)
            return unfenced(self, *arguments)

    try:
        monkeypatch.setattr(Target, "_change", careless)
        written = [n for n, point in enumerate(stage.points, 1) if point == "engine.fill.commit"]
        noticed = r"twice|nobody recorded|stalled after|not at its pin"
        with pytest.raises(AssertionError, match=noticed):
            check_stalls(stage, written)
    finally:
        stage.close()


@pytest.mark.parametrize("status", ["applying", "applied"])
def test_a_stalled_apply_does_not_mark_the_plan_of_its_successor_as_failed(
    status: str, prepared: Prepared
) -> None:
    folder = prepared(publish_shop)
    folder.edit("models/marts/daily.sql", "count(*) AS orders", "count(*) + 1 AS orders")
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("prod")

        def take_over(event: Event) -> None:
            if isinstance(event, ModelFinished):
                with workspace.store.database.transaction() as conn:
                    conn.exec_driver_sql("UPDATE vde_leases SET token = token + 1, owner = 'x'")
                    conn.exec_driver_sql(f"UPDATE vde_plans SET status = '{status}'")

        with pytest.raises(LeaseLostError):
            workspace.apply(plan, on_event=take_over)
        record = workspace.store.plans.record(plan.id)
        assert record is not None
        assert record.status == status
