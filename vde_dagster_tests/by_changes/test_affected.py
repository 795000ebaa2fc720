"""Keys that changes of tables affect: cases as data, and DuckDB, which computes what differs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
import yaml
from sqlglot import exp
from sqlglot.errors import ParseError

from vde_dagster.semantics.refresh.keys import State, find_key_steps, tables_with_key
from vde_dagster.semantics.refresh.qualified import NotRefreshableError, qualify
from vde_dagster.semantics.refresh.trees import is_aggregate
from vde_dagster.semantics.spark_functions import AGGREGATE, ORDERED_AGGREGATE
from vde_dagster.sql.reading import parse_plain
from vde_dagster_tests.by_changes.random_queries import SCHEMA, RandomQuery
from vde_dagster_tests.duck import empty_duckdb

Rows = Mapping[str, list[tuple[Any, ...]]]
CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "affected.yaml").read_text(encoding="utf-8")
)
REFUSALS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "refusals.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['query']} by {case['key']}")
def test_changes_of_these_tables_determine_the_values_of_a_key(case: dict[str, Any]) -> None:
    assert sorted(tables_with_key(case["query"], SCHEMA, case["key"])) == case["tables"]


@pytest.mark.proof
def test_rows_of_the_cases_differ_only_in_affected_keys() -> None:
    chance = random.Random(7)
    found = [_history(case["query"], chance) for case in CASES for _ in range(4)]
    assert sum(n for n in found if n > 0) > len(CASES)


@pytest.mark.proof
@pytest.mark.turns(8)
@pytest.mark.parametrize("seed", range(80))
def test_rows_of_random_queries_differ_only_in_affected_keys(seed: int) -> None:
    print("seed", seed)
    chance = random.Random(seed)
    found = [_history(RandomQuery(chance).text, chance) for _ in range(20)]
    assert max(found) >= 0


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: str(case["query"]))
def test_the_clause_that_prevents_following_changes_has_a_place_and_a_hint(
    case: dict[str, Any],
) -> None:
    with pytest.raises(NotRefreshableError) as raised:
        find_key_steps(case["query"], SCHEMA, [case.get("table", "o")])
    why = raised.value
    assert (str(why), [why.line, why.column], why.hint) == (case["why"], case["at"], case["hint"])


@pytest.mark.parametrize("name", sorted(AGGREGATE | ORDERED_AGGREGATE))
def test_every_aggregate_of_spark_is_known_as_one(name: str) -> None:
    for arguments in ("a", "a, b", "a, 0.5", "a, b, c", "*"):
        try:
            select = parse_plain(f"SELECT {name}({arguments}) AS x FROM t")
        except ParseError:
            continue
        assert any(map(is_aggregate, select.walk())), arguments


@pytest.mark.parametrize(
    ("table", "query", "columns"),
    [
        # Where a condition is left out, a row without a match would get one.
        (
            "e",
            "SELECT o.n AS k, s.c FROM o RIGHT JOIN (SELECT c, sum(day) AS d FROM e GROUP BY c) "
            "AS s ON o.c = s.c AND o.n > s.d",
            ["c"],
        ),
        # The equality does not hold for rows that an ANTI JOIN keeps.
        ("e", "SELECT id, n FROM o ANTI JOIN e ON o.id = o.c AND e.c = o.id", ["id", "n"]),
        (
            "e",
            "SELECT a.id AS k, t.v FROM c AS a LEFT JOIN e ON a.id = e.c "
            "LATERAL VIEW explode(array(e.day, 1)) t AS v",
            ["k"],
        ),
        ("o", "SELECT v, id FROM o LATERAL VIEW explode(array(n, d)) t AS v", ["id", "v"]),
    ],
)
def test_columns_are_known_only_if_all_affected_rows_have_their_values(
    table: str, query: str, columns: list[str]
) -> None:
    assert sorted(find_key_steps(query, SCHEMA, [table]).key) == columns


def _history(query: str, chance: random.Random) -> int:
    """Change tables at random, and compare the rows that differ with the affected keys.

    Returns:
        The number of rows that differ; -1 if no key is known.
    """
    before: Rows = {name: _rows(name, chance) for name in SCHEMA}
    after = {name: list(rows) for name, rows in before.items()}
    for _ in range(chance.randrange(1, 4)):
        name = chance.choice(sorted(SCHEMA))
        if after[name] and chance.random() < 0.5:
            after[name].pop(chance.randrange(len(after[name])))
        else:
            after[name].append(_row(name, chance))
    moved = [name for name in SCHEMA if before[name] != after[name]]
    try:
        steps = find_key_steps(query, SCHEMA, moved)
    except NotRefreshableError:
        return -1

    def relation(table: str, state: State) -> str:
        return f"SELECT * FROM {table}_{state if table in moved else 'now'}"

    with empty_duckdb() as connection:
        for name, columns in SCHEMA.items():
            old, new = Counter(before[name]), Counter(after[name])
            rows = {"earlier": before[name], "now": after[name]}
            rows["changed"] = [row for row in {**old, **new} if old[row] != new[row]]
            for state, listed in rows.items():
                _create(connection, f"{name}_{state}", columns, listed)
        affected = set(connection.execute(_duckdb(steps.write(relation))).fetchall())
        differ = 0
        results = [_result(connection, query, state) for state in ("earlier", "now")]
    for row in {**results[0], **results[1]}:
        if results[0][row] != results[1][row]:
            differ += 1
            values = dict(row)
            key = tuple(values[name] for name in steps.key)
            assert key in affected, (query, before, after, steps)
    return differ


def _result(
    connection: duckdb.DuckDBPyConnection, query: str, state: str
) -> Counter[tuple[tuple[str, Any], ...]]:
    tree = sqlglot.parse_one(query, read="spark")
    for table in tree.find_all(exp.Table):
        if table.name in SCHEMA:
            alias = table.alias_or_name
            table.set("this", exp.to_identifier(f"{table.name}_{state}"))
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    found = connection.execute(tree.sql("duckdb"))
    names = [column[0].lower() for column in found.description or ()]
    return Counter(tuple(zip(names, row, strict=True)) for row in found.fetchall())


@cache
def _duckdb(query: str) -> str:
    return sqlglot.transpile(query, read="spark", write="duckdb")[0]


def _create(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Mapping[str, str],
    rows: list[tuple[Any, ...]],
) -> None:
    types = {"INT": "INTEGER", "STRING": "VARCHAR"}
    listed = ", ".join(f"{column} {types[type_]}" for column, type_ in columns.items())
    connection.execute(f"CREATE TABLE {name} ({listed})")
    if rows:
        values = ", ".join(
            "(" + ", ".join("NULL" if value is None else repr(value) for value in row) + ")"
            for row in rows
        )
        connection.execute(f"INSERT INTO {name} VALUES {values}")


def _rows(name: str, chance: random.Random) -> list[tuple[Any, ...]]:
    return [_row(name, chance) for _ in range(chance.randrange(7))]


def _row(name: str, chance: random.Random) -> tuple[Any, ...]:
    return tuple(
        chance.choice("ab") if type_ == "STRING" else chance.choice([None, 1, 2, 3])
        for type_ in SCHEMA[name].values()
    )


def test_a_query_is_refused_where_its_columns_cannot_be_assigned() -> None:
    with pytest.raises(NotRefreshableError):
        qualify("SELECT id, x FROM o", SCHEMA)
