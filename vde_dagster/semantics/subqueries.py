"""Queries in expressions: scalar ones, IN, EXISTS, ANY and ALL; IN of values is beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from vde_dagster.semantics.binder import Unsupported
from vde_dagster.semantics.normalise import integer

if TYPE_CHECKING:
    from vde_dagster.semantics.algebra import Node
    from vde_dagster.semantics.binder import Binder
    from vde_dagster.semantics.names import Scope


def bind_in(binder: Binder, e: exp.In, scope: Scope) -> Node:
    """IN of a query, or of values."""
    from vde_dagster.semantics.expressions import bind, parts_of

    binder.to_check.append(e)
    if any(e.args.get(key) for key in ("unnest", "field", "is_global")):
        return binder.give_up("IN over an array", *parts_of(binder, e, scope))
    this = bind(binder, e.this, scope)
    query = e.args.get("query")
    if query is None and len(e.expressions) == 1 and isinstance(e.expressions[0], exp.Query):
        query = e.expressions[0]
    if query is not None:
        return binder.terms.make("in query", this, _subquery(binder, query, scope))
    members = [bind(binder, member, scope) for member in e.expressions]
    if len({_kind_of_literal(member) for member in members} | {None}) == 2:
        listed = binder.terms.unordered("in list", list(dict.fromkeys(members)))
    else:
        # Their common type may depend on their order.
        listed = binder.terms.make("in order", *members)
    return binder.terms.make("in", this, listed)


def _kind_of_literal(node: Node) -> str | None:
    """Return a kind of literals that have one type, or None."""
    if node.tag == "lit" and node.parts[0] == "s":
        return "string"
    return "integer" if integer(node) is not None else None


def bind_scalar(binder: Binder, e: exp.Query, scope: Scope) -> Node:
    """A query of one column that stands for a value."""
    rel = _subquery(binder, e, scope)
    if len(rel.outputs) != 1:
        binder.note("several columns", e, len(rel.outputs))
        return binder.give_up("a scalar subquery of several columns")
    e.type = rel.outputs[0].type
    return binder.terms.make("scalar", rel)


def bind_exists(binder: Binder, e: exp.Exists, scope: Scope) -> Node:
    """EXISTS of a query, or of an array's elements."""
    from vde_dagster.semantics.expressions import generic

    if isinstance(e.this, exp.Query):
        return binder.terms.make("exists", _subquery(binder, e.this, scope))
    return generic(binder, e, scope)


def bind_quantified(binder: Binder, e: exp.Any | exp.All, scope: Scope) -> Node:
    """ANY and ALL of a query, or of values."""
    from vde_dagster.semantics.expressions import generic

    inner = e.this.unnest() if isinstance(e.this, exp.Expr) else e.this
    if isinstance(inner, exp.Query):
        return binder.terms.make(e.__class__.__name__, _subquery(binder, inner, scope))
    if isinstance(inner, exp.Tuple):
        return generic(binder, e, scope)
    return binder.give_up(f"{e.__class__.__name__.upper()} of an expression")


def _subquery(binder: Binder, e: exp.Expr, scope: Scope) -> Any:
    from vde_dagster.semantics.queries import bind_query

    if scope.lambdas:
        raise Unsupported("a subquery in a lambda")
    return bind_query(binder, e, scope, scope.ctes)
