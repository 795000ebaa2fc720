"""Each kind on Spark: one process dies between two steps, another finishes: nothing is lost.

Here each pair of steps that follow each other is met once, whichever kind takes them, and each kind
dies at least once in each part; `python -m benchmarks.kills_on_spark` goes through all steps of all
kinds.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from vde_dagster.base.plugins import Seam
from vde_dagster.errors import ConflictError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.project.kinds import KINDS
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.kinds.kills import (
    MODEL,
    NAME,
    OPERATIONS,
    Life,
    Operation,
    Trial,
    World,
    project_of,
)
from vde_dagster_tests.kinds.lives import LIVES
from vde_dagster_tests.kinds.own_kinds import forget_kinds, know_kinds
from vde_dagster_tests.lakehouse.protocol import fast_folder

MORE = {
    "first fill": ("INCREMENTAL_BY_TIME_RANGE", "CUSTOM", "SEED"),
    "restatement": ("INCREMENTAL_UNMANAGED", "SCD_TYPE_2_BY_COLUMN", "APPENDED"),
    "deployment": ("INCREMENTAL_BY_UNIQUE_KEY", "SCD_TYPE_2_BY_TIME", "FULL", "SEED"),
    "rollback": ("INCREMENTAL_UNMANAGED", "NEWEST_ROWS"),
}
"""Which kinds live through what beside runs."""
CASES = [
    (life, operation)
    for operation in OPERATIONS
    for life in LIVES
    if operation.lived_by(life) and life.name in MORE.get(operation.name, (life.name,))
]
PLAIN = [life for life in LIVES if life.refreshes and life.has_only_current_rows]
"""Models that refresh from changes, whose rows do not depend on earlier runs."""
PARTS = 4
"""In how many parts the steps of a kind are met: each has some ten kills, which take minutes."""
_met: set[tuple[str, str]] = set()


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


def test_every_kind_that_owns_a_table_is_lived() -> None:
    lived = {life.name.partition(" ")[0] for life in LIVES}
    written: Seam[type] = Seam("kind_writers")
    assert lived == {n for n, kind in KINDS.by_name.items() if kind.owns_table} | set(
        written.names()
    )


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.name.replace(" ", "_"))
def test_a_life_can_be_read_before_and_after_its_definition_changes(
    life: Life, tmp_path: Path
) -> None:
    project = project_of(life, tmp_path)
    with Workspace.open(tmp_path) as workspace:
        before = workspace.project.models[NAME]
    project.edit(*life.change)
    with Workspace.open(tmp_path) as workspace:
        assert workspace.project.models[NAME] != before


@pytest.mark.turns(120)
@pytest.mark.spark
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("life", "operation"), CASES, ids=lambda value: getattr(value, "name", "").replace(" ", "_")
)
def test_whoever_is_killed_another_finishes_as_if_computed_from_scratch(
    life: Life, operation: Operation, part: int, folder: Path, spark_engine: SparkEngine
) -> None:
    trial = Trial(World(folder, life), operation)
    trial.check_from_scratch()
    for number in trial.unmet(_met, part, PARTS):
        trial.kill(number, again=number % 2 == 0)


@pytest.mark.turns(40)
@pytest.mark.spark
@pytest.mark.parametrize("life", PLAIN, ids=lambda life: life.name.replace(" ", "_"))
@pytest.mark.parametrize("part", range(PARTS))
def test_changes_that_come_after_a_kill_are_applied_once(
    life: Life, part: int, folder: Path, spark_engine: SparkEngine
) -> None:
    (operation,) = [operation for operation in OPERATIONS if operation.lived_by(life)]
    trial = Trial(World(folder, life), operation)
    for number in trial.unmet(set(), part, PARTS):
        trial.kill_before_changes(number)


@pytest.mark.turns(8)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("CUSTOM", "run"),
        ("CUSTOM by MERGE", "run"),
        ("NEWEST_ROWS", "run"),
        ("APPENDED", "run"),
        ("SEED", "deployment"),
    ],
)
def test_two_processes_at_once_write_a_table_as_one_would(
    name: str, what: str, folder: Path, spark_engine: SparkEngine
) -> None:
    (life,) = [life for life in LIVES if life.name == name]
    (operation,) = [operation for operation in OPERATIONS if operation.name == what]
    assert operation.plan is not None
    world = World(folder, life)
    operation.before(world)
    together = Barrier(2)

    def run(number: int) -> None:
        with world.process() as workspace:
            plan = operation.plan(workspace)  # type: ignore[misc]
            together.wait()
            workspace.apply(plan, who=f"writer {number}", lease_wait_seconds=60)

    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(run, number) for number in range(2)]
    raised = [future.exception() for future in ended]
    assert None in raised
    assert all(error is None or isinstance(error, ConflictError) for error in raised)
    both = world.rows()
    world.project.edit(MODEL, "MODEL (", "MODEL (stamp 'anew', ")
    world.apply(lambda workspace: workspace.plan("fresh", now=operation.at))
    assert both == world.rows("fresh")
