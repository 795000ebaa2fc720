"""What lineage does not name decides nothing: random queries on DuckDB over changed columns."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
import sqlglot

from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.semantics.versions.lineage import ColumnLineage, LineageTracer
from vde_dagster_tests.semantics.random_queries import DUCKDB_TYPES, SCHEMA, Queries, random_rows

Rows = dict[str, list[tuple[object, ...]]]
Column = tuple[str, str]
ALL = [(table, column) for table, columns in SCHEMA.items() for column in columns]
SHAPES = (
    "SELECT k FROM (SELECT k, x FROM c EXCEPT SELECT k, w FROM b) AS q",
    "SELECT k FROM (SELECT k, x FROM c INTERSECT ALL SELECT k, w FROM b) AS q",
    "SELECT COUNT(*) AS n FROM (SELECT k, x FROM c UNION SELECT k, w FROM b) AS q",
    "SELECT COUNT(*) AS n FROM (SELECT id, EXPLODE(xs) AS x FROM e) AS q",
    "SELECT k FROM c WHERE EXISTS (SELECT x FROM c EXCEPT SELECT w FROM b)",
    "SELECT k FROM (SELECT DISTINCT k, x FROM c) AS q",
    "SELECT SUM(k) FILTER (WHERE x > 1) AS n FROM c",
)
"""Where what is not among the outputs decides which rows there are."""


def changed(rows: Rows, columns: set[Column], rng: random.Random) -> Rows:
    """The same tables with other values in some columns."""
    out = {}
    for table, old in rows.items():
        names = list(SCHEMA[table])
        new = random_rows(rng)[table]
        others = [*new, *(random_rows(rng)[table] * 9)] or old
        out[table] = [
            tuple(
                rng.choice(others)[place] if (table, name) in columns else row[place]
                for place, name in enumerate(names)
            )
            for row in old
        ]
    return out


def results(db: duckdb.DuckDBPyConnection, text: str, rows: Rows) -> list[tuple[Any, ...]] | None:
    """What DuckDB answers; None where it refuses the query."""
    for table, columns in SCHEMA.items():
        listed = ", ".join(f"{c} {DUCKDB_TYPES.get(k, k)}" for c, k in columns.items())
        db.execute(f"CREATE OR REPLACE TABLE {table} ({listed})")
        if rows[table]:
            marks = ", ".join(["(" + ", ".join("?" * len(columns)) + ")"] * len(rows[table]))
            db.execute(f"INSERT INTO {table} VALUES {marks}", [v for r in rows[table] for v in r])
    try:
        translated = sqlglot.transpile(text, read="spark", write="duckdb")[0]
        return db.execute(translated).fetchall()
    except (duckdb.Error, sqlglot.errors.SqlglotError):
        return None


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that keeps the order of rows."""
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute("PRAGMA disable_optimizer")
        yield connection


def reads(lineage: ColumnLineage, outputs: set[str]) -> set[Column]:
    """The columns that outputs are made of, and those that decide which rows there are."""
    made = [*lineage.rows]
    for name in outputs:
        made += (*lineage.columns[name], *lineage.conditions[name])
    return {(source.table, source.column) for source in made}


def check(db: duckdb.DuckDBPyConnection, text: str, rng: random.Random) -> bool:
    """Change what some outputs do not read; say whether that could be compared."""
    try:
        found = analyze(text, SCHEMA)
    except SemanticError:
        return False
    names = list(found.lineage.columns)
    if found.version.opaque is not None or not names:
        return False
    picked = set(rng.sample(names, rng.randint(0, len(names))))
    free = set(ALL) - reads(found.lineage, picked)
    rows = random_rows(rng)
    before, after = results(db, text, rows), results(db, text, changed(rows, free, rng))
    if before is None or after is None or (before and len(before[0]) != len(names)):
        return False
    places = [place for place, name in enumerate(names) if name in picked]

    def of(answer: list[tuple[Any, ...]]) -> Counter[str]:
        return Counter(repr([row[place] for place in places]) for row in answer)

    assert of(before) == of(after), f"{text}\n{sorted(picked)} does not read {sorted(free)}\n{rows}"
    return True


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(2))
def test_columns_that_are_not_read_change_neither_values_nor_rows(
    db: duckdb.DuckDBPyConnection, seed: int
) -> None:
    rng = random.Random(seed)
    compared = sum(check(db, Queries(rng).query()[0], rng) for _ in range(100))
    assert compared > 40


@pytest.mark.parametrize("text", SHAPES)
def test_columns_that_decide_rows_are_read_whichever_outputs_are_asked_for(
    db: duckdb.DuckDBPyConnection, text: str
) -> None:
    rng = random.Random(text)
    assert sum(check(db, text, rng) for _ in range(12)) == 12


def test_lineage_that_overlooks_what_decides_rows_is_noticed(
    db: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LineageTracer, "_source", lambda *_: iter(()))
    rng = random.Random(1)
    with pytest.raises(AssertionError, match="does not read"):
        _check_all(db, rng)


def _check_all(db: duckdb.DuckDBPyConnection, rng: random.Random) -> None:
    for text in SHAPES * 12:
        check(db, text, rng)
