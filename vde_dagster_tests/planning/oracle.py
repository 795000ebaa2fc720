"""A brute-force oracle for plans: what a plan skips must be as a rebuild would make it.

Random projects are planned, filled on DuckDB as the plans say, edited, planned again, and after
each step every model of the environment is compared with a rebuild of everything from scratch.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster_tests.planning.oracle_data import Models, external_models, random_tables
from vde_dagster_tests.planning.oracle_edits import edit_project
from vde_dagster_tests.planning.oracle_projects import Projects
from vde_dagster_tests.planning.oracle_shrink import shrink
from vde_dagster_tests.planning.oracle_world import Step, Tally, World, WrongSkipError

FIRST_DAY = datetime(2024, 1, 4, 12, tzinfo=timezone.utc)


def run_seed(seed: int, tally: Tally, steps: int = 5) -> None:
    """Make one random project and take random steps with it.

    Raises:
        WrongSkipError: With the seed and the smallest project that shows it.
    """
    rng = random.Random(seed)
    tables = random_tables(rng)
    world = World(tables, tally)
    taken: list[Step] = []
    try:
        for step in _steps(rng, world, steps):
            taken.append(step)
            world.take(step)
        tally.projects += 1
    except WrongSkipError as error:
        smallest = shrink(tables, taken, error)
        raise WrongSkipError(error.model, f"seed {seed}\n{smallest}") from error
    finally:
        world.close()


def _steps(rng: random.Random, world: World, count: int) -> Iterator[Step]:
    now = FIRST_DAY
    maker = Projects(rng)
    current: Models = external_models()
    wanted = rng.randint(5, 15)
    while len(current) < wanted + 3:
        known = list(maker.known)
        model = maker.model(f"m.t{len(current) - 3}")
        bigger = {**current, model.name: model}
        # Models without rows show nothing: a few of them are enough.
        if world.try_out(bigger, now) and (
            world.rows_of(bigger, model.name, now) > 1 or rng.random() < 0.1
        ):
            current = bigger
        else:
            maker.known = known
    yield Step(PRODUCTION, current, now)
    history = [current]
    environments = [PRODUCTION]
    for _ in range(count):
        roll = rng.random()
        if roll < 0.12:
            now += timedelta(days=1)
            for environment in environments:
                yield Step(environment, None, now)
            continue
        environment = rng.choice([PRODUCTION, PRODUCTION, "dev"])
        if roll < 0.22 and len(history) > 1:
            current = rng.choice(history)
            edits: tuple[str, ...] = ("revert",)
        else:
            current, edits = edited(current, rng, world, now)
        history.append(current)
        if environment not in environments:
            environments.append(environment)
        yield Step(environment, current, now, edits)


def edited(
    models: Models, rng: random.Random, world: World, now: datetime
) -> tuple[Models, tuple[str, ...]]:
    """Apply one to three random edits that leave a valid project."""
    wanted = rng.choice([1, 1, 1, 2, 3])
    edits: list[str] = []
    for _ in range(40):
        if len(edits) == wanted:
            break
        change = edit_project(models, rng)
        if change is not None and change[0] != models and world.try_out(change[0], now):
            models = change[0]
            edits.append(change[1])
    return models, tuple(edits)
