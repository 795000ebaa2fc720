"""Common table expressions: which of them a query can name."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from vde_dagster.semantics.algebra.nodes import Rel
from vde_dagster.semantics.binding.binder import Unsupported
from vde_dagster.semantics.binding.names import Scope


class VisibleCtes:
    """The CTEs that a query can name, from its own WITH clause and from outer queries."""

    __slots__ = ("_around", "_before", "_named")

    def __init__(self, named: dict[str, CteDef], before: int, around: VisibleCtes | None) -> None:
        # The CTEs of one WITH share a dict. A copy per CTE would take quadratic memory.
        self._named = named
        self._before = before
        self._around = around

    def get(self, name: str) -> tuple[CteDef, VisibleCtes] | None:
        """Return a CTE by its lower-case name, with the CTEs that its query can name."""
        reach: VisibleCtes | None = self
        while reach is not None:
            found = reach._named.get(name)
            if found is not None and found.position < reach._before:
                # Made anew each time: kept, it would close a circle of objects.
                return found, VisibleCtes(reach._named, found.position, reach._around)
            reach = reach._around
        return None


NO_CTES = VisibleCtes({}, 0, None)


@dataclass(slots=True, eq=False)
class CteDef:
    query: exp.Expr
    names: list[str]
    position: int
    outer: Scope | None
    apart: Rel | None = None


def define_ctes(with_: exp.Expr | None, ctes: VisibleCtes, outer: Scope | None) -> VisibleCtes:
    """Add the CTEs of a WITH clause to the CTEs of outer queries."""
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
        columns = [identifier.name for identifier in alias.args.get("columns") or []]
        named[name] = CteDef(cte.this, columns, position, outer)
    return VisibleCtes(named, len(named), ctes)
