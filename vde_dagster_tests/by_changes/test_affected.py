"""Keys that changes of tables affect: cases as data, and DuckDB, which computes what differs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlglot.errors import ParseError

from vde_dagster.semantics.refresh.keys import find_key_steps, tables_with_key
from vde_dagster.semantics.refresh.qualified import NotRefreshableError, qualify
from vde_dagster.semantics.refresh.trees import is_aggregate
from vde_dagster.semantics.spark_functions import AGGREGATE, ORDERED_AGGREGATE
from vde_dagster.sql.reading import parse_plain
from vde_dagster_tests.by_changes.histories import at_state, random_history, read
from vde_dagster_tests.by_changes.random_queries import SCHEMA, RandomQuery

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
        find_key_steps(qualify(case["query"], SCHEMA), [case.get("table", "o")])
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
    assert sorted(find_key_steps(qualify(query, SCHEMA), [table]).key) == columns


def _history(query: str, chance: random.Random) -> int:
    """Change tables at random, and compare the rows that differ with the affected keys.

    Returns:
        The number of rows that differ; -1 if no key is known.
    """
    history = random_history(chance)
    try:
        steps = find_key_steps(qualify(query, SCHEMA), history.moved)
    except NotRefreshableError:
        return -1
    with history.in_duckdb() as connection:
        affected = {
            tuple(value for _, value in row)
            for row in read(connection, steps.write(history.relation))
        }
        before, after = (read(connection, at_state(query, one)) for one in ("earlier", "now"))
    differ = 0
    for row in {**before, **after}:
        if before[row] != after[row]:
            differ += 1
            values = dict(row)
            key = tuple(values[name] for name in steps.key)
            assert key in affected, (query, history, steps)
    return differ


def test_a_query_is_refused_where_its_columns_cannot_be_assigned() -> None:
    with pytest.raises(NotRefreshableError):
        qualify("SELECT id, x FROM o", SCHEMA)


def test_a_query_whose_tree_has_another_meaning_is_refused() -> None:
    # Spark answers this join as an inner one; SQLGlot's tree, and its text, have ON TRUE.
    with pytest.raises(NotRefreshableError, match="without ON"):
        qualify("SELECT o.id, n FROM o LEFT JOIN LATERAL explode(array(1)) AS e(n)", SCHEMA)
