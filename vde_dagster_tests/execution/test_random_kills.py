"""Processes that are killed at random moments, without a JVM; on Spark see `benchmarks`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from vde_dagster_tests.execution.random_kills import World, migration, trial

pytestmark = pytest.mark.proof


@pytest.fixture
def world(tmp_path: Path) -> World:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    state = f"sqlite:///{tmp_path / 'vde.db'}"
    return World(tmp_path, state, None, "duck", random.Random(seed))


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["apply", "run", "rollback", "janitor", "ci deploy"])
def test_a_killed_operation_is_repeated_at_once_and_loses_nothing(name: str, world: World) -> None:
    trial(world, name)
    assert world.number == 1


def test_a_killed_upgrade_is_finished_by_the_next_opening(world: World) -> None:
    for _ in range(3):
        migration(world)
    assert world.number == 3
