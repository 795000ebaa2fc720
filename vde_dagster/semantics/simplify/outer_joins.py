"""Outer joins whose rows of NULLs a condition rejects: they are inner joins."""

from __future__ import annotations

from vde_dagster.semantics.algebra import Derived, Group, Node
from vde_dagster.semantics.simplify.parts import Parts

_STRICT = frozenset({"eq", "neq", "lt", "le", "add", "sub", "mul"})


def strengthen_joins(parts: Parts) -> None:
    """Dissolve LEFT and RIGHT joins where the rows without a match are left out afterwards."""
    for group in parts.groups:
        found = True
        while found:
            found = False
            for source in list(group.sources):
                if (
                    isinstance(source, Derived)
                    and source.op == "left"
                    and source not in parts.frozen
                    and source.group not in parts.shared
                    and any(_rejects_nulls(c, source) for c in group.conditions)
                ):
                    _dissolve(source, group, parts)
                    found = True


def _dissolve(source: Derived, group: Group, parts: Parts) -> None:
    terms = parts.terms
    known = {terms.make("ref", source, i): node for i, node in enumerate(source.columns)}
    at = group.sources.index(source)
    behind = group.sources[at + 1 :]
    del group.sources[at:]
    group.absorb(source.group)
    group.sources += behind  # They may depend on the rows of what has been dissolved.
    source.group.sources = []
    source.group.conditions = []
    parts.replace(known)


def _rejects_nulls(condition: Node, source: Derived) -> bool:
    """Whether a condition is never true of the row of NULLs."""
    if condition.tag == "or":
        return all(_rejects_nulls(p, source) for p in condition.parts)
    if condition.tag == "and":
        return any(_rejects_nulls(p, source) for p in condition.parts)
    if condition.tag in ("eq", "neq", "lt", "le"):
        return any(_is_null_there(p, source) for p in condition.parts)
    if condition.tag == "in":
        return _is_null_there(condition.parts[0], source)
    if condition.tag == "not" and condition.parts[0].tag == "Is":
        inner = [p for p in condition.parts[0].parts if p.__class__ is Node]
        nulls = [p for p in inner if p.tag == "Null"]
        return len(nulls) == 1 and any(_is_null_there(p, source) for p in inner)
    return False


def _is_null_there(node: Node, source: Derived) -> bool:
    """Whether an expression is NULL in the row of NULLs."""
    if node.tag == "ref":
        return node.parts[0] is source
    return node.tag in _STRICT and any(_is_null_there(p, source) for p in node.parts)
