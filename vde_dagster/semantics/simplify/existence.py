"""Rewrites of joins and IN to EXISTS, if they only test whether a row exists.

Such joins are ``a JOIN d ON a.k = d.k``, where ``k`` is a key of ``d`` and no column of ``d`` is
used; ``a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL``; and outer joins with at most one match that
are only tested for a match. ``x IN (SELECT y …)`` and ``EXISTS (SELECT 1 … WHERE y = x)`` are true
for the same rows. For other rows, IN may be NULL where EXISTS is FALSE, so NOT IN becomes NOT
EXISTS only if neither side has NULLs. EXISTS on a grouping's keys is pushed into the grouping
(Spark: `PushDownLeftSemiAntiJoin`).
"""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra.nodes import (
    Derived,
    Group,
    Leaf,
    Node,
    Rel,
    Terms,
    null_test_operand,
    sources_in,
    walk,
)
from vde_dagster.semantics.algebra.uniqueness import MOST_SOURCES, determined_sources
from vde_dagster.semantics.simplify.facts import comparable, rejects_null, value_type
from vde_dagster.semantics.simplify.implied_conditions import replace_columns
from vde_dagster.semantics.simplify.parts import ColumnUses, QueryParts


def outer_joins_as_exists(parts: QueryParts) -> None:
    """Turn outer joins into EXISTS if the query only tests them for a match."""
    tested = map(null_test_operand, parts.terms.nodes())
    asked = {node.parts[0] for node in tested if node is not None and node.tag == "ref"}
    if not any(source.op == "left" and source in asked for source in parts.derived_sources()):
        return
    uses = ColumnUses.collect(parts.top)
    for group in list(parts.groups):
        for source in parts.outer_joins(group):
            tests = uses.tests.get(source)
            if (
                tests
                and source not in uses.values
                and (source.unique or not tests.isdisjoint(group.conditions))
                and all(_has_value_in_matches(test, source) for test in tests)
            ):
                terms = parts.terms
                exists = _exists(source.group, parts)
                group.sources.remove(source)
                known = dict.fromkeys(tests, terms.negate(exists))
                parts.replace(known | {terms.make("not", test): exists for test in tests})


def _has_value_in_matches(test: Node, source: Derived) -> bool:
    """Return whether the column of an IS NULL test is never NULL in a matching row."""
    tested = null_test_operand(test)
    assert tested is not None
    inner = source.columns[tested.parts[1]]
    if _inner_expression(inner).tag in ("lit", "bool"):
        return True
    return any(rejects_null(c, inner) for c in source.group.conditions)


def _inner_expression(node: Node) -> Node:
    while node.tag == "ref" and isinstance(node.parts[0], Derived):
        source: Derived = node.parts[0]
        # Such a subquery may change the column's value.
        if source.op == "left" or len(source.keys) > 1:
            break
        node = source.columns[node.parts[1]]
    return node


def joins_as_exists(parts: QueryParts) -> set[Group]:
    """Turn joins that only test for a match into EXISTS; return the groups of their subqueries."""
    made: set[Group] = set()
    joined = [group for group in parts.groups if any(map(_has_key, group.sources[:MOST_SOURCES]))]
    joined = [group for group in joined if 1 < len(group.sources) <= MOST_SOURCES]
    if not joined:
        return made
    uses = ColumnUses.collect(parts.top)
    for group in joined:
        if group in uses.groups:
            # Sources that can only decide which rows of the other sources remain.
            # Such a source has at most one matching row, and the query uses none of its columns.
            idle = [
                source
                for source in group.sources
                if source not in parts.frozen
                and uses.asked_in.get(source, set()) <= {group}
                and (isinstance(source, Leaf) or _has_key(source))
                and not (isinstance(source, Derived) and source.correlation.found)
            ]
            for some in _connected(_single(idle, group, parts.terms), group):
                made.add(_ask_for(some, group, parts))
    return made


def _has_key(source: Any) -> bool:
    if isinstance(source, Leaf):
        return bool(source.keys)
    return isinstance(source, Derived) and source.op == "agg"


def _single(idle: list[Any], group: Group, terms: Terms) -> list[Any]:
    stay = {s for s in group.sources if s not in idle}
    stay |= {s for s in idle if s not in determined_sources(group, {*group.sources} - {s}, terms)}
    if not stay:
        return []
    there = determined_sources(group, stay, terms)
    return [s for s in idle if s in there and s not in stay]


def _connected(some: list[Any], group: Group) -> list[list[Any]]:
    left = list(some)
    found: list[list[Any]] = []
    named = [sources_in(c) & set(some) for c in group.conditions]
    while left:
        together = {left[0]}
        grown = True
        while grown:
            more = {s for names in named if names & together for s in names} - together
            together |= more
            grown = bool(more)
        found.append([s for s in left if s in together])
        left = [s for s in left if s not in together]
    return found


