"""Conditions where they say the most: in a grouping or a union, and on both sides of a join."""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra import Derived, Group, Leaf, Node, SetOperation
from vde_dagster.semantics.simplify.parts import Parts
from vde_dagster.semantics.simplify.predicates import closed, columns_of, replaced


def move_filters(parts: Parts) -> None:
    """Complete the conditions of all groups, from the inside out, then hand them inwards."""
    for group in parts.groups:
        for source in group.sources:
            if _takes_filters(source, parts):
                group.conditions += _known_of(source, parts)
        for condition in list(group.conditions):
            if condition.tag == "exists":
                _hand_out(condition.parts[0].group, group, parts)
        _complete(group, parts)
    given: set[Group] = set()
    for group in reversed(parts.groups):
        if group in given:
            _complete(group, parts)
        for inner in _asked_for(group):
            if inner not in parts.shared:
                _complete_inside(inner, group.conditions, parts)
        for source in group.sources:
            if source in parts.frozen:
                continue
            if isinstance(source, Derived) and source.op == "left":
                _complete_optional(source, group, parts)
            elif _takes_filters(source, parts):
                given |= _hand_in(source, group, parts)


def _complete(group: Group, parts: Parts) -> None:
    group.conditions = completed(group.conditions, group, parts)


def completed(conditions: list[Node], group: Group, parts: Parts) -> list[Node]:
    """A group's conditions with what follows from them; FALSE only if that hides no error."""
    found = closed(conditions, parts.terms)
    return found if not _empty(found) or _may_be_dropped(group) else conditions


def _complete_optional(source: Derived, around: Group, parts: Parts) -> None:
    """What holds around an outer join holds for the columns that it compares with."""
    given = [c for c in around.conditions if not _names(c, source)]
    _complete_inside(source.group, given, parts)


def _complete_inside(inner: Group, given: list[Node], parts: Parts) -> None:
    known = [c for c in given if columns_of(c) is not None]
    found = closed(inner.conditions, parts.terms, known)
    if not _empty(found) or _may_be_dropped(inner):
        inner.conditions = found


def _asked_for(group: Group) -> list[Group]:
    """The groups of EXISTS and NOT EXISTS among a group's conditions."""
    asked = [c.parts[0] if c.tag == "not" else c for c in group.conditions]
    return [c.parts[0].group for c in asked if c.tag == "exists"]


def _hand_out(inner: Group, around: Group, parts: Parts) -> None:
    """What an EXISTS asks of the rows around it is asked of them anyway."""
    if inner in parts.shared:
        return
    own = set(inner.sources)
    of_others = [c for c in inner.conditions if _only_of_others(c, own)]
    around.conditions += of_others
    inner.conditions = [c for c in inner.conditions if c not in of_others]


def _only_of_others(condition: Node, own: set[Any]) -> bool:
    columns = columns_of(condition)
    return bool(columns) and not any(c.parts[0] in own for c in columns or ())


def _empty(conditions: list[Node]) -> bool:
    return len(conditions) == 1 and conditions[0].tag == "bool" and not conditions[0].parts[0]


def _may_be_dropped(group: Group) -> bool:
    """Whether nothing in a group could raise an error that Spark would tell."""
    return all(isinstance(s, Leaf) for s in group.sources) and all(
        columns_of(c) is not None for c in group.conditions
    )


def _names(condition: Node, source: Any) -> bool:
    columns = columns_of(condition)
    return columns is None or any(c.parts[0] is source for c in columns)


def _takes_filters(source: Any, parts: Parts) -> bool:
    """Whether a condition on a source's columns may as well be asked inside of it."""
    if source in parts.frozen:
        return False
    if isinstance(source, Derived):
        grouped = source.op == "agg" and len(source.keys) == 1 and bool(source.keys[0].parts)
        return grouped and source.group not in parts.shared
    if isinstance(source, SetOperation):
        own = all(branch.group not in parts.shared for branch in source.branches)
        return source.op == "union" and source.alike and own
    return False


def _known_of(source: Any, parts: Parts) -> list[Node]:
    """What is true of every row of a grouping, as all rows that it groups have it."""
    if not isinstance(source, Derived):
        return []
    terms = parts.terms
    outside = {key: terms.make("ref", source, source.export(key)) for key in source.keys[0].parts}
    found: list[Node] = []
    for condition in source.group.conditions:
        columns = columns_of(condition)
        if columns and columns <= outside.keys():
            found.append(replaced(condition, outside, terms))
    return found


def _hand_in(source: Any, group: Group, parts: Parts) -> set[Group]:
    """Move the conditions that are of this source's columns alone into it; return its groups."""
    terms = parts.terms
    given: set[Group] = set()
    kept: list[Node] = []
    for condition in group.conditions:
        columns = columns_of(condition)
        if not columns or any(c.parts[0] is not source for c in columns):
            kept.append(condition)
        elif isinstance(source, SetOperation):
            for branch in source.branches:
                inner = {c: branch.outputs[c.parts[1]].node for c in columns}
                branch.group.conditions.append(replaced(condition, inner, terms))
                given.add(branch.group)
        else:
            inner = {c: source.columns[c.parts[1]] for c in columns}
            if not set(inner.values()) <= set(source.keys[0].parts):
                kept.append(condition)
                continue
            source.group.conditions.append(replaced(condition, inner, terms))
            given.add(source.group)
    group.conditions = kept
    return given
