"""Aggregate functions: FILTER as CASE, DISTINCT that changes nothing, COUNT of what is never NULL.

(Rules: Spark's `EliminateAggregateFilter` and `EliminateDistinct`.)
"""

from __future__ import annotations

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.normalise import boolean
from vde_dagster.semantics.simplify.choices import choose
from vde_dagster.semantics.simplify.facts import Facts, is_null
from vde_dagster.semantics.simplify.truth import true_where

_SAME_FOR_DISTINCT = frozenset({"max", "min", "bool_and", "bool_or", "bit_and", "bit_or"}) | {
    "collect_set"
}
_WITHOUT_NULLS = _SAME_FOR_DISTINCT | {
    *("sum", "avg", "count", "count_if", "collect_list", "bit_xor", "approx_count_distinct"),
    *("stddev", "stddev_pop", "variance", "var_pop", "skewness", "kurtosis", "median"),
    *("try_sum", "try_avg"),
}
"""Functions of one argument that take no notice of rows where it is NULL."""


def total(body: Node, facts: Facts) -> Node:
    """What an aggregate function computes, in the form that all ways to write it share.

    Args:
        body: The function with its arguments and FILTER, or what counts rows.
        facts: What is known of the rows.
    """
    if body.tag == "Filter":
        return _filtered(total(body.parts[0], facts), true_where(body.parts[-1], facts), facts)
    if body.tag != "call" or len(body.parts) != 2 or body.parts[1].__class__ is not Node:
        return body
    name, of = body.parts
    if of.tag == "Distinct" and name in _SAME_FOR_DISTINCT and of.parts[:2] == ("expressions", 1):
        return facts.terms.make("call", name, of.parts[2])
    if name == "count_if":
        return _counted(true_where(of, facts), facts)
    return _count(of, body, facts) if name == "count" else body


def _filtered(body: Node, condition: Node, facts: Facts) -> Node:
    terms = facts.terms
    if condition.tag == "bool" and condition.parts[0]:
        return body
    if body.tag == "count rows":
        return _counted(condition, facts)
    if body.tag != "call" or body.parts[0] not in _WITHOUT_NULLS or len(body.parts) != 2:
        return terms.make("Filter", body, condition)
    name, of = body.parts
    if of.tag == "Distinct":
        if of.parts[:2] != ("expressions", 1):
            return terms.make("Filter", body, condition)
        inner = choose(terms.make("case", condition, of.parts[2]), facts)
        return terms.make("call", name, terms.make("Distinct", "expressions", 1, inner))
    return total(terms.make("call", name, choose(terms.make("case", condition, of), facts)), facts)


def _counted(condition: Node, facts: Facts) -> Node:
    if condition.tag == "bool":
        if condition.parts[0]:
            return facts.terms.make("count rows")
        condition = boolean(facts.terms, False)
    return facts.terms.make("call", "count_if", condition)


def _count(of: Node, body: Node, facts: Facts) -> Node:
    """COUNT of an expression: of all rows, of those of a condition, or of none."""
    if of.tag == "Distinct":
        return body
    if is_null(of):
        return _counted(boolean(facts.terms, False), facts)
    if facts.never_null(of) and facts.never_fails(of):
        return facts.terms.make("count rows")
    if of.tag == "case" and len(of.parts) == 2:
        condition, value = of.parts
        if facts.never_null(value) and facts.never_fails(value):
            return _counted(condition, facts)
    return body
