"""Rules for filters: add implied conditions, push down conditions, use their consequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from vde_dagster.semantics.algebra.nodes import (
    Derived,
    Group,
    Leaf,
    Node,
    SetOperation,
    Terms,
    is_false,
    null_test_operand,
    rewrite,
    walk,
)
from vde_dagster.semantics.simplify.expressions import Simplifier
from vde_dagster.semantics.simplify.facts import STRICT, is_constant, value_type
from vde_dagster.semantics.simplify.implied_conditions import (
    add_implied_conditions,
    compared_columns,
    replace_columns,
)
from vde_dagster.semantics.simplify.parts import QueryParts


def move_filters(parts: QueryParts) -> None:
    """Add the conditions that follow from WHERE and ON, and push conditions into subqueries."""
    for group in parts.groups:
        for source in group.sources:
            if _accepts_filters(source, parts):
                group.conditions += _group_conditions(source, parts)
        for condition in list(group.conditions):
            if condition.tag == "exists":
                _pull_up_conditions(condition.parts[0].group, group, parts)
        group.conditions = _completed(group.conditions, group, parts)
    given: set[Group] = set()
    for group in reversed(parts.groups):
        if group in given:
            group.conditions = _completed(group.conditions, group, parts)
        for condition in list(group.conditions):
            asked = condition.parts[0] if condition.tag == "not" else condition
            if asked.tag == "exists" and asked.parts[0].group not in parts.shared:
                _complete_inside(asked.parts[0].group, group.conditions, parts)
        for source in group.sources:
            if source in parts.frozen:
                continue
            if isinstance(source, Derived) and source.op == "left":
                # What is asked of outer columns holds of those that they are compared with.
                given_around = [c for c in group.conditions if not _names(c, source)]
                _complete_inside(source.group, given_around, parts)
            elif _accepts_filters(source, parts):
                given |= _push_down_conditions(source, group, parts)


def _completed(conditions: list[Node], group: Group, parts: QueryParts) -> list[Node]:
    found = add_implied_conditions(conditions, parts.terms)
    # FALSE would hide an error that a part of the group may raise.
    return found if not _empty(found) or _may_be_dropped(group) else conditions


def _complete_inside(inner: Group, given: list[Node], parts: QueryParts) -> None:
    known = [c for c in given if compared_columns(c) is not None]
    found = add_implied_conditions(inner.conditions, parts.terms, known)
    if not _empty(found) or _may_be_dropped(inner):
        inner.conditions = found


def _pull_up_conditions(inner: Group, around: Group, parts: QueryParts) -> None:
    """Move conditions that name only outer columns from an EXISTS to the outer query."""
    if inner in parts.shared:
        return
    of_others = [
        condition
        for condition in inner.conditions
        if (columns := compared_columns(condition))
        and not any(c.parts[0] in inner.sources for c in columns)
    ]
    around.conditions += of_others
    inner.conditions = [c for c in inner.conditions if c not in of_others]


def _empty(conditions: list[Node]) -> bool:
    return len(conditions) == 1 and is_false(conditions[0])


def _may_be_dropped(group: Group) -> bool:
    # No part of the group may raise an error.
    return all(isinstance(s, Leaf) for s in group.sources) and all(
        compared_columns(c) is not None for c in group.conditions
    )


def _names(condition: Node, source: Any) -> bool:
    columns = compared_columns(condition)
    return columns is None or any(c.parts[0] is source for c in columns)


def _accepts_filters(source: Any, parts: QueryParts) -> bool:
    if parts.is_grouping(source):
        return bool(source.keys[0].parts)
    if isinstance(source, SetOperation) and source not in parts.frozen:
        own = all(branch.group not in parts.shared for branch in source.branches)
        return source.op == "union" and source.has_common_types and own
    return False


def _group_conditions(source: Any, parts: QueryParts) -> list[Node]:
    if not isinstance(source, Derived):
        return []
    terms = parts.terms
    outside = {key: terms.make("ref", source, source.export(key)) for key in source.keys[0].parts}
    found: list[Node] = []
    for condition in source.group.conditions:
        columns = compared_columns(condition)
        if columns and columns <= outside.keys():
            found.append(replace_columns(condition, outside, terms))
    return found


def _push_down_conditions(source: Any, group: Group, parts: QueryParts) -> set[Group]:
    terms = parts.terms
    given: set[Group] = set()
    kept: list[Node] = []
    for condition in group.conditions:
        columns = compared_columns(condition)
        if not columns or any(c.parts[0] is not source for c in columns):
            kept.append(condition)
        elif isinstance(source, SetOperation):
            for branch in source.branches:
                inner = {c: branch.outputs[c.parts[1]].node for c in columns}
                branch.group.conditions.append(replace_columns(condition, inner, terms))
                given.add(branch.group)
        else:
            inner = {c: source.columns[c.parts[1]] for c in columns}
            if not set(inner.values()) <= set(source.keys[0].parts):
                kept.append(condition)
                continue
            source.group.conditions.append(replace_columns(condition, inner, terms))
            given.add(source.group)
    group.conditions = kept
    return given


def replace_constant_columns(parts: QueryParts) -> None:
    """Replace columns with literals where a condition such as `x = 1` makes them constant."""
    above = _Above(parts)
    for group in parts.groups:
        if group in parts.shared:
            continue
        known = _fixed(group, parts)
        rule = _Constants(known, parts.terms)
        if known:
            asked = [c if rule.fixes(c) else rule.put(c) for c in dict.fromkeys(group.conditions)]
            if asked != group.conditions:
                group.conditions = _completed(asked, group, parts)
        source = above.derived_sources.get(group)
        if known:
            # A grouping set leaves out keys whatever their value is: its rows have NULL there.
            above.put(group, rule.put, most_keys=1)
        if source is not None and source not in parts.frozen:
            _drop_constant_keys(source, parts.terms)


def _fixed(group: Group, parts: QueryParts) -> dict[Node, Node]:
    known: dict[Node, Node] = {}
    for condition in group.conditions:
        if condition.tag == "eq":
            for one, two in (condition.parts, condition.parts[::-1]):
                kind = value_type(one) if one.tag == "ref" and is_constant(two) else None
                if kind in (exp.DType.INT, exp.DType.TEXT) and kind == value_type(two):
                    known.setdefault(one, two)
    for source in group.sources:
        if isinstance(source, Derived) and source not in parts.frozen and _keeps_values(source):
            for i, node in enumerate(source.columns):
                if is_constant(node):
                    known[parts.terms.make("ref", source, i)] = node
        elif (
            isinstance(source, SetOperation)
            and source not in parts.frozen
            and source.has_common_types
        ):
            for i, column in enumerate(zip(*(b.outputs for b in source.branches), strict=True)):
                if len(nodes := {o.node for o in column}) == 1 and is_constant(*nodes):
                    known.update((parts.terms.make("ref", source, i), node) for node in nodes)
    return known


def _keeps_values(source: Derived) -> bool:
    if source.op == "agg":
        return len(source.keys) == 1 and bool(source.keys[0].parts)
    return source.op == "limit"


def _drop_constant_keys(source: Derived, terms: Terms) -> None:
    if source.op != "agg" or len(source.keys) != 1:
        return
    keys = list(source.keys[0].parts)
    others = [key for key in keys if not is_constant(key)]
    if keys and len(others) < len(keys):
        # A grouping without keys would return a row even for an empty input.
        one = terms.number(0)
        source.keys = (terms.unordered("keys", others or [one]),)


class _Above:
    def __init__(self, parts: QueryParts) -> None:
        self.derived_sources = {
            source.group: source for source in parts.derived_sources() if source.op != "left"
        }
        self._rels = {rel.group: rel for rel in parts.rels}
        self._frozen = parts.frozen

    def put(self, group: Group, change: Callable[[Node], Node], most_keys: int) -> None:
        source, rel = self.derived_sources.get(group), self._rels.get(group)
        if rel is not None:
            rel.outputs = [o.as_node(change(o.node)) for o in rel.outputs]
        if source is not None and source not in self._frozen and len(source.keys) <= most_keys:
            source.columns = list(map(change, source.columns))
            source.args = tuple(map(change, source.args))
            source.keys = tuple(map(change, source.keys))


class _Constants:
    def __init__(self, known: dict[Node, Node], terms: Terms) -> None:
        self._known = known
        self._terms = terms
        self._memo: dict[Node, Node] = {}

    def fixes(self, condition: Node) -> bool:
        """Return whether a condition such as ``x = 1`` makes ``x`` a known constant."""
        if condition.tag != "eq":
            return False
        one, two = condition.parts
        return self._known.get(one) is two or self._known.get(two) is one

    def put(self, node: Node) -> Node:
        return rewrite(node, self._rule, self._terms, self._memo)

    def _rule(self, node: Node) -> Node | None:
        # A window may read rows that are not in this group.
        if node.tag == "window":
            return node
        found = self._known.get(node)
        if found is not None:
            return found
        if node.tag not in ("add", "sub", "mul", "eq", "neq", "lt", "le", "nseq", "and", "or"):
            return None
        parts = [self.put(p) for p in node.parts]
        if parts == list(node.parts):
            return node
        if node.tag in ("and", "or"):
            return self._terms.combine(node.tag, parts)
        if node.tag in ("add", "sub", "mul"):
            return self._terms.arithmetic(node.tag, *parts)
        return self._terms.compare(node.tag, *parts)


_ASKING = frozenset({"Is", "nseq", "case"})
_ASKING_CALLS = frozenset({"coalesce", "count"})


def simplify_non_null_expressions(parts: QueryParts) -> None:
    """Simplify COALESCE, IS NULL and similar where a condition excludes NULL."""
    asking = set(
        walk(
            node
            for node in parts.terms.nodes()
            if node.tag in _ASKING or (node.tag == "call" and node.parts[0] in _ASKING_CALLS)
        )
    )
    if not asking:
        return
    above = _Above(parts)
    for group in parts.groups:
        present = {
            node for condition in group.conditions for node in _non_null_expressions(condition)
        }
        if group in parts.shared or asking.isdisjoint(present):
            continue
        simple = Simplifier(parts.terms, present)
        above.put(group, simple.simplify, most_keys=1)


def _non_null_expressions(condition: Node) -> set[Node]:
    if condition.tag == "or":
        return set.intersection(*map(_non_null_expressions, condition.parts))
    if condition.tag == "not":
        tested = null_test_operand(condition.parts[0])
        return {tested} if tested is not None else _strict_parts(condition.parts[0])
    return _strict_parts(condition)


def _strict_parts(node: Node) -> set[Node]:
    """Return an expression and its parts that are not NULL if the expression is not NULL."""
    if node.tag == "ref":
        return {node}
    if node.tag not in STRICT:
        return set()
    return {node}.union(*map(_strict_parts, node.parts))
