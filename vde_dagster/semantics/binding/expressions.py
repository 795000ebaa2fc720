"""SQL expressions as nodes of the algebra: operands, lambdas, struct fields and elements, and
subqueries.

`calls` reads functions and operators, `queries` the queries in expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from vde_dagster.semantics.algebra.nodes import Node
from vde_dagster.semantics.algebra.normalise import (
    bind_literal,
    boolean,
    combine,
    compare,
    integer,
    minus,
    negate,
)
from vde_dagster.semantics.binding.binder import Binder, Unsupported
from vde_dagster.semantics.binding.calls import (
    BINARY,
    COMPARISONS,
    DIVISIONS,
    bind_call,
    bind_window,
    call,
    cast,
    choice,
    modified_aggregate,
    session_value,
)
from vde_dagster.semantics.binding.names import Scope, bind_column, struct_fields
from vde_dagster.semantics.spark_functions import SYNTAX_CLASSES
from vde_dagster.sql.reading import name_of_call

Handler = Callable[[Binder, Any, Scope], Node]


def bind(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """Read one expression.

    Args:
        binder: The query's context.
        scope: The names that it sees; the scope's clause decides about aliases.

    Returns:
        Its node. What is not understood makes the binder doubt and becomes an unknown node.
    """
    if e.args.get("negate"):
        return _negated(binder, e, scope)
    handler = _HANDLERS.get(e.__class__)
    if handler is not None:
        return handler(binder, e, scope)
    name = e.__class__.__name__
    if name in SYNTAX_CLASSES:
        return generic(binder, e, scope)
    return binder.give_up(f"{name} is not understood", *parts_of(binder, e, scope))


def _negated(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """NOT LIKE and its like. That of ANY and ALL is asked of each pattern, not of the whole."""
    e.set("negate", None)
    try:
        node = bind(binder, e, scope)
    finally:
        e.set("negate", True)
    if isinstance(e.expression, exp.Any | exp.All):
        return binder.terms.make("not each", node)
    return negate(binder.terms, node)


def generic(binder: Binder, e: exp.Expr, scope: Scope, tag: str | None = None) -> Node:
    """An operator or function by its class and all of its arguments."""
    parts: list[Any] = []
    for key, value in sorted(e.args.items()):
        if value is None or (value.__class__ is list and not value):
            continue
        parts.append(key)
        if value.__class__ is list:
            parts.append(len(value))
            for item in value:
                parts.append(part_of(binder, item, scope))
        else:
            parts.append(part_of(binder, value, scope))
    return binder.terms.make(tag or e.__class__.__name__, *parts)


def part_of(binder: Binder, value: Any, scope: Scope) -> Any:
    if isinstance(value, exp.Expr):
        return bind(binder, value, scope)
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (exp.DType, float)):
        return str(value)
    raise Unsupported(f"an argument of type {type(value).__name__}")


def parts_of(binder: Binder, e: exp.Expr, scope: Scope) -> list[Node]:
    """The nodes of an expression's children, for the lineage of what is not understood."""
    return [bind(binder, child, scope) for child in e.iter_expressions()]


def _inner(binder: Binder, e: exp.Paren | exp.Where | exp.Alias, scope: Scope) -> Node:
    return bind(binder, e.this, scope)


def _literal(binder: Binder, e: exp.Literal, scope: Scope) -> Node:
    if "@" in e.this or "{" in e.this:
        binder.to_check.append(e)
    return bind_literal(binder.terms, e.this)


def _junction(binder: Binder, e: exp.And | exp.Or, scope: Scope) -> Node:
    """AND and OR, walked without recursion: generated queries have thousands of operands."""
    kind = e.__class__
    stack: list[exp.Expr] = [e]
    operands: list[Node] = []
    while stack:
        item = stack.pop()
        if item.__class__ is kind:
            stack.append(item.args["expression"])
            stack.append(item.args["this"])
        elif item.__class__ is exp.Paren:
            stack.append(item.this)
        else:
            operands.append(bind(binder, item, scope))
    return combine(binder.terms, "and" if kind is exp.And else "or", operands)


def _not(binder: Binder, e: exp.Not, scope: Scope) -> Node:
    return negate(binder.terms, bind(binder, e.this, scope))


def _binary(binder: Binder, e: exp.Binary, scope: Scope) -> Node:
    if e.__class__ in COMPARISONS:
        binder.to_check.append(e)
    left = bind(binder, e.args["this"], scope)
    return BINARY[e.__class__](binder.terms, left, bind(binder, e.args["expression"], scope))


