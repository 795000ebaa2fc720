"""Rewriting of expressions to canonical forms, inner expressions first.

No rule changes the value or type of an expression on any data. Rules drop only parts that cannot
raise an error. Each rule was verified on Spark with values at the limits of types, see
`vde_dagster_tests/fixtures/semantics/spark_optimizer.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from vde_dagster.semantics.algebra.nodes import AGGREGATES, COMPARED, Group, Node, Terms, conjuncts
from vde_dagster.semantics.simplify.booleans import among, ask_null, decide, join, true_where, turn
from vde_dagster.semantics.simplify.choices import (
    choose,
    decoded,
    first_present,
    into_branches,
    spelled_out,
    without_defaults,
)
from vde_dagster.semantics.simplify.facts import Facts
from vde_dagster.semantics.simplify.parts import Parts
from vde_dagster.semantics.simplify.scalars import (
    calculate,
    convert,
    date_made,
    days_added,
    divide,
    field_taken,
    match,
    not_each,
    once,
    pick_element,
    pick_field,
    sign,
    string_together,
)
from vde_dagster.semantics.simplify.spellings import (
    compared_alike,
    listed_alike,
    months_added,
    quotient_alike,
    two_numbers,
)
from vde_dagster.semantics.simplify.totals import total

Rule = Callable[[Node, Facts], Node]

_OF_TAG: dict[str, Rule] = {
    **dict.fromkeys(COMPARED, decide),
    **dict.fromkeys(("add", "sub", "mul"), calculate),
    **dict.fromkeys(("and", "or"), join),
    "not": turn,
    "not each": not_each,
    "Is": ask_null,
    "in": among,
    "case": choose,
    "cast": convert,
    "Div": divide,
    "field": pick_field,
    "element": pick_element,
    "neg": sign,
    "Like": match,
}
_OF_CALL: dict[str, Rule] = {
    **dict.fromkeys(("nvl2", "nullif", "nullifzero", "zeroifnull"), spelled_out),
    **dict.fromkeys(("isnull", "isnotnull"), spelled_out),
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim"), once),
    **dict.fromkeys(("extract", "date_part"), field_taken),
    "coalesce": first_present,
    "date_sub": days_added,
    "decode": decoded,
    **dict.fromkeys(("to_date", "to_timestamp"), date_made),
    "concat": string_together,
    "positive": sign,
}
_SPELLED: dict[str, Rule] = {
    **dict.fromkeys(COMPARED, compared_alike),
    **dict.fromkeys(("add", "sub"), months_added),
    "in": listed_alike,
    "Div": quotient_alike,
    **dict.fromkeys(("and", "or"), two_numbers),
}
"""Rules for synonyms, applied if the first rule of a tag changes nothing."""
_OPERATORS = frozenset({*COMPARED, "add", "sub", "mul"})
_SIMPLE = frozenset({"ref", "lit", "bool", "Null"})
_MOST_STEPS = 8


def simplify_expressions(parts: Parts) -> None:
    """Replace every expression of a query by its canonical form."""
    simple = Simplifier(parts.terms)
    parts.change(simple.put)
    for group in [*parts.groups, *parts.windowed]:
        group.conditions = simple.conditions(group)


class Simplifier:
    """Applies the rules to the expressions of one query.

    `present` are expressions that are not NULL because of a condition.
    """

    def __init__(self, terms: Terms, present: Set[Node] = frozenset()) -> None:
        self._facts = Facts(terms, present)
        self._present = bool(present)
        self._terms = terms
        self._memo: dict[Node, Node] = {}

    def conditions(self, group: Group) -> list[Node]:
        """Return the canonical forms of the conditions on a group's rows."""
        made = [self.put(c) for c in group.conditions]
        if not made:
            return made
        whole = made[0] if len(made) == 1 else self._terms.combine("and", made)
        while (ranged := two_numbers(whole, self._facts)) is not whole:
            whole = ranged
        return conjuncts(true_where(whole, self._facts))

    def put(self, node: Node) -> Node:
        """Return the canonical form of an expression."""
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
        parts = tuple([self.put(p) if p.__class__ is Node else p for p in node.parts])
        if node.tag == "case":
            conditions = len(parts) - len(parts) % 2
            parts = tuple(
                true_where(part, self._facts) if i % 2 == 0 and i < conditions else part
                for i, part in enumerate(parts)
            )
        elif node.tag in AGGREGATES:
            parts = (total(parts[0], self._facts),)
        elif node.tag == "window":
            parts = (*parts[:2], total(parts[2], self._facts), *parts[3:])
        if parts != node.parts:
            node = self._terms.make(node.tag, *parts)
        for _ in range(_MOST_STEPS):
            rule = _OF_CALL.get(node.parts[0]) if node.tag == "call" else _OF_TAG.get(node.tag)
            made = rule(node, self._facts) if rule is not None else node
            if made is node and node.tag in ("add", "sub"):
                made = days_added(node, self._facts)
            if made is node and node.tag in _SPELLED:
                made = _SPELLED[node.tag](node, self._facts)
            if made is node and node.tag == "call":
                made = without_defaults(node, self._facts)
            if made is node and node.tag in _OPERATORS:
                made = into_branches(node, self._facts)
            if made is node:
                break
            node = made
        return node
