"""Names that are no columns: parameters of lambdas, of statements, and words of the syntax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from vde_dagster.semantics.algebra import Node
    from vde_dagster.semantics.binder import Binder
    from vde_dagster.semantics.names import Scope


def bind_lambda(binder: Binder, e: exp.Lambda, scope: Scope) -> Node:
    """A lambda; its parameters are known by its depth and their place."""
    from vde_dagster.semantics.expressions import bind

    depth = len(scope.lambdas)
    names = {
        p.name.lower(): binder.terms.make("parameter", depth, i)
        for i, p in enumerate(e.expressions)
    }
    scope.lambdas.append(names)
    try:
        body = bind(binder, e.this, scope)
    finally:
        scope.lambdas.pop()
    return binder.terms.make("lambda", depth, len(names), body)


def bind_name(binder: Binder, e: exp.Identifier, scope: Scope) -> Node:
    """A lambda's parameter, or a name that is part of the syntax (a field's, with its case)."""
    name = e.name.lower()
    for names in reversed(scope.lambdas):
        if name in names:
            return names[name]
    return binder.terms.make("name", e.name)


def bind_parameter(binder: Binder, e: exp.Parameter, scope: Scope) -> Node:
    """What a macro's word stands for when the query is run."""
    if isinstance(e.this, (exp.Var, exp.Identifier, exp.Literal)):
        return binder.terms.make("symbol", e.this.name.lower())
    return binder.give_up("a macro call")


def bind_placeholder(binder: Binder, e: exp.Placeholder, scope: Scope) -> Node:
    """A named parameter of a statement."""
    if e.this and isinstance(e.this, str):
        return binder.terms.make("symbol", e.this.lower())
    return binder.give_up("an unnamed parameter")
