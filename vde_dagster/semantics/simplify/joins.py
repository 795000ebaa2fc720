"""Rules for joins: outer joins that act as inner joins, and redundant self-joins."""

from __future__ import annotations

from collections.abc import Iterable

from vde_dagster.semantics.algebra.nodes import (
    Derived,
    FullJoin,
    Group,
    Leaf,
    Node,
    Rel,
    sources_in,
)
from vde_dagster.semantics.algebra.uniqueness import MOST_SOURCES, has_at_most_one_row
from vde_dagster.semantics.simplify.expressions import Simplifier
from vde_dagster.semantics.simplify.facts import not_true_if_null
from vde_dagster.semantics.simplify.implied_conditions import find_equal_values
from vde_dagster.semantics.simplify.parts import QueryParts


def outer_joins_as_inner(parts: QueryParts) -> None:
    """Turn LEFT and RIGHT joins into inner joins if WHERE excludes rows without a match."""
    for group in list(parts.groups):
        found = True
        while found:
            found = False
            for source in parts.outer_joins(group):
                if any(_rejects_nulls(c, source) for c in group.conditions):
                    make = parts.terms.make
                    known = {make("ref", source, i): c for i, c in enumerate(source.columns)}
                    parts.inline_source(source, group, known)
                    found = True


def _rejects_nulls(condition: Node, source: Derived) -> bool:
    return not_true_if_null(condition, lambda n: n.tag == "ref" and n.parts[0] is source)


def reduce_full_joins(parts: QueryParts) -> None:
    """Turn FULL JOINs into LEFT or RIGHT JOINs if WHERE excludes rows that lack one side."""
    for group in list(parts.groups):
        for source in list(group.sources):
            if not isinstance(source, FullJoin) or source in parts.frozen:
                continue
            for kept, optional in ((source.left, source.right), (source.right, source.left)):
                if _has_always(kept, source, group, parts):
                    _keep(kept, optional, source, group, parts)
                    break


def replace_full_join(
    kept: Group, optional: Group, join: FullJoin, around: Group, parts: QueryParts
) -> bool:
    """Replace a FULL JOIN with a join that keeps one side's rows; return False if impossible."""
    possible = _sides_of_columns(join, parts) is not None
    if possible:
        _keep(kept, optional, join, around, parts)
    return possible


def _sides_of_columns(join: FullJoin, parts: QueryParts) -> list[Group] | None:
    if join.left in parts.shared or join.right in parts.shared or join.correlation.found:
        return None
    sides = {s: g for g in (join.left, join.right) for s in g.sources}
    found: list[Group] = []
    for column in join.columns:
        own = {sides.get(s) for s in sources_in(column)}
        side = own.pop() if len(own) == 1 else None
        if side is None:
            return None  # A constant belongs to neither side.
        found.append(side)
    return found


def _has_always(side: Group, join: FullJoin, around: Group, parts: QueryParts) -> bool:
    sides = _sides_of_columns(join, parts)
    if sides is None:
        return False
    own = {parts.terms.make("ref", join, i) for i, found in enumerate(sides) if found is side}
    return any(not_true_if_null(condition, own.__contains__) for condition in around.conditions)


def _keep(kept: Group, optional: Group, join: FullJoin, around: Group, parts: QueryParts) -> None:
    terms, own = parts.terms, set(kept.sources)
    optional.conditions += join.conditions
    optional.joins.update(join.conditions)
    outer = Derived("left", optional, join.correlation)
    outer.unique = has_at_most_one_row(optional, terms)
    known: dict[Node, Node] = {}
    for i, column in enumerate(join.columns):
        inside = sources_in(column) <= own
        known[terms.make("ref", join, i)] = (
            column if inside else terms.make("ref", outer, outer.export(column))
        )
    around.replace_source(join, kept, outer)
    parts.remove_group(kept)
    parts.replace(known)


def merge_self_joins(parts: QueryParts) -> None:
    """Merge two references to a table if conditions on its key make them the same row."""
    if not _any_table_twice(parts):
        return
    in_sets = {s.group for s in parts.derived_sources() if len(s.keys) > 1}
    for group in list(parts.groups):
        if group not in parts.shared | in_sets and len(group.sources) <= MOST_SOURCES:
            _merge_all(group, parts)
    for group in list(parts.groups):
        if group not in parts.shared and len(group.sources) <= MOST_SOURCES:
            _merge_asked(group, parts)


def _any_table_twice(parts: QueryParts) -> bool:
    seen: set[str] = set()
    for group in parts.groups:
        for source in group.sources:
            if source.__class__ is Leaf and source.keys:
                if source.table in seen:
                    return True
                seen.add(source.table)
    return False


def _merge_all(group: Group, parts: QueryParts) -> None:
    leaves = _leaves(group, parts)
    changed = False
    for i, kept in enumerate(leaves):
        for other in leaves[i + 1 :]:
            if other in group.sources and _is_same_row(kept, other, group.conditions, parts):
                _merge(kept, other, group, parts)
                changed = True
    if changed:
        group.conditions = Simplifier(parts.terms).conditions(group)


def _merge_asked(group: Group, parts: QueryParts) -> None:
    changed = False
    for condition in list(group.conditions):
        rel = condition.parts[0] if condition.tag == "exists" else None
        if not isinstance(rel, Rel) or rel.group in parts.shared:
            continue
        inner, number = rel.group, len(rel.group.sources)
        beside = [*group.conditions, *inner.conditions]
        for kept in _leaves(group, parts):
            for other in _leaves(inner, parts):
                if _is_same_row(kept, other, beside, parts):
                    _merge(kept, other, inner, parts)
        if len(inner.sources) == number:
            continue
        changed = True
        inner.conditions = Simplifier(parts.terms).conditions(inner)
        if not inner.sources:
            group.conditions.remove(condition)
            group.conditions += inner.conditions
            parts.remove_group(inner)
    if changed:
        group.conditions = Simplifier(parts.terms).conditions(group)


def _leaves(group: Group, parts: QueryParts) -> list[Leaf]:
    return [
        source
        for source in group.sources
        if isinstance(source, Leaf) and source.keys and source not in parts.frozen
    ]


def _is_same_row(one: Leaf, two: Leaf, conditions: Iterable[Node], parts: QueryParts) -> bool:
    if one.table != two.table or one.rows != two.rows or one.columns != two.columns:
        return False
    make = parts.terms.make
    classes = find_equal_values(conditions)
    return any(
        all(make("ref", two, c) in classes.members(make("ref", one, c)) for c in key)
        for key in one.keys
    )


def _merge(kept: Leaf, other: Leaf, group: Group, parts: QueryParts) -> None:
    make = parts.terms.make
    own = [n for n in parts.terms.nodes() if n.tag == "ref" and n.parts[0] is other]
    group.sources.remove(other)
    # Order-sensitive functions may see another order.
    group.sorts.append(make("regrouped", other.table))
    parts.replace({node: make("ref", kept, node.parts[1]) for node in own})
    parts.terms.keys.clear()
