"""Kinds on Spark: a run is rolled back with its rows, run again, and taken back and forth."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.kinds.kills import LATE, MODEL, THEN, Life, World, noon
from vde_dagster_tests.kinds.lives import LIVES
from vde_dagster_tests.kinds.own_kinds import forget_kinds, know_kinds
from vde_dagster_tests.lakehouse.protocol import fast_folder

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def kinds() -> Iterator[None]:
    """The kinds of the tests are known."""
    know_kinds()
    yield
    forget_kinds()


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, in memory where there is such."""
    made = Path(fast_folder())
    yield made
    shutil.rmtree(made)


@pytest.mark.turns(7)
@pytest.mark.parametrize(
    "life", [life for life in LIVES if life.runs], ids=lambda life: life.name.replace(" ", "_")
)
def test_a_run_that_was_taken_back_ends_as_if_computed_from_scratch(
    life: Life, folder: Path, spark_engine: SparkEngine
) -> None:
    world = World(folder, life)
    world.apply(lambda workspace: workspace.plan("prod", now=noon(3)))
    first = world.rows()
    world.insert(f"{THEN}, {LATE}" if life.late else THEN)
    world.apply(lambda workspace: workspace.plans.due("prod", now=noon(5)))
    second = world.rows()
    assert second != first

    with world.process() as workspace:
        assert workspace.environments.rollback("prod", 1).moved
    assert world.rows() == first
    world.apply(lambda workspace: workspace.plans.due("prod", now=noon(5)))
    assert world.rows() == second

    with world.process() as workspace:
        workspace.environments.rollback("prod", 1)
        workspace.environments.rollback("prod", 2)
        assert not workspace.plans.due("prod", now=noon(5)).builds
    assert world.rows() == second

    world.project.edit(MODEL, "MODEL (", "MODEL (stamp 'anew', ")
    world.apply(lambda workspace: workspace.plan("fresh", now=noon(5)))
    assert world.rows("fresh") == second
