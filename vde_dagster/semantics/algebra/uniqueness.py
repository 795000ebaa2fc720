"""Unique keys of relations, which show for example that a LEFT JOIN by a key adds no rows.

Keys come from GROUP BY, DISTINCT, parents, and ``ROW_NUMBER() OVER (PARTITION BY k …) = 1``. A key
of one side of a join is also a key of the join if each row of that side has at most one match. Only
equalities between values of like types count, because ``'1'`` and ``'01'`` both equal the number 1.
NULLs of a key are equal: with the key (id, valid_to), ``valid_to IS NULL`` leaves one row per id.
"""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra.nodes import (
    Derived,
    Group,
    Leaf,
    Node,
    Terms,
    int_value,
    null_test_operand,
    sources_in,
)

Key = frozenset[Node]
_MAX_KEYS = 8
MOST_SOURCES = 12
"""Maximum number of a join's sources that are searched for keys, to limit the time."""


def has_at_most_one_row(inner: Group, terms: Terms) -> bool:
    """Return whether a subquery returns at most one row for each row of the tables around it."""
    return _determines_all(inner, set(), terms)


def group_keys(group: Group, terms: Terms) -> list[Key]:
    """Return the unique keys of a group's rows, each as a set of expressions."""
    if not _multiplying_sources(group):
        return [frozenset()]
    if _determines_all(group, set(), terms):
        return [frozenset()]
    keys: list[Key] = []
    bound = find_equal_expressions(group, terms)
    for source in _multiplying_sources(group):
        if _determines_all(group, {source}, terms):
            # What is NULL in every row tells none from another.
            keys += (
                frozenset(n for n in key if all(o.tag != "Null" for o in bound.get(n, ())))
                for key in _source_keys(source, terms)
            )
    for node, partition in _first_row_keys(group):
        covered = set(node.parts[0].sources)
        if _determines_all(group, covered, terms):
            keys.append(partition)
    return keys[:_MAX_KEYS]


def _multiplying_sources(group: Group) -> list[Any]:
    return [s for s in group.sources if not is_lookup(s)]


def is_lookup(source: Any) -> bool:
    """Return whether a source is the right side of a LEFT JOIN with at most one match per row."""
    return isinstance(source, Derived) and source.op == "left" and source.unique


def _source_keys(source: Any, terms: Terms) -> list[Key]:
    if isinstance(source, Leaf):
        return [frozenset(terms.make("ref", source, c) for c in key) for key in source.keys]
    if not isinstance(source, Derived) or source.op == "left":
        return []
    if source.op == "agg":
        if len(source.keys) != 1:
            return []
        inner = [frozenset(k for k in source.keys[0].parts if k.tag not in ("lit", "bool"))]
    else:
        known = terms.keys.get(source.group)
        if known is None:
            known = terms.keys[source.group] = group_keys(source.group, terms)
        inner = known
    return [
        frozenset(terms.make("ref", source, source.export(node)) for node in key) for key in inner
    ]


def _determines_all(group: Group, known: set[Any], terms: Terms) -> bool:
    return not set(_multiplying_sources(group)) - determined_sources(group, known, terms)


def determined_sources(group: Group, known: set[Any], terms: Terms) -> set[Any]:
    """Return `known` and the sources with at most one row for each row of the known sources.

    The unique right sides of LEFT JOINs are not added; nor is any source if the group has too many.
    """
    own = set(group.sources)
    known = set(known)
    rest = [s for s in _multiplying_sources(group) if s not in known]
    if len(rest) > MOST_SOURCES:
        return known
    bound = find_equal_expressions(group, terms)

    def fixed(node: Node) -> bool:
        if node.tag == "lit":
            return True
        if _is_determined(node, own, known):
            return True
        return any(_is_determined(other, own, known) for other in bound.get(node, ()))

    found = True
    while rest and found:
        found = False
        for node, partition in _first_row_keys(group):
            covered = set(node.parts[0].sources)
            if covered & set(rest) and all(fixed(p) for p in partition):
                known |= covered
                rest = [s for s in rest if s not in covered]
                found = True
        for source in rest:
            if any(all(map(fixed, key)) for key in _source_keys(source, terms)):
                known.add(source)
                rest.remove(source)
                found = True
                break
    return known


def _is_determined(node: Node, own: set[Any], known: set[Any]) -> bool:
    if node.tag in ("window", "scalar", "unknown"):
        return False
    return not (sources_in(node) & own - known)


def find_equal_expressions(group: Group, terms: Terms) -> dict[Node, list[Node]]:
    bound: dict[Node, list[Node]] = {}
    for condition in group.conditions:
        if condition.tag in ("eq", "nseq") and condition in terms.same_type:
            left, right = condition.parts
            bound.setdefault(left, []).append(right)
            bound.setdefault(right, []).append(left)
        tested = null_test_operand(condition)
        if tested is not None:
            bound.setdefault(tested, []).append(terms.make("Null"))
    return bound


def _first_row_keys(group: Group) -> list[tuple[Node, Key]]:
    """Return (window, keys) for each condition ``ROW_NUMBER() OVER (PARTITION BY keys …) = 1``.

    A condition ``<= 1`` is included, too.
    """
    found: list[tuple[Node, Key]] = []
    for condition in group.conditions:
        if condition.tag not in ("eq", "le"):
            continue
        a, b = condition.parts
        if condition.tag == "eq" and b.tag == "window":
            a, b = b, a
        body = a.parts[2] if a.tag == "window" and int_value(b) == 1 else None
        if body is not None and body.tag == "call" and body.parts[0] == "row_number":
            found.append((a, frozenset(a.parts[3].parts)))
    return found
