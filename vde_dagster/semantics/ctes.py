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


@dataclass(slots=True, eq=False)
class CteDef:
    """A definition with the names that it sees."""

    query: exp.Expr
    names: list[str]
    ctes: dict[str, CteDef]
    outer: Scope | None
    apart: Rel | None = None


def define(
    with_: exp.Expr | None, ctes: dict[str, CteDef], outer: Scope | None
) -> dict[str, CteDef]:
    """The definitions in reach below a WITH clause."""
    if with_ is None:
        return ctes
    if with_.args.get("recursive"):
        raise Unsupported("WITH RECURSIVE")
    known = dict(ctes)
    for cte in with_.expressions:
        alias = cte.args.get("alias")
        if alias is None or cte.args.get("scalar"):
            raise Unsupported("a CTE without a name")
        columns = [identifier.name.lower() for identifier in alias.args.get("columns") or []]
        known[alias.name.lower()] = CteDef(cte.this, columns, dict(known), outer)
    return known


def read(definition: CteDef, binder: Binder) -> Rel:
    """What the CTE returns, read anew each time so that every reading is a source of its own."""
    from vde_dagster.semantics.queries import bind_query

    if definition.apart is not None:
        return _copy(definition.apart, binder)
    binder.cte_readings += 1
    rel = bind_query(binder, definition.query, definition.outer, definition.ctes)
    if binder.cte_readings > binder.CTE_BUDGET:
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
