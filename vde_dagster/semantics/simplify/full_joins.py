"""FULL JOINs of which a condition leaves out the rows without a match on one side: outer joins."""

from __future__ import annotations

from vde_dagster.semantics.algebra import Derived, FullJoin, Group, Node
from vde_dagster.semantics.references import sources_in
from vde_dagster.semantics.simplify.nulls import not_true_if_null
from vde_dagster.semantics.simplify.parts import Parts
from vde_dagster.semantics.uniqueness import at_most_one


def weaken_full_joins(parts: Parts) -> None:
    """Turn FULL JOINs into LEFT JOINs, or RIGHT JOINs, where conditions allow it."""
    for group in list(parts.groups):
        for source in list(group.sources):
            if not isinstance(source, FullJoin) or source in parts.frozen:
                continue
            for kept, optional in ((source.left, source.right), (source.right, source.left)):
                if _has_always(kept, source, group, parts):
                    _keep(kept, optional, source, group, parts)
                    break


def keep_side(kept: Group, optional: Group, join: FullJoin, around: Group, parts: Parts) -> bool:
    """Make an outer join of the rows of one side; returns whether that is possible."""
    possible = _sides_of_columns(join, parts) is not None
    if possible:
        _keep(kept, optional, join, around, parts)
    return possible


def _sides_of_columns(join: FullJoin, parts: Parts) -> list[Group] | None:
    """The side that each column is of, or None if that does not tell them apart."""
    if join.left in parts.shared or join.right in parts.shared or join.correlation.found:
        return None
    sides = {s: g for g in (join.left, join.right) for s in g.sources}
    found: list[Group] = []
    for column in join.columns:
        of = {sides.get(s) for s in sources_in(column)}
        side = of.pop() if len(of) == 1 else None
        if side is None:
            return None  # A constant does not say which side it is of.
        found.append(side)
    return found


def _has_always(side: Group, join: FullJoin, around: Group, parts: Parts) -> bool:
    """Whether the conditions leave only rows that have one of this side."""
    sides = _sides_of_columns(join, parts)
    if sides is None:
        return False
    own = {parts.terms.make("ref", join, i) for i, found in enumerate(sides) if found is side}
    return any(not_true_if_null(condition, own.__contains__) for condition in around.conditions)


def _keep(kept: Group, optional: Group, join: FullJoin, around: Group, parts: Parts) -> None:
    """Put one side's rows into the group, and the other side as an outer join of them."""
    terms, own = parts.terms, set(kept.sources)
    optional.conditions += join.conditions
    optional.joins.update(join.conditions)
    outer = Derived("left", optional, join.correlation)
    outer.unique = at_most_one(optional, terms)
    known: dict[Node, Node] = {}
    for i, column in enumerate(join.columns):
        inside = sources_in(column) <= own
        known[terms.make("ref", join, i)] = (
            column if inside else terms.make("ref", outer, outer.export(column))
        )
    at = around.sources.index(join)
    behind = around.sources[at + 1 :]
    del around.sources[at:]
    around.absorb(kept)
    around.sources += [outer, *behind]
    parts.forget(kept)
    parts.replace(known)
