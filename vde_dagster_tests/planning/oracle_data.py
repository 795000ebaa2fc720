"""The tables and declarations that the oracle's random projects start from."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import sqlglot
from sqlglot import exp

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.project.kinds import External
from vde_dagster.project.model import Column, Model
from vde_dagster_tests.planning.oracle_lake import ExternalTable

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
EXTERNAL: dict[str, tuple[tuple[str, str], ...]] = {
    "raw.a": (("id", "INT"), ("k", "INT"), ("v", "INT"), ("s", "STRING"), ("d", "DATE")),
    "raw.b": (("id", "INT"), ("k", "INT"), ("w", "INT"), ("s", "STRING"), ("d", "DATE")),
    "raw.c": (("k", "INT"), ("x", "INT"), ("y", "INT")),
}
"""`raw.a.id` is unique, which the planner does not know; all else has NULLs and repetitions."""

Columns = list[tuple[str, str]]
Models = dict[ModelName, Model]


def random_tables(rng: random.Random) -> dict[str, ExternalTable]:
    """A few rows per table, with NULLs, duplicates and ties."""

    def value(type_: str) -> object:
        if rng.random() < 0.08:
            return None
        if type_ == "INT":
            return rng.randint(-1, 5)
        if type_ == "DATE":
            return date(2023, 12, 31) + timedelta(days=rng.randint(0, 5))
        return rng.choice(["", "a", "b", "A", "ab"])

    out = {}
    for name, columns in EXTERNAL.items():
        rows = [tuple(value(type_) for _, type_ in columns) for _ in range(rng.randint(16, 24))]
        if name == "raw.a":
            rows = [(number, *row[1:]) for number, row in enumerate(rows)]
        out[name] = ExternalTable(columns, tuple(rows))
    return out


def external_models() -> Models:
    """The declarations of the tables that others write."""
    out: Models = {}
    for text, columns in EXTERNAL.items():
        name = ModelName.parse(text)
        declared = tuple(Column(column, type_) for column, type_ in columns)
        out[name] = Model(name, External(), SourceLocation(Path("external.yaml")), columns=declared)
    return out


def with_query(model: Model, query: str) -> Model:
    """The model with another query, and what that reads."""
    tree = sqlglot.parse_one(query, read="spark")
    tables = {(t.db, t.name) for t in tree.find_all(exp.Table) if t.db}
    depends = tuple(sorted(ModelName(db, name) for db, name in tables))
    return replace(model, query=query, source=query, depends_on=depends)
