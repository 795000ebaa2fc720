"""SQL expressions as nodes of the algebra; `calls` binds functions and operators."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from vde_dagster.semantics.algebra.nodes import BOOLEAN, Node, int_value, plain_string
from vde_dagster.semantics.binding import calls, windows
from vde_dagster.semantics.binding.binder import Binder, Handler, Unsupported, flat_operands
from vde_dagster.semantics.binding.names import Scope, bind_column, bind_struct_fields
from vde_dagster.semantics.function_types import has_no_text, is_refused_cast, lack_common_type
from vde_dagster.semantics.types import (
    case_branches,
    infer,
    is_refused_by_argument_types,
    is_refused_by_operand_types,
)
from vde_dagster.sql.reading import call_name, is_star


def _junction(binder: Binder, e: exp.And | exp.Or, scope: Scope) -> Node:
    operands = [
        binder.require_boolean(binder.bind(item, scope), item)
        for item in flat_operands(e, e.__class__)
    ]
    return binder.terms.combine("and" if e.__class__ is exp.And else "or", operands)


def _binary(binder: Binder, e: exp.Binary, scope: Scope) -> Node:
    kind = e.__class__
    sides = [binder.bind(e.args[side], scope) for side in ("this", "expression")]
    if kind in _ARITHMETIC:
        sides = calls.widen_literals(binder, [e.args["this"], e.args["expression"]], sides)
        if any(side.tag in BOOLEAN for side in sides):
            return binder.give_up("arithmetic with a BOOLEAN", *sides)
    if is_refused_by_operand_types(e) or (kind is exp.RegexpLike and _has_no_text(e)):
        return binder.give_up("an operator over types that it does not take", *sides)
    if kind not in calls.BINARY:
        return binder.terms.make(kind.__name__, "expression", sides[1], "this", sides[0])
    make, name = calls.BINARY[kind]
    node = make(binder.terms, name, *sides)
    if kind in calls.COMPARISONS or kind is exp.NullSafeNEQ:
        return binder.require_comparable(node, [e.args["this"], e.args["expression"]])
    return node


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, *calls.DIVISIONS)


def _has_no_text(e: exp.Binary) -> bool:
    return any(has_no_text(infer(e.args[side])) for side in ("this", "expression"))


def _like(binder: Binder, e: exp.Like | exp.ILike, scope: Scope) -> Node:
    node = binder.bind_by_class(e, scope)
    return (
        binder.give_up("LIKE of values that Spark cannot use as text", node)
        if _has_no_text(e)
        else node
    )


def _between(binder: Binder, e: exp.Between, scope: Scope) -> Node:
    if e.args.get("symmetric"):
        return binder.bind_by_class(e, scope)
    terms, this = binder.terms, binder.bind(e.this, scope)
    low = binder.bind(e.args["low"], scope)
    high = binder.bind(e.args["high"], scope)
    ends = [terms.compare("ge", this, low), terms.compare("le", this, high)]
    for name in ("low", "high"):
        binder.require_comparable(this, [e.this, e.args[name]])
    return terms.combine("and", ends)


def _case(binder: Binder, e: exp.Case, scope: Scope) -> Node:
    operand = binder.bind(e.this, scope) if e.this is not None else None
    parts: list[Node] = []
    for branch in e.args["ifs"]:
        condition = binder.bind(branch.this, scope)
        if operand is not None:
            condition = binder.terms.compare("eq", operand, condition)
            condition = binder.require_comparable(condition, [e.this, branch.this])
        condition = binder.check_condition(condition, branch.this)
        parts += [condition, binder.bind(branch.args["true"], scope)]
    default = e.args.get("default")
    other = binder.bind(default, scope) if default is not None else None
    return binder.require_common_type(calls.make_case(binder.terms, parts, other), case_branches(e))


def _bind_escape(binder: Binder, e: exp.Escape, scope: Scope) -> Node:
    like = e.this.unnest()
    if not isinstance(like, exp.Like | exp.ILike) or isinstance(like.expression, exp.Any | exp.All):
        return binder.give_up("ESCAPE of something unknown", *binder.bind_children(e, scope))
    escape = binder.bind(e.expression, scope)
    pattern, this = binder.bind(like.expression, scope), binder.bind(like.this, scope)
    parts = ("escape", escape, "expression", pattern, "this", this)
    node = binder.terms.make(like.__class__.__name__, *parts)
    return binder.terms.negate(node) if like.args.get("negate") else node


def _cast(binder: Binder, e: exp.Cast, scope: Scope) -> Node:
    safe = bool(e.args.get("safe"))
    known = {"this", "to", "safe", "requires_string"}
    others = [key for key, value in e.args.items() if value and key not in known]
    this = binder.bind(e.this, scope)
    if others:
        return binder.give_up(f"CAST with {', '.join(others)}", this)
    if is_refused_cast(infer(e.this), e.args["to"]):
        return binder.give_up("a cast between types that Spark does not convert", this)
    return calls.make_cast(binder.terms, this, e.args["to"], safe=safe)


def _neg(binder: Binder, e: exp.Neg, scope: Scope) -> Node:
    if isinstance(e.this, exp.Literal) and not e.this.is_string:
        # The sign is part of the literal, and of its type: -2147483648 is an INT.
        return binder.terms.literal("-" + e.this.this)
    return _signed(binder, "negative", e, binder.terms.minus(binder.bind(e.this, scope)))


def _signed(binder: Binder, name: str, e: exp.Unary | exp.Sqrt, node: Node) -> Node:
    refused = is_refused_by_argument_types(name, [e.this])
    return binder.give_up("a sign before a value that is not a number", node) if refused else node


def _plus(binder: Binder, e: exp.Sqrt, scope: Scope) -> Node:
    # `grammar.tokens` writes a unary plus as a square root.
    this = binder.bind(e.this, scope)
    number = isinstance(e.this, exp.Literal) and not e.this.is_string
    return (
        this
        if number
        else _signed(binder, "positive", e, calls.make_call(binder.terms, "positive", this))
    )


def _inside_aggregate(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    if not (scope.in_aggregate or scope.in_window):
        return binder.give_up(f"{e.__class__.__name__} outside an aggregate function")
    if any(map(is_star, e.expressions)):
        nodes = calls.bind_arguments(binder, e, scope)
        return binder.terms.make(e.__class__.__name__, "expressions", len(nodes), *nodes)
    return binder.bind_by_class(e, scope)


def _bind_is(binder: Binder, e: exp.Is, scope: Scope) -> Node:
    this = binder.bind(e.this, scope)
    if isinstance(e.expression, exp.Boolean):
        this = binder.require_boolean(this, e.this)
    return binder.terms.make("Is", "expression", binder.bind(e.expression, scope), "this", this)


def _bind_in(binder: Binder, e: exp.In, scope: Scope) -> Node:
    if any(e.args.get(key) for key in ("unnest", "field", "is_global")):
        return binder.give_up("IN over an array", *binder.bind_children(e, scope))
    this = binder.bind(e.this, scope)
    query = e.args.get("query")
    if query is None and len(e.expressions) == 1 and isinstance(e.expressions[0], exp.Query):
        query = e.expressions[0]
    if query is not None:
        rel = _subquery(binder, query, scope)
        if len(rel.outputs) == 1 and lack_common_type((infer(e.this), rel.outputs[0].type)):
            return binder.give_up("IN over values of another type", this)
        return binder.terms.make("in query", this, rel)
    members = [binder.bind(member, scope) for member in e.expressions]
    if any(lack_common_type((infer(e.this), infer(member))) for member in e.expressions):
        return binder.give_up("IN over values of another type", this, *members)
    strings = any(member.tag == "lit" and member.parts[0] == "s" for member in members)
    if strings != any(int_value(member) is not None for member in members):
        listed = binder.terms.unordered("in list", list(dict.fromkeys(members)))
    else:
        # Their common type may depend on their order.
        listed = binder.terms.make("in order", *members)
    return binder.terms.make("in", this, listed)


def _bind_scalar(binder: Binder, e: exp.Query, scope: Scope) -> Node:
    rel = _subquery(binder, e, scope)
    if len(rel.outputs) != 1:
        binder.record_refusal("several columns", e, len(rel.outputs))
        return binder.give_up("a scalar subquery of several columns")
    e.type = rel.outputs[0].type
    return binder.terms.make("scalar", rel)


def _bind_exists(binder: Binder, e: exp.Exists, scope: Scope) -> Node:
    if isinstance(e.this, exp.Query):
        return binder.terms.make("exists", _subquery(binder, e.this, scope))
    return binder.bind_by_class(e, scope)


def _bind_quantified(binder: Binder, e: exp.Any | exp.All, scope: Scope) -> Node:
    if isinstance(e.this.unnest(), exp.Tuple):
        return binder.bind_by_class(e, scope)
    return binder.give_up(f"{e.__class__.__name__.upper()} of an expression")


def _subquery(binder: Binder, e: exp.Expr, scope: Scope) -> Any:
    from vde_dagster.semantics.binding.queries import bind_query

    if scope.lambdas:
        raise Unsupported("a subquery in a lambda")
    return bind_query(binder, e, scope, scope.ctes)


def _bind_lambda(binder: Binder, e: exp.Lambda, scope: Scope) -> Node:
    depth = len(scope.lambdas)
    names = {
        p.name.lower(): binder.terms.make("parameter", depth, i)
        for i, p in enumerate(e.expressions)
    }
    scope.lambdas.append(names)
    try:
        body = binder.bind(e.this, scope)
    finally:
        scope.lambdas.pop()
    return binder.terms.make("lambda", depth, len(names), body)


def _bind_name(binder: Binder, e: exp.Identifier, scope: Scope) -> Node:
    name = e.name.lower()
    for names in reversed(scope.lambdas):
        if name in names:
            return names[name]
    return binder.terms.make("name", e.name)


def _bind_parameter(binder: Binder, e: exp.Parameter, scope: Scope) -> Node:
    if isinstance(e.this, (exp.Var, exp.Identifier, exp.Literal)):
        return binder.terms.make("symbol", e.this.name.lower())
    return binder.give_up("a macro call")


def _bind_dot(binder: Binder, e: exp.Dot, scope: Scope) -> Node:
    if isinstance(e.expression, exp.Identifier):
        this = binder.bind(e.this, scope)
        return bind_struct_fields(binder, this, (e.expression.name,), infer(e.this))
    if isinstance(e.expression, exp.Anonymous):
        return _function_of_schema(binder, e, scope)
    return binder.give_up("a star inside an expression")


def _function_of_schema(binder: Binder, e: exp.Dot, scope: Scope) -> Node:
    arguments = [binder.bind(argument, scope) for argument in e.expression.expressions]
    name, left = call_name(e.expression), e.this
    while isinstance(left, exp.Dot):
        name, left = f"{left.expression.name.lower()}.{name}", left.this
    name = f"{left.name.lower()}.{name}"
    if name in binder.scalar_functions:
        return binder.terms.make("call", name, *arguments)
    return binder.give_up_call(f"function {name} is not declared as deterministic", arguments)


def _bind_bracket(binder: Binder, e: exp.Bracket, scope: Scope) -> Node:
    if len(e.expressions) != 1 or e.args.get("offset") or e.args.get("safe"):
        return binder.give_up("brackets of an unknown form", *binder.bind_children(e, scope))
    key = binder.bind(e.expressions[0], scope)
    this = binder.bind(e.this, scope)
    kind = infer(e.this)
    written = key.tag == "lit" and e.expressions[0].find(exp.Column) is None
    name = plain_string(key.parts[1]) if written else None
    if name and kind is not None and kind.this == exp.DType.STRUCT:
        return bind_struct_fields(binder, this, (name,), kind)
    if kind is not None and kind.this not in _WITH_ELEMENTS:
        return binder.give_up("an element of a single value", this, key)
    return binder.terms.make("element", this, key)


_D = exp.DType
_WITH_ELEMENTS = {_D.ARRAY, _D.MAP, _D.VARIANT, _D.UNKNOWN}
_AGGREGATES = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)

HANDLERS: dict[type, Handler] = {
    exp.Column: bind_column,
    exp.Identifier: _bind_name,
    exp.Dot: _bind_dot,
    exp.Literal: lambda b, e, scope: b.terms.literal(e.this),
    exp.Bracket: _bind_bracket,
    # `>>>`, for which `grammar.tokens` has SQLGlot read an operator that Spark has not.
    exp.Coalesce: lambda b, e, scope: calls.make_call(
        b.terms, "shiftrightunsigned", *(b.bind(o, scope) for o in (e.this, *e.expressions))
    ),
    exp.Null: lambda b, e, scope: b.terms.make("Null"),
    exp.Boolean: lambda b, e, scope: b.terms.boolean(bool(e.this)),
    exp.Not: lambda b, e, scope: b.terms.negate(b.require_boolean(b.bind(e.this, scope), e.this)),
    exp.Between: _between,
    exp.In: _bind_in,
    exp.Is: _bind_is,
    exp.Escape: _bind_escape,
    exp.Case: _case,
    **dict.fromkeys((exp.Like, exp.ILike), _like),
    exp.Neg: _neg,
    exp.Sqrt: _plus,
    exp.Lambda: _bind_lambda,
    exp.Parameter: _bind_parameter,
    exp.Exists: _bind_exists,
    exp.Anonymous: calls.bind_call,
    exp.Star: lambda b, e, scope: b.give_up("a star inside an expression"),
    exp.Window: windows.bind_window,
    **dict.fromkeys((exp.Paren, exp.Where, exp.Alias), lambda b, e, scope: b.bind(e.this, scope)),
    **dict.fromkeys((exp.And, exp.Or), _junction),
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    **dict.fromkeys((exp.Subquery, exp.Select), _bind_scalar),
    **dict.fromkeys((exp.Any, exp.All), _bind_quantified),
    **dict.fromkeys(_AGGREGATES, calls.bind_aggregate_modifier),
    **dict.fromkeys((exp.Distinct, exp.Order, exp.Ordered), _inside_aggregate),
    **dict.fromkeys([*calls.BINARY, *calls.DIVISIONS], _binary),
    exp.CurrentDate: lambda b, e, scope: calls.bind_session_value(b, "current_date", scope),
    exp.CurrentTime: lambda b, e, scope: calls.bind_session_value(b, "current_time", scope),
    exp.CurrentTimestamp: lambda b, e, scope: calls.bind_session_value(
        b, "current_timestamp", scope
    ),
    exp.CurrentUser: lambda b, e, scope: calls.bind_session_value(b, "current_user", scope),
    exp.SessionUser: lambda b, e, scope: calls.bind_session_value(b, "current_user", scope),
}
