"""Random projects of every kind, as files that Spark runs, and edits of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, IncrementalByUniqueKey, View
from vde_dagster.project.model import Model
from vde_dagster_tests.planning.oracle import FIRST_DAY
from vde_dagster_tests.planning.oracle_data import (
    EXTERNAL,
    START,
    Columns,
    external_models,
    random_tables,
    with_query,
)
from vde_dagster_tests.planning.oracle_parts import Known
from vde_dagster_tests.planning.oracle_projects import Projects
from vde_dagster_tests.planning.oracle_world import World

ADD = """
from pyspark.sql.functions import lit

from vde_dagster import materialization


@materialization("add")
def write(rows, target):
    writer = target.writer(rows)
    writer.overwrite(lit(True)) if target.anew else writer.append()
"""
_KEPT = {
    "merged": "INCREMENTAL_BY_UNIQUE_KEY (unique_key k, batch_size 1)",
    "dimension": "SCD_TYPE_2_BY_COLUMN (unique_key k, columns *, invalidate_hard_deletes true)",
    "parted": "INCREMENTAL_BY_PARTITION (batch_size 1), partitioned_by k",
    "added": "INCREMENTAL_UNMANAGED (batch_size 1)",
    "custom": "CUSTOM (materialization 'add', batch_size 1)",
}
"""Kinds whose tables keep rows of earlier fills."""


@dataclass(slots=True)
class RandomModel:
    """A model of a random project.

    Args:
        name: Its name.
        kind: Its kind as its file says it, with properties.
        query: Its query.
        columns: What the query returns.
        cron: When it is due.
        edits: How often it was edited.
    """

    name: str
    kind: str
    query: str
    columns: Columns
    cron: str = "@daily"
    edits: int = 0

    @property
    def path(self) -> str:
        """Where its file lies."""
        return f"models/{self.name.partition('.')[2]}.sql"

    def text(self) -> str:
        """Return its file."""
        return (
            f"MODEL (name {self.name}, kind {self.kind}, start '{START:%Y-%m-%d}',\n"
            f"  cron '{self.cron}');\n{self.query}\n"
        )

    def edited(self, rng: random.Random) -> RandomModel | None:
        """Return the model with another meaning; None where that would begin a history anew."""
        if self.kind.partition(" ")[0] not in ("FULL", "VIEW", "INCREMENTAL_BY_TIME_RANGE"):
            return None
        number = self.edits + 1
        same = ", ".join(name for name, _ in self.columns)
        numbers = [name for name, type_ in self.columns if type_ == "INT"]
        roll = rng.random()
        if roll < 0.3 and self.kind in ("FULL", "VIEW"):
            other = "VIEW" if self.kind == "FULL" else "FULL"
            return replace(self, kind=other, edits=number)
        if roll < 0.7 and numbers:
            changed = rng.choice(numbers)
            same = (
                same.replace(changed, f"{changed} + 1 AS {changed}")
                if same == changed
                else (", ".join(f"{n} + 1 AS {n}" if n == changed else n for n, _ in self.columns))
            )
        elif roll < 0.85:
            same += f", {number} AS x{number}"
        query = f"SELECT {same} FROM ({self.query}) AS w{number}"
        return replace(self, query=query, edits=number)


def random_project(rng: random.Random, size: int) -> list[RandomModel]:
    """Return a random project over the tables of `EXTERNAL`.

    Args:
        rng: Chance.
        size: How many models.
    """
    maker = Projects(rng)
    world = World(random_tables(rng))
    tried = external_models()
    out: list[RandomModel] = []
    try:
        while len(out) < size:
            known = list(maker.known)
            model, shown = _candidate(maker, rng, f"m.t{len(out)}")
            bigger = {**tried, model.name: model}
            if world.try_out(bigger, FIRST_DAY):
                tried = bigger
                out.append(shown)
            else:
                maker.known = known
    finally:
        world.close()
    return out


def _candidate(maker: Projects, rng: random.Random, name: str) -> tuple[Model, RandomModel]:
    """Return a model as the trial understands it, and as it is written."""
    if rng.random() < 0.25:
        return _keeping(maker, rng, name)
    model = maker.model(name)
    columns = maker.known[-1].columns
    kind = model.kind
    cron = "@daily"
    if isinstance(kind, IncrementalByTimeRange):
        size = f", batch_size {kind.batch_size}" if kind.batch_size else ""
        said = f"INCREMENTAL_BY_TIME_RANGE (time_column d, lookback {rng.randint(0, 2)}{size})"
    elif isinstance(kind, IncrementalByUniqueKey):
        said = _KEPT["merged"]
    else:
        said = "VIEW" if isinstance(kind, View) else "FULL"
        cron = "0 0 */3 * *" if isinstance(kind, Full) and rng.random() < 0.15 else cron
    assert model.query is not None
    return model, RandomModel(name, said, model.query, columns, cron)


def _keeping(maker: Projects, rng: random.Random, name: str) -> tuple[Model, RandomModel]:
    query, columns, _ = maker.by_key()
    sort = rng.choice(sorted(_KEPT))
    if sort == "dimension":
        text, alias, there = maker.source(
            [known for known in maker.known if known.name in EXTERNAL]
        )
        rest = f"FROM {text}{maker.where(there)} GROUP BY {alias}.k"
        others = [item for item in there if item[0] != f"{alias}.k"]
        items = [(f"{alias}.k", "INT"), *(maker.aggregate(others) for _ in range(2))]
        query, columns = maker.select(items, rest)
    place = SourceLocation(Path(f"models/{name}.sql"), 1)
    kind = Full() if sort == "dimension" else IncrementalByUniqueKey(("k",), batch_size=1)
    model = replace(with_query(Model(ModelName.parse(name), kind, place), query), start=START)
    maker.known.append(Known(name, columns, False))
    return model, RandomModel(name, _KEPT[sort], query, columns)


def files_of(models: list[RandomModel]) -> dict[str, str]:
    """Return a project's files by path."""
    declared = "".join(
        f"- name: {name}\n  columns:\n" + "".join(f"    {c}: {t.lower()}\n" for c, t in columns)
        for name, columns in EXTERNAL.items()
    )
    return {
        "external_models.yaml": declared,
        "materializations/add.py": ADD,
        **{model.path: model.text() for model in models},
    }
