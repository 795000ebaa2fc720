"""Two readings of a table whose keys are equal: they are one row, which is read once.

``u AS x JOIN u AS y ON x.id = y.id`` is ``u AS x WHERE x.id IS NOT NULL`` where ``id`` is a key of
``u``, and ``EXISTS (SELECT 1 FROM u AS y WHERE y.id = x.id AND y.v > 1)`` asks for ``x.v > 1``.
"""

from __future__ import annotations

from collections.abc import Iterable

from vde_dagster.semantics.algebra import Group, Leaf, Node, Rel
from vde_dagster.semantics.simplify.equalities import equal_values
from vde_dagster.semantics.simplify.expressions import Simplifier
from vde_dagster.semantics.simplify.parts import Parts

_MOST_SOURCES = 12


def merge_readings(parts: Parts) -> None:
    """Read every row of a table with a key once, wherever that is enough."""
    if not _any_table_twice(parts):
        return
    for group in list(parts.groups):
        if group not in parts.shared and len(group.sources) <= _MOST_SOURCES:
            _merge_all(group, parts)
    for group in list(parts.groups):
        if group not in parts.shared and len(group.sources) <= _MOST_SOURCES:
            _merge_asked(group, parts)


def _any_table_twice(parts: Parts) -> bool:
    seen: set[str] = set()
    for group in parts.groups:
        for source in group.sources:
            if source.__class__ is Leaf and source.keys:
                if source.table in seen:
                    return True
                seen.add(source.table)
    return False


def _merge_all(group: Group, parts: Parts) -> None:
    """Merge the readings beside each other in one group."""
    leaves = _leaves(group, parts)
    changed = False
    for i, kept in enumerate(leaves):
        for other in leaves[i + 1 :]:
            if other in group.sources and _one_row(kept, other, group.conditions, parts):
                _merge(kept, other, group, parts)
                changed = True
    if changed:
        group.conditions = Simplifier(parts.terms).conditions(group)


def _merge_asked(group: Group, parts: Parts) -> None:
    """Merge what EXISTS asks for with the rows around it."""
    changed = False
    for condition in list(group.conditions):
        rel = condition.parts[0] if condition.tag == "exists" else None
        if not isinstance(rel, Rel) or rel.group in parts.shared:
            continue
        inner, number = rel.group, len(rel.group.sources)
        beside = [*group.conditions, *inner.conditions]
        for kept in _leaves(group, parts):
            for other in _leaves(inner, parts):
                if _one_row(kept, other, beside, parts):
                    _merge(kept, other, inner, parts)
        if len(inner.sources) == number:
            continue
        changed = True
        inner.conditions = Simplifier(parts.terms).conditions(inner)
        if not inner.sources:
            group.conditions.remove(condition)
            group.conditions += inner.conditions
            parts.forget(inner)
    if changed:
        group.conditions = Simplifier(parts.terms).conditions(group)


def _leaves(group: Group, parts: Parts) -> list[Leaf]:
    return [
        source
        for source in group.sources
        if isinstance(source, Leaf) and source.keys and source not in parts.frozen
    ]


def _one_row(one: Leaf, two: Leaf, conditions: Iterable[Node], parts: Parts) -> bool:
    """Whether the conditions say that two readings are of one row."""
    if one.table != two.table or one.rows != two.rows or one.columns != two.columns:
        return False
    make = parts.terms.make
    classes = equal_values(conditions)
    return any(
        all(make("ref", two, c) in classes.of(make("ref", one, c)) for c in key) for key in one.keys
    )


def _merge(kept: Leaf, other: Leaf, group: Group, parts: Parts) -> None:
    """Leave a reading out; what is asked of it is asked of the other one."""
    make = parts.terms.make
    own = [n for n in parts.terms.nodes() if n.tag == "ref" and n.parts[0] is other]
    group.sources.remove(other)
    # Who sees the order of rows sees another one.
    group.sorts.append(make("regrouped", other.table))
    parts.replace({node: make("ref", kept, node.parts[1]) for node in own})
    parts.terms.keys.clear()
