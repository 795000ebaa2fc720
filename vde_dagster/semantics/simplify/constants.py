"""Columns that a condition fixes: the literal in their place, and groupings without them."""

from __future__ import annotations

from sqlglot import exp

from vde_dagster.semantics.algebra import Derived, Group, Node, SetOperation, Terms
from vde_dagster.semantics.normalise import arithmetic, combine, compare
from vde_dagster.semantics.rewrite import rewrite
from vde_dagster.semantics.simplify.filters import completed
from vde_dagster.semantics.simplify.parts import Parts
from vde_dagster.semantics.simplify.values import is_constant, value_type


def put_constants(parts: Parts) -> None:
    """Replace fixed columns in what is made of a group's rows, from the inside out."""
    tails = {source.group: source for source in parts.derived() if source.op != "left"}
    tops = {rel.group: rel for rel in parts.rels}
    for group in parts.groups:
        if group in parts.shared:
            continue
        known = _fixed(group, parts)
        rule = _Constants(known, parts.terms)
        if known:
            asked = [c if rule.fixes(c) else rule.put(c) for c in dict.fromkeys(group.conditions)]
            if asked != group.conditions:
                group.conditions = completed(asked, group, parts)
        source, rel = tails.get(group), tops.get(group)
        if known and rel is not None:
            rel.outputs = [o.as_node(rule.put(o.node)) for o in rel.outputs]
        if source is not None and source not in parts.frozen:
            if known:
                source.columns = [rule.put(node) for node in source.columns]
                source.args = tuple(rule.put(node) for node in source.args)
                source.keys = tuple(rule.put(node) for node in source.keys)
            _drop_constant_keys(source, parts.terms)


def _fixed(group: Group, parts: Parts) -> dict[Node, Node]:
    """The columns that have one value in all rows of a group, and that value."""
    known: dict[Node, Node] = {}
    for condition in group.conditions:
        if condition.tag == "eq":
            for one, two in (condition.parts, condition.parts[::-1]):
                if one.tag == "ref" and is_constant(two) and _one_type(one, two):
                    known.setdefault(one, two)
    for source in group.sources:
        if isinstance(source, Derived) and source not in parts.frozen and _keeps_values(source):
            for i, node in enumerate(source.columns):
                if is_constant(node):
                    known[parts.terms.make("ref", source, i)] = node
        elif isinstance(source, SetOperation) and source not in parts.frozen and source.alike:
            for i, column in enumerate(zip(*(b.outputs for b in source.branches), strict=True)):
                if len(nodes := {o.node for o in column}) == 1 and is_constant(*nodes):
                    known.update((parts.terms.make("ref", source, i), node) for node in nodes)
    return known


def _one_type(column: Node, literal: Node) -> bool:
    """Whether a column equal to the literal has its value, and its type."""
    kind = value_type(column)
    return kind in (exp.DType.INT, exp.DType.TEXT) and kind == value_type(literal)


def _keeps_values(source: Derived) -> bool:
    if source.op == "agg":
        return len(source.keys) == 1 and bool(source.keys[0].parts)
    return source.op in ("limit", "distinct on")


def _drop_constant_keys(source: Derived, terms: Terms) -> None:
    """Keys that are literals tell no groups apart; one stays, as without keys no rows give one."""
    if source.op != "agg" or len(source.keys) != 1:
        return
    keys = list(source.keys[0].parts)
    others = [key for key in keys if not is_constant(key)]
    if keys and len(others) < len(keys):
        one = terms.make("lit", "n", "0")
        source.keys = (terms.unordered("keys", others or [one]),)


class _Constants:
    """Replaces fixed columns, and computes what has become a constant.

    A window is computed over rows of which some may not be of this group any more: what stands
    in it is left alone.
    """

    def __init__(self, known: dict[Node, Node], terms: Terms) -> None:
        self._known = known
        self._terms = terms
        self._memo: dict[Node, Node] = {}

    def fixes(self, condition: Node) -> bool:
        """Whether this is a condition that fixes a column."""
        if condition.tag != "eq":
            return False
        one, two = condition.parts
        return self._known.get(one) is two or self._known.get(two) is one

    def put(self, node: Node) -> Node:
        """The expression with literals for columns."""
        return rewrite(node, self._rule, self._terms, self._memo)

    def _rule(self, node: Node) -> Node | None:
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
            return combine(self._terms, node.tag, parts)
        if node.tag in ("add", "sub", "mul"):
            return arithmetic(self._terms, node.tag, *parts)
        return compare(self._terms, node.tag, *parts)
