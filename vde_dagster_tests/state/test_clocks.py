"""Clocks that are ahead or behind: what they let be filled early, and in which order versions lie.

Seeds of the search are in the tests' names.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.effects import ServersClock
from vde_dagster.state.store import StateStore
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import T0, FakeClock, environment
from vde_dagster_tests.state.clock_search import BEGUN, Machine, Timed, World, attack, search


@pytest.fixture
def world(tmp_path: Path, url: str) -> Iterator[World]:
    made = World(tmp_path, url)
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_ended_stays_as_it_was_computed_before_its_end(
    world: World, seed: int
) -> None:
    assert search(world, seed, 4)


@pytest.mark.turns(10)
@pytest.mark.proof
@pytest.mark.parametrize("seed", range(1000, 1030))
def test_nothing_stays_so_in_long_histories(tmp_path: Path, seed: int) -> None:
    assert attack(tmp_path, seed)


def test_a_run_one_day_ahead_is_said_and_a_plan_that_only_looks_changes_nothing(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, f"sqlite:///{tmp_path / 'vde.db'}")
    world.run(timedelta(days=1))
    world.machine.off = timedelta()
    seen = world.workspace.plans.due("prod", save=False)
    again = world.workspace.plans.due("prod", save=False)
    assert [model.intervals for model in again.builds] == [m.intervals for m in seen.builds]
    assert ["a clock was ahead (this machine's clock shows" in text for text in seen.warnings] == [
        True,
        False,
    ]
    assert "version 2 of 'prod' was published" in seen.warnings[1]
    assert world.workspace.plans.due("prod", save=False).warnings == seen.warnings
    world.close()


SCD = "SCD_TYPE_2_BY_COLUMN (unique_key n, columns ts"


@pytest.mark.parametrize(
    ("kind", "query", "filled", "named"),
    [
        (f"{SCD})", "'a'", 0, []),
        (f"{SCD}, disable_restatement false)", "'a'", 0, []),
        (f"{SCD})", "@end_ts", 0, ["a fill of m.m"]),
        ("INCREMENTAL_BY_UNIQUE_KEY (unique_key n, disable_restatement true)", "'a'", 0, ["m.m"]),
        ("INCREMENTAL_UNMANAGED", "'a'", 0, ["a fill of m.m"]),
        ("INCREMENTAL_BY_UNIQUE_KEY (unique_key n)", "'a'", 2, ["1 table had ranges filled early"]),
    ],
)
def test_what_cannot_be_made_again_stays_as_a_process_ten_minutes_ahead_has_filled_it(
    tmp_path: Path, kind: str, query: str, filled: int, named: list[str]
) -> None:
    model = f"MODEL (name m.m, start '2024-01-02', kind {kind}); SELECT {query} AS ts, 1 AS n"
    folder = ProjectFolder(tmp_path / "project", {"models/m.sql": model})
    machine = Machine(FakeClock(BEGUN))
    with open_fake(folder.root, Timed(machine.right), clock=machine) as workspace:
        machine.off = timedelta(minutes=10)
        workspace.apply(workspace.plan("prod"))
        machine.off = timedelta()
        plan = workspace.plans.due("prod")
    assert sum((r.end - r.start).days for m in plan.builds for r in m.intervals) == filled
    said = [
        text for text in plan.warnings if "a clock was ahead (this machine's clock shows" in text
    ]
    assert len(said) == len(named)
    assert all(part in text for part, text in zip(named, said, strict=True))


def test_a_plan_made_by_a_clock_ahead_is_refused_by_one_that_is_right(tmp_path: Path) -> None:
    world = World(tmp_path, f"sqlite:///{tmp_path / 'vde.db'}")
    world.machine.off = timedelta(days=1)
    plan = world.workspace.plans.due("prod")
    world.machine.off = timedelta()
    with pytest.raises(
        UsageError, match="created at 2024-01-05 02:25 UTC, but it is only 2024-01-04"
    ):
        world.workspace.apply(plan)
    world.close()


def publish(store: StateStore, base: int, at: datetime) -> datetime:
    """Publish an environment without models; return when that is said to have been."""
    made = environment(at=at)
    with store.database.transaction() as conn:
        return store.environments.write_version(conn, made, base).published_at


@pytest.mark.parametrize("hours", [-1, 0, 24])
def test_instants_of_versions_never_go_back(
    store: StateStore, clock: FakeClock, hours: int
) -> None:
    first = publish(store, 0, clock.now())
    between = clock.now() + timedelta(minutes=20)
    clock.advance(minutes=40)
    second = publish(store, 1, clock.now())
    clock.advance(hours=hours)
    third = publish(store, 2, clock.now())
    assert first < second < third
    assert store.versions.number_at("prod", between) == 1
    assert [store.versions.number_at("prod", at) for at in (first, second, third)] == [1, 2, 3]


def test_versions_whose_instants_went_back_are_told_apart_by_their_order(store: StateStore) -> None:
    version = schema.environment_versions
    for number in range(4):
        publish(store, number, T0)
    with store.database.transaction() as conn:
        for number, minutes in enumerate((20, 40, 10, 50), 1):
            at = T0 + timedelta(minutes=minutes)
            conn.execute(
                version.update().where(version.c.version == number).values(published_at=at)
            )
    named = [store.versions.number_at("prod", T0 + timedelta(minutes=m)) for m in (15, 25, 45, 55)]
    assert named == [None, 1, 3, 4]


@pytest.mark.server
@pytest.mark.parametrize(
    ("off", "said"),
    [
        (timedelta(days=1), "86,400 seconds ahead of"),
        (timedelta(hours=-1), "3,600 seconds behind"),
        (timedelta(seconds=-29), None),
    ],
)
@pytest.mark.parametrize("backend", ["postgresql"])
def test_postgresql_refuses_clocks_that_are_wrong(
    url: str, off: timedelta, said: str | None
) -> None:
    class Off(FakeClock):
        def now(self) -> datetime:
            return datetime.now(T0.tzinfo) + off

    store = StateStore.open(url)
    assert isinstance(store.database.clock, ServersClock)
    right = Database(store.database.engine).clock.now()
    store.database.clock.machine = Off()
    if said is None:
        store.leases.acquire("environment/prod", "me")
        assert abs(store.database.clock.now() - right) < timedelta(seconds=5)
    else:
        with pytest.raises(UsageError, match=said) as error:
            store.leases.acquire("environment/prod", "me")
        assert error.value.exit_code == 2
        with store.database.reading() as conn:
            assert store.leases.active_resources(conn) == set()
    store.close()
