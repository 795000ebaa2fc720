"""Queries that are right give no message: of what is not certain nothing is said."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.errors import SemanticError
from vde_dagster_tests.semantics import corpus, random_queries
from vde_dagster_tests.semantics.test_cases import FIXTURES, SCHEMA
from vde_dagster_tests.yaml_files import read_yaml

EXPECTED = {
    "Spark has no function 'my_udf'",
    "Spark has no function 'my_agg'",
    "Spark has no function 'my_table_function'",
    "column 'amount' is neither in GROUP BY nor in an aggregate function",
    "column 'qty' is neither in GROUP BY nor in an aggregate function",
    "a comparison with NULL is never true",
    "NOT IN a list that contains NULL is never true",
    "RIGHT JOIN does not allow LATERAL",
    "FULL JOIN does not allow LATERAL",
    "'tags' is an array and is compared with 'a', text",
    "'order_date' is a date and is compared with 5, a number",
    "'ts' is a time and is compared with 'id', a number",
    "LIMIT is negative",
    "OFFSET is negative",
    "'@start_ds' in quotes is a text, not a variable",
    "'status' is text and is compared with 'k', a number: "
    "the query fails at the first text that is not a number",
    "'qty' is a number and is compared with 'k', text: "
    "the query fails at the first text that is not a number",
    *(
        f"no condition joins '{name}' with the other tables: the comma is a CROSS JOIN"
        for name in ("products", "dim", "customers", "orders", "unknown_two")
    ),
}
"""What is said of the cases that are wrong, or slow, on purpose."""


def messages(query: str, schema: dict[str, dict[str, str]], **given: Any) -> list[str]:
    """Return what is said of a query, but for columns without names, which cases often have."""
    try:
        findings = analyze(query, schema, **given).findings
    except SemanticError:
        return []
    return [finding.message for finding in findings if finding.rule != "unnamed"]


def _queries(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip().upper().startswith(("SELECT", "WITH", "(", "VALUES", "FROM")):
            yield value
        return
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        yield from _queries(item)


@pytest.mark.proof
def test_nothing_is_said_of_right_queries() -> None:
    said: set[str] = set()
    count = 0
    for path in FIXTURES.glob("*.yaml"):
        other = path.stem in ("schema", "near_rules", "rule_pairs")
        if not other and not path.stem.startswith("python"):
            for query in _queries(read_yaml(path)):
                count += 1
                said.update(messages(query, SCHEMA))
    assert said == EXPECTED
    assert count > 800


def test_nothing_is_said_of_analytical_queries() -> None:
    said = {name: messages(query, corpus.SCHEMA) for name, query in corpus.QUERIES.items()}
    assert {name: found for name, found in said.items() if found} == {}


@pytest.mark.proof
def test_nothing_is_said_of_random_queries() -> None:
    rng = random.Random(15)
    for _ in range(400):
        query, _ = random_queries.Queries(rng).query()
        assert messages(query, random_queries.SCHEMA) == [], query


def test_a_function_that_the_project_declares_is_no_mistake() -> None:
    query = "SELECT fiscal_year(order_date) AS y FROM orders"
    assert messages(query, SCHEMA) == ["Spark has no function 'fiscal_year'"]
    for given in ({"functions": ["Fiscal_Year"]}, {"scalar_functions": ["fiscal_year"]}):
        assert messages(query, SCHEMA, **given) == []


def test_what_is_opaque_is_not_judged_by_its_groups() -> None:
    query = "SELECT id, my_agg(qty) AS r FROM orders GROUP BY status"
    assert messages(query, SCHEMA, functions=["my_agg"]) == []


def test_all_columns_that_do_not_exist_are_told_at_once() -> None:
    query = "SELECT nope, o.id, never FROM orders AS o WHERE nowhere > 1"
    with pytest.raises(SemanticError) as caught:
        analyze(query, SCHEMA)
    words = [getattr(one, "word", None) for one in caught.value.mistakes]
    assert words == ["nowhere", "nope", "never"]
