"""Processes that are killed at random moments, without a JVM; on Spark see `benchmarks`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster_tests.execution.kill_sinks import open_sinks
from vde_dagster_tests.execution.random_kills import (
    APPROVALS,
    World,
    approvals,
    migration,
    trial,
)
from vde_dagster_tests.state.postgres_server import PostgresServer

SYNCS = ("sync http", "sync file", "sync lake")
pytestmark = pytest.mark.proof


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    state = f"sqlite:///{tmp_path / 'vde.db'}"
    with open_sinks(tmp_path) as sinks:
        yield World(tmp_path, state, sinks, "duck", random.Random(seed))


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["apply", "run", "rollback", "janitor", "ci deploy", *SYNCS])
def test_a_killed_operation_is_repeated_at_once_and_loses_nothing(name: str, world: World) -> None:
    trial(world, name)
    assert world.number == 1


def test_a_killed_upgrade_is_finished_by_the_next_opening(world: World) -> None:
    for _ in range(3):
        migration(world)
    assert world.number == 3


@pytest.mark.server
@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["apply", "sync postgresql", "upgrade"])
def test_the_same_holds_on_a_server(name: str, postgres: PostgresServer, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    state, sink = (postgres.url(postgres.create_database()) for _ in range(2))
    with open_sinks(tmp_path, sink) as sinks:
        world = World(tmp_path, state, sinks, "duck", random.Random(seed))
        if name == "upgrade":
            migration(world, postgres.url(postgres.create_database()))
        else:
            trial(world, name)
    assert world.number == 1


@pytest.mark.dagster
@pytest.mark.turns(2)
@pytest.mark.parametrize("plans", APPROVALS.values(), ids=APPROVALS)
def test_of_two_approvals_at_once_one_wins_or_both_are_legal(plans: int, world: World) -> None:
    approvals(world, plans=plans)
    assert world.number == 1
