"""Rewriting of expressions to canonical forms, inner expressions first.

A rule never changes the value or type of an expression on any data, and drops only parts that
cannot raise an error. Each rule was verified on Spark with values at the limits of types, see
`vde_dagster_tests/fixtures/semantics/spark_optimizer.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from vde_dagster.semantics.algebra.nodes import AGGREGATES, COMPARED, Group, Node, Terms, conjuncts
from vde_dagster.semantics.simplify.booleans import (
    in_list_as_or,
    push_down_not,
    simplify_and_or,
    simplify_comparison,
    simplify_condition,
    simplify_is_null,
)
from vde_dagster.semantics.simplify.choices import (
    decode_as_case,
    drop_default_arguments,
    expand_null_functions,
    push_into_case,
    simplify_case,
    simplify_coalesce,
)
from vde_dagster.semantics.simplify.facts import Facts
from vde_dagster.semantics.simplify.parts import QueryParts
from vde_dagster.semantics.simplify.scalars import (
    as_date_add,
    drop_repeated_call,
    extract_as_function,
    negate_each_like,
    pick_element,
    pick_field,
    simplify_arithmetic,
    simplify_cast,
    simplify_concat,
    simplify_division,
    simplify_like,
    simplify_negation,
    to_date_as_cast,
)
from vde_dagster.semantics.simplify.spellings import (
    as_add_months,
    between_as_in,
    drop_double_casts,
    in_list_as_ints,
    shorten_compared_literal,
)
from vde_dagster.semantics.simplify.totals import simplify_aggregate

Rule = Callable[[Node, Facts], Node]

_OF_TAG: dict[str, Rule] = {
    **dict.fromkeys(COMPARED, simplify_comparison),
    **dict.fromkeys(("add", "sub", "mul"), simplify_arithmetic),
    **dict.fromkeys(("and", "or"), simplify_and_or),
    "not": push_down_not,
    "not each": negate_each_like,
    "Is": simplify_is_null,
    "in": in_list_as_or,
    "case": simplify_case,
    "cast": simplify_cast,
    "Div": simplify_division,
    "field": pick_field,
    "element": pick_element,
    "neg": simplify_negation,
    "Like": simplify_like,
}
_OF_CALL: dict[str, Rule] = {
    **dict.fromkeys(("nvl2", "nullif", "nullifzero", "zeroifnull"), expand_null_functions),
    **dict.fromkeys(("isnull", "isnotnull"), expand_null_functions),
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim"), drop_repeated_call),
    **dict.fromkeys(("extract", "date_part"), extract_as_function),
    "coalesce": simplify_coalesce,
    "date_sub": as_date_add,
    "decode": decode_as_case,
    **dict.fromkeys(("to_date", "to_timestamp"), to_date_as_cast),
    "concat": simplify_concat,
    "positive": simplify_negation,
}
_SPELLED: dict[str, Rule] = {
    **dict.fromkeys(COMPARED, shorten_compared_literal),
    **dict.fromkeys(("add", "sub"), as_add_months),
    "in": in_list_as_ints,
    "Div": drop_double_casts,
    **dict.fromkeys(("and", "or"), between_as_in),
}
"""Rules for synonyms, applied if the first rule of a tag changes nothing."""
_OPERATORS = frozenset({*COMPARED, "add", "sub", "mul"})
_SIMPLE = frozenset({"ref", "lit", "bool", "Null"})
_MOST_STEPS = 8


def simplify_expressions(parts: QueryParts) -> None:
    simple = Simplifier(parts.terms)
    parts.replace_each(simple.simplify)
    for group in [*parts.groups, *parts.windowed]:
        group.conditions = simple.conditions(group)


class Simplifier:
    """Simplifies the expressions of one query.

    `present` are expressions that a condition excludes from being NULL.
    """

    def __init__(self, terms: Terms, present: Set[Node] = frozenset()) -> None:
        self._facts = Facts(terms, present)
        self._present = bool(present)
        self._terms = terms
        self._memo: dict[Node, Node] = {}

    def conditions(self, group: Group) -> list[Node]:
        made = [self.simplify(c) for c in group.conditions]
        if not made:
            return made
        whole = made[0] if len(made) == 1 else self._terms.combine("and", made)
        while (ranged := between_as_in(whole, self._facts)) is not whole:
            whole = ranged
        return conjuncts(simplify_condition(whole, self._facts))

    def simplify(self, node: Node) -> Node:
        if node.tag in _SIMPLE:
            return node
        done = self._memo.get(node)
        if done is None:
            done = self._memo[node] = self._simple(node)
            self._memo.setdefault(done, done)
        return done

    def _simple(self, node: Node) -> Node:
        if node.tag == "window" and self._present:
            return node  # A window is computed over rows that a later condition may leave out.
        parts = tuple([self.simplify(p) if p.__class__ is Node else p for p in node.parts])
        if node.tag == "case":
            conditions = len(parts) - len(parts) % 2
            parts = tuple(
                simplify_condition(part, self._facts) if i % 2 == 0 and i < conditions else part
                for i, part in enumerate(parts)
            )
        elif node.tag in AGGREGATES:
            parts = (simplify_aggregate(parts[0], self._facts),)
        elif node.tag == "window":
            parts = (*parts[:2], simplify_aggregate(parts[2], self._facts), *parts[3:])
        if parts != node.parts:
            node = self._terms.make(node.tag, *parts)
        for _ in range(_MOST_STEPS):
            rule = _OF_CALL.get(node.parts[0]) if node.tag == "call" else _OF_TAG.get(node.tag)
            made = rule(node, self._facts) if rule is not None else node
            if made is node and node.tag in ("add", "sub"):
                made = as_date_add(node, self._facts)
            if made is node and node.tag in _SPELLED:
                made = _SPELLED[node.tag](node, self._facts)
            if made is node and node.tag == "call":
                made = drop_default_arguments(node, self._facts)
            if made is node and node.tag in _OPERATORS:
                made = push_into_case(node, self._facts)
            if made is node:
                break
            node = made
        return node
