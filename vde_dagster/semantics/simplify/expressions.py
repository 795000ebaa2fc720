"""Rewriting of expressions to canonical forms, inner expressions first.

A rule never changes the value or type of an expression on any data, and drops only parts that
cannot raise an error. Each rule was verified on Spark with values at the limits of types, see
`vde_dagster_tests/fixtures/semantics/spark_optimizer.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from vde_dagster.semantics.algebra.nodes import AGGREGATES, COMPARED, Group, Node, Terms, conjuncts
from vde_dagster.semantics.simplify import booleans, choices, scalars, spellings
from vde_dagster.semantics.simplify.facts import Facts
from vde_dagster.semantics.simplify.parts import QueryParts
from vde_dagster.semantics.simplify.totals import simplify_aggregate

Rule = Callable[[Node, Facts], Node]

_OF_TAG: dict[str, Rule] = {
    **dict.fromkeys(COMPARED, booleans.simplify_comparison),
    **dict.fromkeys(("add", "sub", "mul"), scalars.simplify_arithmetic),
    **dict.fromkeys(("and", "or"), booleans.simplify_and_or),
    "not": booleans.push_down_not,
    "not each": scalars.negate_each_like,
    "Is": booleans.simplify_is_null,
    "in": booleans.in_list_as_or,
    "case": choices.simplify_case,
    "cast": scalars.simplify_cast,
    "Div": scalars.simplify_division,
    "field": scalars.pick_field,
    "element": scalars.pick_element,
    "neg": scalars.simplify_negation,
    "Like": scalars.simplify_like,
}
_OF_CALL: dict[str, Rule] = {
    **dict.fromkeys(("nvl2", "nullif", "nullifzero", "zeroifnull"), choices.expand_null_functions),
    **dict.fromkeys(("isnull", "isnotnull"), choices.expand_null_functions),
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim"), scalars.drop_repeated_call),
    **dict.fromkeys(("extract", "date_part"), scalars.extract_as_function),
    "coalesce": choices.simplify_coalesce,
    "date_sub": scalars.as_date_add,
    "decode": choices.decode_as_case,
    **dict.fromkeys(("to_date", "to_timestamp"), scalars.to_date_as_cast),
    "concat": scalars.simplify_concat,
    "positive": scalars.simplify_negation,
}
_SPELLED: dict[str, Rule] = {
    **dict.fromkeys(COMPARED, spellings.shorten_compared_literal),
    **dict.fromkeys(("add", "sub"), spellings.as_add_months),
    "in": spellings.in_list_as_ints,
    "Div": spellings.drop_double_casts,
    **dict.fromkeys(("and", "or"), spellings.between_as_in),
}
"""Rules that replace synonyms, by tag. A rule runs only if the `_OF_TAG` rule changes nothing."""
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

    `present` are expressions that are not NULL because of a condition.
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
        while (ranged := spellings.between_as_in(whole, self._facts)) is not whole:
            whole = ranged
        return conjuncts(booleans.simplify_condition(whole, self._facts))

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
                booleans.simplify_condition(part, self._facts)
                if i % 2 == 0 and i < conditions
                else part
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
                made = scalars.as_date_add(node, self._facts)
            if made is node and node.tag in _SPELLED:
                made = _SPELLED[node.tag](node, self._facts)
            if made is node and node.tag == "call":
                made = choices.drop_default_arguments(node, self._facts)
            if made is node and node.tag in _OPERATORS:
                made = choices.push_into_case(node, self._facts)
            if made is node:
                break
            node = made
        return node
