"""Rewrites of queries before hashing. A rewrite never changes a query's rows, on any data.

Lineage, keys and types come from the original query; only the hash uses the rewritten form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vde_dagster.semantics.algebra.nodes import Rel, Terms
from vde_dagster.semantics.simplify import existence, filters, joins, nested_queries
from vde_dagster.semantics.simplify.empty_relations import remove_empty_relations
from vde_dagster.semantics.simplify.expressions import simplify_expressions
from vde_dagster.semantics.simplify.parts import QueryParts
from vde_dagster.semantics.simplify.totals import merge_groupings

Rule = Callable[[QueryParts], None]


def _replace_joins(parts: QueryParts) -> None:
    nested_queries.drop_groupings_of_sets(existence.joins_as_exists(parts), parts)


RULES: tuple[Rule, ...] = (
    # Before EXISTS loses its LIMIT: one of LIMIT 0 has no rows, whatever its query.
    partial(remove_empty_relations, only_written=True),
    # Before groupings are dissolved: an EXISTS over a LIMIT hides its grouping from them.
    nested_queries.remove_limits_in_exists,
    # Before all rules that read conditions: they know one spelling of each condition.
    simplify_expressions,
    # Before outer joins are dissolved: a FULL JOIN becomes a LEFT JOIN, and that an inner join.
    joins.reduce_full_joins,
    # After FULL JOINs are gone: it dissolves the LEFT and RIGHT joins that they become.
    joins.outer_joins_as_inner,
    # Before groupings are dissolved: a DISTINCT subquery proves that a match is one row.
    existence.outer_joins_as_exists,
    # Before set operations: DISTINCT below a UNION goes, and its query is a plain operand.
    nested_queries.drop_groupings,
    # After groupings: an operand that a grouping wrapped is a set operation by now.
    nested_queries.flatten_set_operations,
    # Before conditions move: a table that is read twice has its conditions in two places.
    joins.merge_self_joins,
    # Any place would do; after groupings that change nothing are gone, there is less to merge.
    merge_groupings,
    # After readings are merged, and before FALSE is looked for: it completes all conditions.
    filters.move_filters,
    # Any place would do; an EXISTS that moved in is then looked at by the rules below.
    existence.push_exists_into_grouping,
    # After groupings are dissolved: a join to a DISTINCT subquery is one to its table by then.
    _replace_joins,
    # Any place would do; after conditions moved, they fix columns in more groups.
    filters.replace_constant_columns,
    # Any place would do; after constants are put, fewer conditions are looked at.
    filters.simplify_non_null_expressions,
    # After all rules above: they make further conditions FALSE.
    partial(remove_empty_relations, only_written=False),
    # After expressions are simple: sort keys that are constants go.
    nested_queries.merge_limits,
    # Any place would do; last, it looks at the sort keys that remain.
    nested_queries.keep_failing_sorts,
)
"""The rules in the order in which they run.

`vde_dagster_tests/semantics/test_rule_order.py` swaps neighbors and runs rules last; it lists the
equal queries that would get different hashes in another order.
"""


def simplify(rel: Rel, terms: Terms) -> None:
    parts = QueryParts.collect(rel, terms)
    for rule in RULES:
        rule(parts)