def _ask_for(some: list[Any], group: Group, parts: QueryParts) -> Group:
    asked = [c for c in group.conditions if sources_in(c) & set(some)]
    inner = Group(some, asked, group.joins & set(asked))
    group.sources = [s for s in group.sources if s not in some]
    group.conditions = [c for c in group.conditions if c not in asked]
    group.conditions.append(_exists(inner, parts, at=group))
    return inner


def _exists(group: Group, parts: QueryParts, at: Group | None = None) -> Node:
    rel = Rel(group, [], parts.top.scope, local=True)
    parts.rels.insert(0, rel)
    if at is not None:
        parts.groups.insert(parts.groups.index(at), group)
    return parts.terms.make("exists", rel)


def push_exists_into_grouping(parts: QueryParts) -> None:
    for group in reversed(list(parts.groups)):
        for condition in list(group.conditions):
            asked = condition.parts[0] if condition.tag == "not" else condition
            if asked.tag != "exists" or not _is_simple(asked.parts[0].group):
                continue
            source = _outer_source(asked.parts[0].group)
            if source in group.sources and parts.is_grouping(source) and source.keys[0].parts:
                known = _outer_keys(source, asked.parts[0].group)
                if known is not None:
                    group.conditions.remove(condition)
                    moved = _with(known, asked.parts[0], parts)
                    made = moved if asked is condition else parts.terms.negate(moved)
                    source.group.conditions.append(made)


def _is_simple(group: Group) -> bool:
    return all(isinstance(source, Leaf) for source in group.sources) and not any(
        node.tag == "window" or any(isinstance(part, Rel) for part in node.parts)
        for node in walk(group.conditions)
    )


def _outside(group: Group) -> set[Node]:
    refs = (node for node in walk(group.conditions) if node.tag == "ref")
    return {node for node in refs if node.parts[0] not in group.sources}


def _outer_source(group: Group) -> Any:
    sources = {column.parts[0] for column in _outside(group)}
    return sources.pop() if len(sources) == 1 else None


def _outer_keys(source: Derived, asked: Group) -> dict[Node, Node] | None:
    known = {column: source.columns[column.parts[1]] for column in _outside(asked)}
    if any(value_type(node) is None for node in known.values()):
        return None  # Grouping turns -0.0 into 0.0, and their texts differ.
    return known if set(known.values()) <= set(source.keys[0].parts) else None


def _with(known: dict[Node, Node], rel: Rel, parts: QueryParts) -> Node:
    terms, asked = parts.terms, rel.group
    conditions = [replace_columns(condition, known, terms) for condition in asked.conditions]
    pairs = zip(asked.conditions, conditions, strict=True)
    terms.same_type.update(new for old, new in pairs if old in terms.same_type)
    inner = Group(list(asked.sources), conditions, set(), list(asked.sorts))
    made = Rel(inner, [], rel.scope, local=True)
    parts.groups.insert(0, inner)
    parts.rels.insert(0, made)
    return terms.make("exists", made)


def in_subqueries_as_exists(conditions: list[Node], terms: Terms) -> list[Node]:
    return [_with_exists(condition, conditions, terms) for condition in conditions]


def _with_exists(node: Node, beside: list[Node], terms: Terms) -> Node:
    if node.tag in ("and", "or"):
        return terms.combine(node.tag, [_with_exists(p, beside, terms) for p in node.parts])
    if node.tag == "in query":
        this, rel = node.parts
        return _as_exists(this, rel, terms) or node
    if node.tag == "not" and node.parts[0].tag == "in query":
        this, rel = node.parts[0].parts
        inner = [o.node for o in rel.outputs]
        if _without_nulls(_members(this), beside) and _without_nulls(inner, rel.group.conditions):
            found = _as_exists(this, rel, terms)
            return terms.negate(found) if found is not None else node
    return node


def _as_exists(this: Node, rel: Rel, terms: Terms) -> Node | None:
    """Return an EXISTS for IN, or None if EXISTS might compare the values differently."""
    members = _members(this)
    if len(members) != len(rel.outputs):
        return None
    pairs = [(x, o.node) for x, o in zip(members, rel.outputs, strict=True)]
    if not all(comparable(x, y) for x, y in pairs):
        return None
    asked = [terms.compare("eq", x, y) for x, y in pairs]
    terms.same_type.update(asked)
    inner, rel.group = rel.group, Group()
    group = Group(inner.sources, [*inner.conditions, *asked], inner.joins | set(asked), inner.sorts)
    return terms.make("exists", Rel(group, [], rel.scope, local=True))


def _members(this: Node) -> list[Node]:
    if this.tag == "Tuple":
        return [part for part in this.parts if part.__class__ is Node]
    return [this]


def _without_nulls(nodes: list[Node], conditions: list[Node]) -> bool:
    return all(any(rejects_null(c, node) for c in conditions) for node in nodes)
