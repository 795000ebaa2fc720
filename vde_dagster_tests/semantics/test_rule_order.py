"""The order of `simplify.RULES`: equal queries that get other versions if it is changed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from vde_dagster.semantics import simplify
from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.session import Session
from vde_dagster_tests.semantics import optimizer_pairs
from vde_dagster_tests.semantics.test_cases import PARENTS, SCHEMA

ORDERS, PAIRS = (SCHEMA, PARENTS), (optimizer_pairs.SCHEMA, {})
"""Tables of the fixtures `same.yaml` and `spark_optimizer.yaml`, with the versions of some."""
JOINED = "SELECT o.id, c.name FROM orders o {} JOIN customers c ON o.customer_id = c.id "
UNITED = "SELECT id FROM orders UNION {}SELECT id FROM customers UNION SELECT id FROM products{}"

EXCHANGED: dict[tuple[str, str], tuple[str, str]] = {
    ("reduce_full_joins", "outer_joins_as_inner"): (
        JOINED.format("FULL") + "WHERE c.score > o.qty",
        JOINED.format("") + "WHERE c.score > o.qty",
    ),
    ("outer_joins_as_exists", "drop_groupings"): (
        "SELECT o.id FROM orders o LEFT JOIN (SELECT DISTINCT id, TRUE AS there FROM customers) c "
        "ON o.customer_id = c.id WHERE c.there IS NOT NULL OR o.qty > 1",
        "SELECT id FROM orders WHERE customer_id IN (SELECT id FROM customers) OR qty > 1",
    ),
    ("drop_groupings", "flatten_set_operations"): (UNITED.format("(", ")"), UNITED.format("", "")),
}
"""Neighbors, with two equal queries that their exchange tells apart."""

MOVED_LAST: dict[str, tuple[Any, str, str]] = {
    "remove_empty_relations": (
        ORDERS,
        "SELECT id FROM orders WHERE qty > 1 OR EXISTS (SELECT 1 FROM customers LIMIT 0)",
        "SELECT id FROM orders WHERE qty > 1",
    ),
    "remove_limits_in_exists": (
        PAIRS,
        "SELECT id FROM t WHERE EXISTS (SELECT i, count(*) FROM r WHERE r.b = t.b GROUP BY i "
        "LIMIT 1)",
        "SELECT id FROM t WHERE EXISTS (SELECT i, count(*) FROM r WHERE r.b = t.b GROUP BY i)",
    ),
    "simplify_expressions": (
        PAIRS,
        "SELECT id FROM t WHERE b AND NOT b",
        "SELECT id FROM t WHERE FALSE",
    ),
    "drop_groupings": (
        ORDERS,
        "SELECT DISTINCT o.status FROM orders o JOIN (SELECT DISTINCT id FROM customers) c "
        "ON o.customer_id = c.id",
        "SELECT DISTINCT o.status FROM orders o JOIN customers c ON o.customer_id = c.id",
    ),
    "merge_self_joins": (
        ORDERS,
        "SELECT label FROM dim d WHERE EXISTS (SELECT 1 FROM dim e JOIN orders o "
        "ON o.qty = e.rank WHERE e.k = d.k)",
        "SELECT label FROM dim d WHERE d.k IS NOT NULL AND EXISTS (SELECT 1 FROM orders o "
        "WHERE o.qty = d.rank)",
    ),
    "move_filters": (
        PAIRS,
        "SELECT id FROM t WHERE i > 3 AND i < 2",
        "SELECT id FROM t WHERE FALSE",
    ),
}
"""Rules, with two equal queries that are told apart if the rule runs last."""


def name_of(rule: simplify.Rule) -> str:
    """Return the name of a rule's function."""
    return rule.func.__name__ if isinstance(rule, partial) else rule.__name__


def have_one_version(tables: Any, one: str, other: str) -> bool:
    """Return whether two queries have one version of their rows and of their columns."""
    schema, parents = tables
    session = Session(has_zoned_timestamps=True)
    versions = [
        analyze(query, schema, parents=parents, session=session).version for query in (one, other)
    ]
    found = {(version.rows, *sorted(version.columns.values())) for version in versions}
    return len(found) == 1


NAMES = [name_of(rule) for rule in simplify.RULES]


@pytest.mark.parametrize("neighbors", EXCHANGED)
def test_exchanged_neighbors_tell_equal_queries_apart(
    neighbors: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = NAMES.index(neighbors[0])
    assert NAMES[first + 1] == neighbors[1]
    assert have_one_version(ORDERS, *EXCHANGED[neighbors])
    order = list(simplify.RULES)
    order[first : first + 2] = order[first + 1], order[first]
    monkeypatch.setattr(simplify, "RULES", tuple(order))
    assert not have_one_version(ORDERS, *EXCHANGED[neighbors])


@pytest.mark.parametrize("name", MOVED_LAST)
def test_a_rule_that_runs_last_tells_equal_queries_apart(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, one, other = MOVED_LAST[name]
    assert have_one_version(tables, one, other)
    place = NAMES.index(name)
    order = (*simplify.RULES[:place], *simplify.RULES[place + 1 :], simplify.RULES[place])
    monkeypatch.setattr(simplify, "RULES", order)
    assert not have_one_version(tables, one, other)
