"""Ways into values: fields of structs, elements of arrays and maps; functions in schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from vde_dagster.semantics.columns import struct_fields
from vde_dagster.sql.reading import name_of_call

if TYPE_CHECKING:
    from vde_dagster.semantics.algebra import Node
    from vde_dagster.semantics.binder import Binder
    from vde_dagster.semantics.names import Scope


def bind_dot(binder: Binder, e: exp.Dot, scope: Scope) -> Node:
    """A field of a struct, or a function in a schema."""
    from vde_dagster.semantics.expressions import bind

    if isinstance(e.expression, exp.Identifier):
        this = bind(binder, e.this, scope)
        return struct_fields(binder.terms, this, (e.expression.name,), None)
    if isinstance(e.expression, exp.Anonymous):
        return _function_of_schema(binder, e, scope)
    return binder.give_up("a star inside an expression")


def _function_of_schema(binder: Binder, e: exp.Dot, scope: Scope) -> Node:
    """A call `schema.function(…)`: one of the user's."""
    from vde_dagster.semantics.expressions import bind

    arguments = [bind(binder, argument, scope) for argument in e.expression.expressions]
    name, left = name_of_call(e.expression), e.this
    while isinstance(left, exp.Dot):
        name, left = f"{left.expression.name.lower()}.{name}", left.this
    name = f"{left.name.lower()}.{name}"
    if name in binder.scalar_functions:
        return binder.terms.make("call", name, *arguments)
    return binder.give_up(f"function {name} is not declared as deterministic", *arguments)


def bind_bracket(binder: Binder, e: exp.Bracket, scope: Scope) -> Node:
    """An element of an array or a map."""
    from vde_dagster.semantics.expressions import bind, parts_of

    if len(e.expressions) != 1 or e.args.get("offset") or e.args.get("safe"):
        return binder.give_up("brackets of an unknown form", *parts_of(binder, e, scope))
    key = bind(binder, e.expressions[0], scope)
    return binder.terms.make("element", bind(binder, e.this, scope), key)
