"""Common table expressions: definitions that wait until something reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.semantics.algebra import Derived, Group, Rel
from vde_dagster.semantics.binder import Unsupported

if TYPE_CHECKING:
    from sqlglot import exp

    from vde_dagster.semantics.binder import Binder
    from vde_dagster.semantics.names import Scope


class Ctes:
    """The definitions in reach at one place: a WITH's first ones, then those around it.

    All places of one WITH share one dict: a copy for each would grow with the square of their
    number.
    """

    __slots__ = ("_around", "_before", "_named")

    def __init__(self, named: dict[str, CteDef], before: int, around: Ctes | None) -> None:
        self._named = named
        self._before = before
        self._around = around

    def get(self, name: str) -> tuple[CteDef, Ctes] | None:
        """The definition that a lower-case name means here, and what is in reach of it."""
        reach: Ctes | None = self
        while reach is not None:
            found = reach._named.get(name)
            if found is not None and found.position < reach._before:
                # Made anew each time: kept, it would close a circle of objects.
                return found, Ctes(reach._named, found.position, reach._around)
            reach = reach._around
        return None


NO_CTES = Ctes({}, 0, None)


@dataclass(slots=True, eq=False)
class CteDef:
    """A definition, its columns' names and its place in its WITH."""

    query: exp.Expr
    names: list[str]
    position: int
    outer: Scope | None
    apart: Rel | None = None


def define(with_: exp.Expr | None, ctes: Ctes, outer: Scope | None) -> Ctes:
    """The definitions in reach below a WITH clause."""
    if with_ is None:
        return ctes
    if with_.args.get("recursive"):
        raise Unsupported("WITH RECURSIVE")
    named: dict[str, CteDef] = {}
    for position, cte in enumerate(with_.expressions):
        alias = cte.args.get("alias")
        if alias is None or cte.args.get("scalar"):
            raise Unsupported("a CTE without a name")
        name = alias.name.lower()
        if name in named:
            raise Unsupported("two CTEs of one name")
        columns = [identifier.name.lower() for identifier in alias.args.get("columns") or []]
        named[name] = CteDef(cte.this, columns, position, outer)
    return Ctes(named, len(named), ctes)


def read(definition: CteDef, reach: Ctes, binder: Binder) -> Rel:
    """What the CTE returns, read anew each time so that every reading is a source of its own."""
    from vde_dagster.semantics.queries import bind_partial

    if definition.apart is not None:
        return _copy(definition.apart, binder)
    binder.cte_readings += 1
    rel = bind_partial(binder, definition.query, definition.outer, reach)
    if binder.cte_readings > binder.CTE_BUDGET:
        if rel.rest is not None:
            raise Unsupported("many readings of a CTE whose columns are not known")
        definition.apart = rel
        return _copy(rel, binder)
    return rel


def _copy(rel: Rel, binder: Binder) -> Rel:
    """A reading of a CTE that is kept as one source: it shares all but its identity."""
    block = Derived(
        "block", rel.group, rel.scope.correlation, columns=[o.node for o in rel.outputs]
    )
    outputs = [
        o.as_node(binder.terms.make("ref", block, block.export(o.node))) for o in rel.outputs
    ]
    return Rel(Group([block]), outputs, rel.scope)
