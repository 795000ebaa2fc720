"""Groupings that change nothing: DISTINCT over a key, or where repeated rows do not count, as below
EXISTS, DISTINCT, INTERSECT, EXCEPT, MIN and MAX.

Grouping makes 0.0 of -0.0, and pads what is CHAR. Who compares a key, or groups by it again, finds
the same with or without the grouping; who writes it as text, or divides by it, does not. (Spark's
own optimiser leaves out a DISTINCT below another one or below a minimum, and answers -0.0 then; in
other places it keeps it. More work is right where that is not known.)
"""

from __future__ import annotations

from vde_dagster.semantics.algebra.nodes import (
    AGGREGATES,
    Derived,
    Group,
    Node,
    SetOperation,
    Terms,
    plain_total,
)
from vde_dagster.semantics.algebra.uniqueness import group_keys
from vde_dagster.semantics.simplify.facts import DOUBLE, Facts, value_type
from vde_dagster.semantics.simplify.parts import Parts, Uses

OF_A_SET = frozenset({"min", "max", "bool_and", "bool_or", "bit_and", "bit_or"})
"""Aggregate functions to which it is the same how often a value occurs."""


def drop_groupings(parts: Parts) -> None:
    """Dissolve the groupings that change nothing, from the outside in; forget unused columns."""
    found = [source for source in parts.derived() if source.op == "agg"]
    if not found or (len(found) == len(parts.rels) == 1 and not _is_unique(found[0], parts)):
        return
    uses = Uses.of(parts.top)
    uses.drop_unused(parts.terms)
    sets = set(uses.exists)
    for group in list(uses.groups):
        _drop_in(group, sets, uses, parts)
        for source in group.sources:
            if isinstance(source, SetOperation):
                if source.op in ("intersect", "except") or (source.op == "union" and group in sets):
                    sets.update(branch.group for branch in source.branches)
            elif isinstance(source, Derived) and source.op == "agg":
                used = (source.columns[i] for i in uses.columns.get(source, ()))
                if all(node.tag not in AGGREGATES or of_a_set(node) for node in used):
                    sets.add(source.group)


def drop_groupings_of_sets(groups: set[Group], parts: Parts) -> None:
    """Dissolve the groupings in groups of which it only counts whether they have rows."""
    if not any(isinstance(s, Derived) for group in groups for s in group.sources):
        return
    uses = Uses.of(parts.top)
    for group in groups:
        _drop_in(group, groups, uses, parts)


def _drop_in(group: Group, sets: set[Group], uses: Uses, parts: Parts) -> None:
    found = True
    while found:
        found = False
        for source in list(group.sources):
            if parts.is_grouping(source) and source.keys[0].parts:
                known = _as_a_set(source, uses, parts.terms) if group in sets else None
                if known is None:
                    known = _of_one_row_each(source, uses, parts)
                if known is not None:
                    keys = source.keys[0].parts
                    parts.dissolve(source, group, known)
                    # Who sees the order of rows sees another one.
                    group.sorts.append(parts.terms.make("regrouped", *keys))
                    found = True


def _as_a_set(source: Derived, uses: Uses, terms: Terms) -> dict[Node, Node] | None:
    """Replacements for a grouping's columns where repeated rows do not count."""
    keys = set(source.keys[0].parts)
    used = {i: source.columns[i] for i in uses.columns.get(source, ())}
    if not keys.issuperset(used.values()):
        return None
    known = {terms.make("ref", source, i): node for i, node in used.items()}
    facts = Facts(terms)
    if any(shows_grouping(node, column, uses, facts) for column, node in known.items()):
        return None
    return known


def _of_one_row_each(source: Derived, uses: Uses, parts: Parts) -> dict[Node, Node] | None:
    """Replacements for a grouping's columns where every group has one row."""
    terms = parts.terms
    known: dict[Node, Node] = {}
    for i in uses.columns.get(source, ()):
        node = _of_one_row(source.columns[i])
        if node is None or value_type(node) is None:
            return None  # Grouping makes 0.0 of -0.0.
        known[terms.make("ref", source, i)] = node
    return known if _is_unique(source, parts) else None


def _is_unique(source: Derived, parts: Parts) -> bool:
    keys = set(source.keys[0].parts)
    return any(key <= keys for key in group_keys(source.group, parts.terms))


def _of_one_row(node: Node) -> Node | None:
    """The value that a key or an aggregate function has over one row."""
    if node.tag not in AGGREGATES:
        return node
    total = plain_total(node.parts[0]) if node.tag == "aggregate" else None
    if total is None or total[0] not in ("min", "max") or total[1].tag == "Distinct":
        return None
    return total[1]


def of_a_set(node: Node) -> bool:
    """Whether an aggregate function's value does not depend on how often a row occurs."""
    body = node.parts[0]
    if node.tag != "aggregate" or body.tag != "call":
        return False
    distinct = any(p.__class__ is Node and p.tag == "Distinct" for p in body.parts)
    return body.parts[0] in OF_A_SET or distinct


_COMPARING = frozenset({"eq", "neq", "lt", "le", "nseq", "Is"})
_INEXACT = (None, DOUBLE, "FLOAT<>")


def is_exact(key: Node, facts: Facts) -> bool:
    """Whether equal values of a key are certainly one value."""
    return facts.type(key) not in _INEXACT


def shows_grouping(key: Node, reference: Node, uses: Uses, facts: Facts) -> bool:
    """Whether somebody may see that a grouping's key has one of several equal values."""
    if is_exact(key, facts):
        return False
    parents = uses.parents.get(reference, set())
    by = any(parent is not None and parent.tag == "keys" for parent in parents)
    return any(
        not by if parent is None else parent.tag not in _COMPARING and parent.tag != "keys"
        for parent in parents
    )
