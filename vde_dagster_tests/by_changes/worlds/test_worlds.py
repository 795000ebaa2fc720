"""A small part of `benchmarks.refresh_histories`: each commit lives through another world."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.by_changes.random_queries import SCHEMA
from vde_dagster_tests.by_changes.worlds.parents import PARENTS, deal_parents
from vde_dagster_tests.by_changes.worlds.world import METHODS, World, WorldEnded, random_choices
from vde_dagster_tests.conftest import analysis_may_raise
from vde_dagster_tests.lakehouse.protocol import fast_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, in memory where there is such."""
    made = Path(fast_folder())
    yield made
    shutil.rmtree(made)


def test_consecutive_worlds_read_parents_of_all_kinds() -> None:
    count = 5
    worlds = -(-len(PARENTS) // count)
    dealt = [set(deal_parents(seed, count)) for seed in range(40, 40 + worlds)]
    assert set.union(*dealt) == set(PARENTS)
    assert {parent.like for parent in PARENTS.values()} == set(SCHEMA)


@pytest.mark.turns(100)
@pytest.mark.spark
@pytest.mark.parametrize("seed", range(100))
def test_refreshed_models_equal_their_queries(
    seed: int, folder: Path, spark_engine: SparkEngine
) -> None:
    world = World(folder / "world", seed, models=5)
    with random_choices(seed), analysis_may_raise():
        world.open()
        try:
            with suppress(WorldEnded):
                world.step()
        finally:
            world.close()
    assert world.differences == []
    fills = world.tally.fills
    assert sum(fills["all fills", method] for method in METHODS) >= 5, fills
