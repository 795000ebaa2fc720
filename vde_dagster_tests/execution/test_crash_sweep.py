"""Every side effect of every command fails in every way; readers see old or new, retries finish.

The golden file lists the named side effects in order, so that new code cannot escape. Here is a
sample that says its seed; `python -m benchmarks.execution_sweep` goes through all of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vde_dagster_tests.execution.crash_world import (
    OPERATIONS,
    Operation,
    Stage,
    check_case,
)
from vde_dagster_tests.faults import MODES, Fault, Mode
from vde_dagster_tests.state.postgres_server import PostgresServer

GOLDEN = Path(__file__).parent / "golden" / "side_effects.txt"
STALL_SECONDS = 600
SAMPLES = 4
SEED = os.environ.get("VDE_SWEEP_SEED", "1")

StageOf = Callable[[Operation], Stage]


@pytest.fixture(scope="module")
def stage_of(empty_database: Path) -> Iterator[StageOf]:
    """Each operation's prepared world, made when it is first asked for."""
    made: dict[str, Stage] = {}

    def get(operation: Operation) -> Stage:
        if operation.name not in made:
            made[operation.name] = Stage(operation, empty_database)
        return made[operation.name]

    yield get
    for stage in made.values():
        stage.close()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_side_effects_are_those_of_the_golden_file(operation: Operation, stage_of: StageOf) -> None:
    text = GOLDEN.read_text() if GOLDEN.exists() else ""
    sections = dict(part.split("\n", 1) for part in text.strip().split("\n\n") if part)
    found = "\n".join(stage_of(operation).points)
    if os.environ.get("VDE_UPDATE_GOLDEN"):
        sections[f"[{operation.name}]"] = found
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("\n\n".join(f"{k}\n{v.strip()}" for k, v in sections.items()) + "\n")
    assert sections.get(f"[{operation.name}]", "").strip() == found


@pytest.mark.turns(10)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_old_or_new_and_a_retry_finishes(operation: Operation, stage_of: StageOf) -> None:
    print(f"VDE_SWEEP_SEED={SEED}")
    chance = random.Random(f"{SEED} {operation.name}")
    stage = stage_of(operation)
    for number, (point, mode, occurrence) in enumerate(sample(stage, chance)):
        check_case(stage, [Fault(point, mode, occurrence, STALL_SECONDS)], clean=number % 3 == 0)


@pytest.mark.turns(10)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_crash_during_recovery(operation: Operation, stage_of: StageOf) -> None:
    print(f"VDE_SWEEP_SEED={SEED}")
    chance = random.Random(f"{SEED} pairs {operation.name}")
    stage = stage_of(operation)
    pair = [
        Fault(point, chance.choice(MODES), occurrence, STALL_SECONDS)
        for point, occurrence in chance.choices(stage.occurrences(), k=2)
    ]
    check_case(stage, pair)


@pytest.mark.turns(10)
@pytest.mark.server
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_old_or_new_on_postgresql(
    operation: Operation, empty_database: Path, postgres: PostgresServer, empty_postgres: str
) -> None:
    print(f"VDE_SWEEP_SEED={SEED}")
    chance = random.Random(f"{SEED} PostgreSQL {operation.name}")
    stage = Stage(operation, empty_database, (postgres, empty_postgres))
    try:
        for point, mode, occurrence in sample(stage, chance):
            check_case(stage, [Fault(point, mode, occurrence, STALL_SECONDS)])
    finally:
        stage.close()


def sample(stage: Stage, chance: random.Random) -> list[tuple[str, Mode, int]]:
    """Name a few different side effects, each with another way to fail."""
    points = stage.occurrences()
    chosen = chance.sample(points, min(SAMPLES, len(points)))
    modes = chance.sample(MODES, len(chosen))
    return [(point, mode, number) for (point, number), mode in zip(chosen, modes, strict=True)]
