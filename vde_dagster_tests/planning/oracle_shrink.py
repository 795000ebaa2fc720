"""Finding the smallest project that shows what the oracle found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import duckdb

from vde_dagster.base.names import ModelName
from vde_dagster.errors import VdeError
from vde_dagster.project.model import Model
from vde_dagster_tests.planning.oracle_data import Models
from vde_dagster_tests.planning.oracle_lake import ExternalTable
from vde_dagster_tests.planning.oracle_world import Step, World, WrongSkipError


def shrink(
    tables: Mapping[str, ExternalTable], steps: Sequence[Step], error: WrongSkipError
) -> str:
    """Find fewer steps and fewer models that still fail, and print them."""
    best, found = list(steps), error
    changed = True
    while changed:
        changed = False
        for candidate in _smaller(best, found.model):
            again = replay(tables, candidate)
            if again is not None:
                best, found, changed = candidate, again, True
                break
    lines = [str(found)]
    before: Models = {}
    for step in best:
        lines.append(f"  -- {step.environment} {step.now:%d %H:%M} {', '.join(step.edits)}")
        for name, model in (step.models or {}).items():
            if model.query is not None and before.get(name) != model:
                lines.append(f"  {name} ({_kind(model)}): {model.query}")
        before = step.models or before
    rows = [f"  {name}: {list(table.rows)}" for name, table in tables.items()]
    return "\n".join([*lines, *rows])


def _kind(model: Model) -> str:
    return f"{model.kind!r}" + (f" stamp {model.stamp}" if model.stamp else "")


def _smaller(steps: list[Step], failing: ModelName) -> Iterator[list[Step]]:
    for index in range(len(steps) - 1):
        rest = [*steps[:index], *steps[index + 1 :]]
        if rest[0].models is not None:
            yield rest
    names = sorted({name for step in steps for name in step.models or {}})
    for name in reversed(names):
        out = []
        for step in steps:
            models = step.models
            if models is not None:
                if any(name in m.depends_on for m in models.values()) or name == failing:
                    break
                models = {key: model for key, model in models.items() if key != name}
                if not models:
                    break
            out.append(Step(step.environment, models, step.now, step.edits))
        else:
            if any(a.models != b.models for a, b in zip(steps, out, strict=True)):
                yield out


def replay(tables: Mapping[str, ExternalTable], steps: Sequence[Step]) -> WrongSkipError | None:
    """Take the steps in a new world; return the error that they end in, if any."""
    world = World(tables)
    try:
        for step in steps:
            world.take(step)
    except WrongSkipError as error:
        return error
    except (VdeError, duckdb.Error, KeyError):
        return None
    finally:
        world.close()
    return None
