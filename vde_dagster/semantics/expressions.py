"""Reading SQL expressions into the algebra.

`calls` reads functions, `subqueries` queries in expressions, `lambdas` names that are no columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from vde_dagster.semantics import functions
from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.binder import Binder, Unsupported
from vde_dagster.semantics.calls import bind_call, modified_aggregate, session_value
from vde_dagster.semantics.columns import bind_column
from vde_dagster.semantics.lambdas import bind_lambda, bind_name, bind_parameter, bind_placeholder
from vde_dagster.semantics.literals import bind_literal
from vde_dagster.semantics.names import Scope
from vde_dagster.semantics.normalise import boolean, combine, compare, minus, negate
from vde_dagster.semantics.operators import BINARY, COMPARISONS, DIVISIONS, call, cast, choice
from vde_dagster.semantics.paths import bind_bracket, bind_dot
from vde_dagster.semantics.subqueries import bind_exists, bind_in, bind_quantified, bind_scalar

Handler = Callable[[Binder, Any, Scope], Node]


def bind(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """Read one expression.

    Args:
        binder: The query's context.
        e: The expression.
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
    if name in functions.SYNTAX_CLASSES:
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


def _paren(binder: Binder, e: exp.Paren, scope: Scope) -> Node:
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


def _window(binder: Binder, e: exp.Window, scope: Scope) -> Node:
    from vde_dagster.semantics.windows import bind_window

    return bind_window(binder, e, scope)


def _where(binder: Binder, e: exp.Where, scope: Scope) -> Node:
    return bind(binder, e.this, scope)


def _inside_aggregate(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """DISTINCT and ORDER BY within an aggregate function's parentheses."""
    if not (scope.in_aggregate or scope.in_window):
        return binder.give_up(f"{e.__class__.__name__} outside an aggregate function")
    return generic(binder, e, scope)


def _alias(binder: Binder, e: exp.Alias, scope: Scope) -> Node:
    return bind(binder, e.this, scope)


_SESSION: dict[type, str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "current_user",
}

_HANDLERS: dict[type, Handler] = {
    exp.Column: bind_column,
    exp.Identifier: bind_name,
    exp.Dot: bind_dot,
    exp.Paren: _paren,
    exp.Literal: _literal,
    exp.Bracket: bind_bracket,
    exp.Coalesce: _unsigned_shift,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.And: _junction,
    exp.Or: _junction,
    exp.Not: _not,
    exp.Between: _between,
    exp.In: bind_in,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Neg: _neg,
    exp.Sqrt: _plus,
    exp.Lambda: bind_lambda,
    exp.Parameter: bind_parameter,
    exp.Placeholder: bind_placeholder,
    exp.Subquery: bind_scalar,
    exp.Select: bind_scalar,
    exp.Exists: bind_exists,
    exp.Any: bind_quantified,
    exp.All: bind_quantified,
    exp.Anonymous: bind_call,
    exp.Star: _star,
    exp.Window: _window,
    exp.Filter: modified_aggregate,
    exp.Where: _where,
    exp.IgnoreNulls: modified_aggregate,
    exp.RespectNulls: modified_aggregate,
    exp.WithinGroup: modified_aggregate,
    exp.Distinct: _inside_aggregate,
    exp.Order: _inside_aggregate,
    exp.Ordered: _inside_aggregate,
    exp.Alias: _alias,
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(DIVISIONS, _division),
    **dict.fromkeys(_SESSION, _session),
}
