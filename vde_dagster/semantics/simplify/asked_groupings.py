"""EXISTS on the keys of a grouping is asked of the rows that it groups.

(Spark's optimiser does so with semi and anti joins, `PushDownLeftSemiAntiJoin`.)
"""

from __future__ import annotations

from vde_dagster.semantics.algebra import Derived, Group, Leaf, Node, Rel
from vde_dagster.semantics.normalise import negate
from vde_dagster.semantics.simplify.parts import Parts
from vde_dagster.semantics.simplify.predicates import replaced
from vde_dagster.semantics.simplify.values import value_type


def ask_before_grouping(parts: Parts) -> None:
    """Move EXISTS and NOT EXISTS into groupings, from the outside in."""
    for group in reversed(list(parts.groups)):
        for condition in list(group.conditions):
            asked = condition.parts[0] if condition.tag == "not" else condition
            if asked.tag != "exists" or not _is_simple(asked.parts[0].group):
                continue
            source = _asked_of(asked.parts[0].group)
            if source is not None and source in group.sources and _takes(source, parts):
                known = _keys_of(source, asked.parts[0].group, parts)
                if known is not None:
                    group.conditions.remove(condition)
                    moved = _with(known, asked.parts[0], parts)
                    made = moved if asked is condition else negate(parts.terms, moved)
                    source.group.conditions.append(made)


def _is_simple(group: Group) -> bool:
    """Whether a query is of tables and of conditions in which no other query stands."""
    stack = list(group.conditions)
    while stack:
        node = stack.pop()
        if node.tag == "window" or any(isinstance(part, Rel) for part in node.parts):
            return False
        stack += (part for part in node.parts if part.__class__ is Node)
    return all(isinstance(source, Leaf) for source in group.sources)


def _outside(group: Group) -> set[Node]:
    """The columns of sources around a group that its conditions name."""
    found: set[Node] = set()
    stack = list(group.conditions)
    while stack:
        node = stack.pop()
        if node.tag == "ref":
            found |= {node} if node.parts[0] not in group.sources else set()
        else:
            stack += (part for part in node.parts if part.__class__ is Node)
    return found


def _asked_of(group: Group) -> Derived | None:
    """The one source that a query is asked about, if it is a subquery."""
    sources = {column.parts[0] for column in _outside(group)}
    source = sources.pop() if len(sources) == 1 else None
    return source if isinstance(source, Derived) else None


def _takes(source: Derived, parts: Parts) -> bool:
    grouped = source.op == "agg" and len(source.keys) == 1 and bool(source.keys[0].parts)
    return grouped and source not in parts.frozen and source.group not in parts.shared


def _keys_of(source: Derived, asked: Group, parts: Parts) -> dict[Node, Node] | None:
    """What the columns that are asked about are inside a grouping; None if not all are keys."""
    known = {column: source.columns[column.parts[1]] for column in _outside(asked)}
    if any(value_type(node) is None for node in known.values()):
        return None  # Grouping makes 0.0 of -0.0, and texts of them differ.
    return known if set(known.values()) <= set(source.keys[0].parts) else None


def _with(known: dict[Node, Node], rel: Rel, parts: Parts) -> Node:
    """An EXISTS of the same tables with other columns around it."""
    terms, asked = parts.terms, rel.group
    conditions = [replaced(condition, known, terms) for condition in asked.conditions]
    pairs = zip(asked.conditions, conditions, strict=True)
    terms.same_type.update(new for old, new in pairs if old in terms.same_type)
    inner = Group(list(asked.sources), conditions, set(), list(asked.sorts))
    made = Rel(inner, [], rel.scope, local=True)
    parts.groups.insert(0, inner)
    parts.rels.insert(0, made)
    return terms.make("exists", made)