def _division(binder: Binder, e: exp.Binary, scope: Scope) -> Node:
    binder.to_check.append(e)
    return _binary(binder, e, scope) if isinstance(e, exp.Mod) else generic(binder, e, scope)


def _between(binder: Binder, e: exp.Between, scope: Scope) -> Node:
    binder.to_check.append(e)
    if e.args.get("symmetric"):
        return generic(binder, e, scope)
    terms, this = binder.terms, bind(binder, e.this, scope)
    low = bind(binder, e.args["low"], scope)
    high = bind(binder, e.args["high"], scope)
    return combine(
        terms, "and", [compare(terms, "ge", this, low), compare(terms, "le", this, high)]
    )


def _case(binder: Binder, e: exp.Case, scope: Scope) -> Node:
    binder.to_check.append(e)
    operand = bind(binder, e.this, scope) if e.this is not None else None
    parts: list[Node] = []
    for branch in e.args["ifs"]:
        condition = bind(binder, branch.this, scope)
        if operand is not None:
            condition = compare(binder.terms, "eq", operand, condition)
        parts += [condition, bind(binder, branch.args["true"], scope)]
    default = e.args.get("default")
    other = bind(binder, default, scope) if default is not None else None
    return choice(binder.terms, parts, other)


def _cast(binder: Binder, e: exp.Cast, scope: Scope) -> Node:
    safe = bool(e.args.get("safe"))
    known = {"this", "to", "safe", "requires_string"}
    others = [key for key, value in e.args.items() if value and key not in known]
    this = bind(binder, e.this, scope)
    if others:
        return binder.give_up(f"CAST with {', '.join(others)}", this)
    return cast(binder.terms, this, e.args["to"], safe=safe)


def _neg(binder: Binder, e: exp.Neg, scope: Scope) -> Node:
    if isinstance(e.this, exp.Literal) and not e.this.is_string:
        # The sign is part of the literal, and of its type: -2147483648 is an INT.
        return bind_literal(binder.terms, "-" + e.this.this)
    return minus(binder.terms, bind(binder, e.this, scope))


def _plus(binder: Binder, e: exp.Sqrt, scope: Scope) -> Node:
    """A sign, for which `spark_tokens` has SQLGlot read an operator that Spark has not."""
    this = bind(binder, e.this, scope)
    number = isinstance(e.this, exp.Literal) and not e.this.is_string
    return this if number else call(binder.terms, "positive", [this])


def _unsigned_shift(binder: Binder, e: exp.Coalesce, scope: Scope) -> Node:
    """`>>>`, for which `spark_tokens` has SQLGlot read an operator that Spark has not."""
    operands = [e.this, *e.expressions]
    return call(binder.terms, "shiftrightunsigned", [bind(binder, o, scope) for o in operands])


