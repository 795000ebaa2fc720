"""Processes that are killed at random moments, without a JVM; on Spark see `benchmarks`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster_tests.execution.kill_sinks import open_sinks
from vde_dagster_tests.execution.random_kills import World, migration, trial

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
