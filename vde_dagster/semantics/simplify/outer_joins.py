"""Outer joins whose rows of NULLs a condition rejects: they are inner joins."""

from __future__ import annotations

from vde_dagster.semantics.algebra import Derived, Group, Node
from vde_dagster.semantics.simplify.nulls import not_true_if_null
from vde_dagster.semantics.simplify.parts import Parts


def strengthen_joins(parts: Parts) -> None:
    """Dissolve LEFT and RIGHT joins where the rows without a match are left out afterwards."""
    for group in list(parts.groups):
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
    parts.dissolve(source, group, known)


def _rejects_nulls(condition: Node, source: Derived) -> bool:
    """Whether a condition is never true of the row of NULLs."""
    return not_true_if_null(condition, lambda n: n.tag == "ref" and n.parts[0] is source)
