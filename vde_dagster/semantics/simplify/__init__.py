"""Rewrites of queries before hashing. A rewrite never changes a query's rows, on any data.

Lineage, keys and types come from the original query; only the hash uses the rewritten form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vde_dagster.semantics.algebra.nodes import Rel, Terms
from vde_dagster.semantics.simplify.empty_relations import drop_empty
from vde_dagster.semantics.simplify.existence import (
    ask_before_grouping,
    joins_as_exists,
    tests_as_exists,
)
from vde_dagster.semantics.simplify.expressions import simplify_expressions
from vde_dagster.semantics.simplify.filters import move_filters, put_constants, use_presence
from vde_dagster.semantics.simplify.joins import merge_readings, strengthen_joins, weaken_full_joins
from vde_dagster.semantics.simplify.nested_queries import (
    ask_without_limits,
    drop_groupings,
    drop_groupings_of_sets,
    flatten_set_operations,
    keep_failing_sorts,
    merge_limits,
)
from vde_dagster.semantics.simplify.parts import Parts
from vde_dagster.semantics.simplify.totals import merge_totals

Rule = Callable[[Parts], None]


def _replace_joins(parts: Parts) -> None:
    """Replace joins that only select rows by EXISTS."""
    drop_groupings_of_sets(joins_as_exists(parts), parts)


RULES: tuple[Rule, ...] = (
    # Before EXISTS loses its LIMIT: one of LIMIT 0 has no rows, whatever its query.
    partial(drop_empty, only_written=True),
    # Before groupings are dissolved: an EXISTS over a LIMIT hides its grouping from them.
    ask_without_limits,
    # Before all rules that read conditions: they know one spelling of each condition.
    simplify_expressions,
    # Before outer joins are dissolved: a FULL JOIN becomes a LEFT JOIN, and that an inner join.
    weaken_full_joins,
    # After FULL JOINs are gone: it dissolves the LEFT and RIGHT joins that they become.
    strengthen_joins,
    # Before groupings are dissolved: a DISTINCT subquery proves that a match is one row.
    tests_as_exists,
    # Before set operations: DISTINCT below a UNION goes, and its query is a plain operand.
    drop_groupings,
    # After groupings: an operand that a grouping wrapped is a set operation by now.
    flatten_set_operations,
    # Before conditions move: a table that is read twice has its conditions in two places.
    merge_readings,
    # Any place would do; after groupings that change nothing are gone, there is less to merge.
    merge_totals,
    # After readings are merged, and before FALSE is looked for: it completes all conditions.
    move_filters,
    # Any place would do; an EXISTS that moved in is then looked at by the rules below.
    ask_before_grouping,
    # After groupings are dissolved: a join to a DISTINCT subquery is one to its table by then.
    _replace_joins,
    # Any place would do; after conditions moved, they fix columns in more groups.
    put_constants,
    # Any place would do; after constants are put, fewer conditions are looked at.
    use_presence,
    # After all rules above: they make further conditions FALSE.
    partial(drop_empty, only_written=False),
    # After expressions are simple: sort keys that are constants go.
    merge_limits,
    # Any place would do; last, it looks at the sort keys that remain.
    keep_failing_sorts,
)
"""The rules in the order in which they run.

`vde_dagster_tests/semantics/test_rule_order.py` swaps neighbors and runs rules last; it lists the
equal queries that would get different hashes in another order.
"""


def simplify(rel: Rel, terms: Terms) -> None:
    """Rewrite a bound query, in place, to the form that is hashed."""
    parts = Parts.collect(rel, terms)
    for rule in RULES:
        rule(parts)
