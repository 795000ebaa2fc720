"""Locality of queries: cases as data, and DuckDB as the one who knows what a row changes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import sqlglot
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vde_dagster.semantics.locality import columns_of_key
from vde_dagster_tests.duck import empty_duckdb

SCHEMA = {
    "o": {"id": "INT", "c": "INT", "n": "INT", "d": "INT"},
    "c": {"id": "INT", "name": "STRING", "region": "INT"},
    "e": {"c": "INT", "day": "INT"},
}
CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "locality.yaml").read_text(encoding="utf-8")
)
STEADY = [case for case in CASES if case["local"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['query']} by {case['key']}")
def test_a_query_is_local_in_these_tables_by_these_columns(case: dict[str, Any]) -> None:
    wanted = {table: tuple(map(tuple, columns)) for table, columns in case["local"].items()}
    assert columns_of_key(case["query"], SCHEMA, case["key"]) == wanted


@pytest.mark.proof
@settings(max_examples=400)
@given(st.sampled_from(STEADY), st.randoms(use_true_random=False))
def test_a_row_more_or_less_changes_only_rows_of_its_keys(
    case: dict[str, Any], chance: random.Random
) -> None:
    tables = {name: [_row(name, chance) for _ in range(chance.randrange(6))] for name in SCHEMA}
    table = chance.choice(sorted(case["local"]))
    row = _row(table, chance)
    more = {**tables, table: [*tables[table], row]}
    columns = list(SCHEMA[table])
    changed = {
        tuple(row[columns.index(name)] for name in located) for located in case["local"][table]
    }
    before, after = (_rows(case, one, changed) for one in (tables, more))
    assert before == after


def _row(table: str, chance: random.Random) -> tuple[Any, ...]:
    return tuple(
        chance.choice("ab") if type_ == "STRING" else chance.choice([None, 1, 2, 3])
        for type_ in SCHEMA[table].values()
    )


def _rows(
    case: dict[str, Any], tables: dict[str, list[tuple[Any, ...]]], without: set[tuple[Any, ...]]
) -> list[str]:
    """Return the query's rows, but for those of some keys."""
    with empty_duckdb() as connection:
        for name, rows in tables.items():
            listed = ", ".join(
                f"CAST(unnest({[row[at] for row in rows]!r}) AS {type_}) AS {column}".replace(
                    "None", "NULL"
                )
                for at, (column, type_) in enumerate(SCHEMA[name].items())
            )
            connection.execute(f"CREATE TABLE {name} AS SELECT {listed}")
        query = sqlglot.transpile(case["query"], read="spark", write="duckdb")[0]
        found = connection.execute(query)
        names = [column[0].lower() for column in found.description or ()]
        rows = found.fetchall()
    places = [names.index(name) for name in case["key"]]
    return sorted(repr(row) for row in rows if tuple(row[at] for at in places) not in without)