def _session(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    return session_value(binder, _SESSION[e.__class__], scope)


def _null(binder: Binder, e: exp.Null, scope: Scope) -> Node:
    return binder.terms.make("Null")


def _boolean(binder: Binder, e: exp.Boolean, scope: Scope) -> Node:
    return boolean(binder.terms, bool(e.this))


def _star(binder: Binder, e: exp.Star, scope: Scope) -> Node:
    return binder.give_up("a star inside an expression")


def _inside_aggregate(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """DISTINCT and ORDER BY within an aggregate function's parentheses."""
    if not (scope.in_aggregate or scope.in_window):
        return binder.give_up(f"{e.__class__.__name__} outside an aggregate function")
    return generic(binder, e, scope)


def _bind_in(binder: Binder, e: exp.In, scope: Scope) -> Node:
    """IN of a query, or of values."""
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


def _bind_scalar(binder: Binder, e: exp.Query, scope: Scope) -> Node:
    """A query of one column that stands for a value."""
    rel = _subquery(binder, e, scope)
    if len(rel.outputs) != 1:
        binder.note("several columns", e, len(rel.outputs))
        return binder.give_up("a scalar subquery of several columns")
    e.type = rel.outputs[0].type
    return binder.terms.make("scalar", rel)


def _bind_exists(binder: Binder, e: exp.Exists, scope: Scope) -> Node:
    """EXISTS of a query, or of an array's elements."""
    if isinstance(e.this, exp.Query):
        return binder.terms.make("exists", _subquery(binder, e.this, scope))
    return generic(binder, e, scope)


def _bind_quantified(binder: Binder, e: exp.Any | exp.All, scope: Scope) -> Node:
    """ANY and ALL of a query, or of values."""
    inner = e.this.unnest() if isinstance(e.this, exp.Expr) else e.this
    if isinstance(inner, exp.Query):
        return binder.terms.make(e.__class__.__name__, _subquery(binder, inner, scope))
    if isinstance(inner, exp.Tuple):
        return generic(binder, e, scope)
    return binder.give_up(f"{e.__class__.__name__.upper()} of an expression")


def _subquery(binder: Binder, e: exp.Expr, scope: Scope) -> Any:
    from vde_dagster.semantics.binding.queries import bind_query

    if scope.lambdas:
        raise Unsupported("a subquery in a lambda")
    return bind_query(binder, e, scope, scope.ctes)


def _bind_lambda(binder: Binder, e: exp.Lambda, scope: Scope) -> Node:
    """A lambda; its parameters are known by its depth and their place."""
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


def _bind_name(binder: Binder, e: exp.Identifier, scope: Scope) -> Node:
    """A lambda's parameter, or a name that is part of the syntax (a field's, with its case)."""
    name = e.name.lower()
    for names in reversed(scope.lambdas):
        if name in names:
            return names[name]
    return binder.terms.make("name", e.name)


def _bind_parameter(binder: Binder, e: exp.Parameter, scope: Scope) -> Node:
    """The parameter of the query that a macro's word stands for."""
    if isinstance(e.this, (exp.Var, exp.Identifier, exp.Literal)):
        return binder.terms.make("symbol", e.this.name.lower())
    return binder.give_up("a macro call")


def _bind_placeholder(binder: Binder, e: exp.Placeholder, scope: Scope) -> Node:
    """A named parameter of a statement."""
    if e.this and isinstance(e.this, str):
        return binder.terms.make("symbol", e.this.lower())
    return binder.give_up("an unnamed parameter")


def _bind_dot(binder: Binder, e: exp.Dot, scope: Scope) -> Node:
    """A field of a struct, or a function in a schema."""
    if isinstance(e.expression, exp.Identifier):
        this = bind(binder, e.this, scope)
        return struct_fields(binder.terms, this, (e.expression.name,), None)
    if isinstance(e.expression, exp.Anonymous):
        return _function_of_schema(binder, e, scope)
    return binder.give_up("a star inside an expression")


def _function_of_schema(binder: Binder, e: exp.Dot, scope: Scope) -> Node:
    """A call `schema.function(…)`: one of the user's."""
    arguments = [bind(binder, argument, scope) for argument in e.expression.expressions]
    name, left = name_of_call(e.expression), e.this
    while isinstance(left, exp.Dot):
        name, left = f"{left.expression.name.lower()}.{name}", left.this
    name = f"{left.name.lower()}.{name}"
    if name in binder.scalar_functions:
        return binder.terms.make("call", name, *arguments)
    return binder.give_up(f"function {name} is not declared as deterministic", *arguments)


def _bind_bracket(binder: Binder, e: exp.Bracket, scope: Scope) -> Node:
    """An element of an array or a map."""
    if len(e.expressions) != 1 or e.args.get("offset") or e.args.get("safe"):
        return binder.give_up("brackets of an unknown form", *parts_of(binder, e, scope))
    key = bind(binder, e.expressions[0], scope)
    return binder.terms.make("element", bind(binder, e.this, scope), key)


_SESSION: dict[type, str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "current_user",
}

_HANDLERS: dict[type, Handler] = {
    exp.Column: bind_column,
    exp.Identifier: _bind_name,
    exp.Dot: _bind_dot,
    exp.Paren: _inner,
    exp.Literal: _literal,
    exp.Bracket: _bind_bracket,
    exp.Coalesce: _unsigned_shift,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.And: _junction,
    exp.Or: _junction,
    exp.Not: _not,
    exp.Between: _between,
    exp.In: _bind_in,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Neg: _neg,
    exp.Sqrt: _plus,
    exp.Lambda: _bind_lambda,
    exp.Parameter: _bind_parameter,
    exp.Placeholder: _bind_placeholder,
    exp.Subquery: _bind_scalar,
    exp.Select: _bind_scalar,
    exp.Exists: _bind_exists,
    exp.Any: _bind_quantified,
    exp.All: _bind_quantified,
    exp.Anonymous: bind_call,
    exp.Star: _star,
    exp.Window: bind_window,
    exp.Filter: modified_aggregate,
    exp.Where: _inner,
    exp.IgnoreNulls: modified_aggregate,
    exp.RespectNulls: modified_aggregate,
    exp.WithinGroup: modified_aggregate,
    exp.Distinct: _inside_aggregate,
    exp.Order: _inside_aggregate,
    exp.Ordered: _inside_aggregate,
    exp.Alias: _inner,
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(DIVISIONS, _division),
    **dict.fromkeys(_SESSION, _session),
}
