"""Reading SQL expressions into the algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from vde_dagster.semantics import functions
from vde_dagster.semantics._sqlglot import data_type, type_sql, type_text
from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.binder import Binder, Unsupported
from vde_dagster.semantics.columns import bind_column, struct_fields
from vde_dagster.semantics.names import Scope
from vde_dagster.semantics.normalise import (
    arithmetic,
    boolean,
    combine,
    compare,
    minus,
    negate,
    number,
)

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
    if e.args.get("negate"):  # how newer versions of SQLGlot write NOT LIKE
        e.set("negate", None)
        try:
            return negate(binder.terms, bind(binder, e, scope))
        finally:
            e.set("negate", True)
    handler = _HANDLERS.get(e.__class__)
    if handler is not None:
        return handler(binder, e, scope)
    name = e.__class__.__name__
    if name in functions.SCALAR_CLASSES or name in functions.SYNTAX_CLASSES:
        return generic(binder, e, scope)
    if name in functions.SESSION_CLASSES:
        return generic(binder, e, scope)
    if isinstance(e, exp.AggFunc):
        return _aggregate_class(binder, e, scope, name)
    why = f"{_sql_name(e)} is not known to be deterministic"
    return binder.give_up(why, *_parts(binder, e, scope))


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
                parts.append(_part(binder, item, scope))
        else:
            parts.append(_part(binder, value, scope))
    return binder.terms.make(tag or e.__class__.__name__, *parts)


def _part(binder: Binder, value: Any, scope: Scope) -> Any:
    if isinstance(value, exp.Expr):
        return bind(binder, value, scope)
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (exp.DType, float)):
        return str(value)
    raise Unsupported(f"an argument of type {type(value).__name__}")


def _parts(binder: Binder, e: exp.Expr, scope: Scope) -> list[Node]:
    """The nodes of an expression's children, for the lineage of what is not understood."""
    return [bind(binder, child, scope) for child in e.iter_expressions()]


def _sql_name(e: exp.Expr) -> str:
    return e.sql_name() if isinstance(e, exp.Func) else e.__class__.__name__


def _aggregate_class(binder: Binder, e: exp.Expr, scope: Scope, name: str) -> Node:
    if name in functions.AGGREGATE_CLASSES:
        return _aggregate(binder, e, scope, ordered=False)
    if name in functions.ORDERED_AGGREGATE_CLASSES:
        return _aggregate(binder, e, scope, ordered=True)
    if name in functions.RANKING_CLASSES or name in functions.TIE_BREAKING_CLASSES:
        return binder.give_up(f"{name} without OVER", *_parts(binder, e, scope))
    return binder.give_up(f"aggregate function {_sql_name(e)}", *_parts(binder, e, scope))


def _aggregate(binder: Binder, e: exp.Expr, scope: Scope, *, ordered: bool) -> Node:
    if scope.in_aggregate:
        return binder.give_up("nested aggregate functions", *_parts(binder, e, scope))
    if isinstance(e, exp.GroupingId) and not e.expressions:
        return binder.give_up("GROUPING_ID() of unnamed keys")
    if scope.clause in ("where", "on", "group"):
        return binder.give_up(f"an aggregate function in {scope.clause.upper()}")
    scope.in_aggregate += 1
    try:
        body = count(binder, e, scope) if isinstance(e, exp.Count) else generic(binder, e, scope)
    finally:
        scope.in_aggregate -= 1
    scope.has_aggregate = True
    return binder.terms.make("ordered aggregate" if ordered else "aggregate", body)


def count(binder: Binder, e: exp.Count, scope: Scope) -> Node:
    """COUNT(*) and COUNT of a literal count rows alike."""
    this = e.this
    if isinstance(this, exp.Star):
        if this.args.get("except_") or this.args.get("replace"):
            return binder.give_up("COUNT(* EXCEPT …)")
        return binder.terms.make("count rows")
    if isinstance(this, (exp.Literal, exp.Boolean)) and not e.expressions:
        return binder.terms.make("count rows")
    operands = [this, *e.expressions]
    if any(isinstance(o, exp.Column) and isinstance(o.this, exp.Star) for o in operands):
        return binder.give_up("COUNT(t.*)")
    return generic(binder, e, scope)


def _paren(binder: Binder, e: exp.Paren, scope: Scope) -> Node:
    return bind(binder, e.this, scope)


def _literal(binder: Binder, e: exp.Literal, scope: Scope) -> Node:
    if e.args.get("is_string"):
        return binder.terms.make("lit", "s", e.this)
    return number(binder.terms, e.this)


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


_COMPARISONS = {
    exp.EQ: "eq",
    exp.NEQ: "neq",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.NullSafeEQ: "nseq",
}


def _comparison(binder: Binder, e: exp.Binary, scope: Scope) -> Node:
    left, right = bind(binder, e.this, scope), bind(binder, e.expression, scope)
    return compare(binder.terms, _COMPARISONS[e.__class__], left, right)


def _null_safe_neq(binder: Binder, e: exp.NullSafeNEQ, scope: Scope) -> Node:
    left, right = bind(binder, e.this, scope), bind(binder, e.expression, scope)
    return negate(binder.terms, compare(binder.terms, "nseq", left, right))


_ARITHMETIC = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul"}


def _arithmetic(binder: Binder, e: exp.Binary, scope: Scope) -> Node:
    left, right = bind(binder, e.this, scope), bind(binder, e.expression, scope)
    return arithmetic(binder.terms, _ARITHMETIC[e.__class__], left, right)


def _between(binder: Binder, e: exp.Between, scope: Scope) -> Node:
    if e.args.get("symmetric"):
        return generic(binder, e, scope)
    terms, this = binder.terms, bind(binder, e.this, scope)
    low = bind(binder, e.args["low"], scope)
    high = bind(binder, e.args["high"], scope)
    return combine(
        terms, "and", [compare(terms, "ge", this, low), compare(terms, "le", this, high)]
    )


def _in(binder: Binder, e: exp.In, scope: Scope) -> Node:
    if any(e.args.get(key) for key in ("unnest", "field", "is_global")):
        return binder.give_up("IN over an array", *_parts(binder, e, scope))
    this = bind(binder, e.this, scope)
    query = e.args.get("query")
    if query is None and len(e.expressions) == 1 and isinstance(e.expressions[0], exp.Query):
        query = e.expressions[0]
    if query is not None:
        return binder.terms.make("in query", this, _subquery(binder, query, scope))
    members = [bind(binder, member, scope) for member in e.expressions]
    listed = binder.terms.unordered("in list", list(dict.fromkeys(members)))
    return binder.terms.make("in", this, listed)


def _case(binder: Binder, e: exp.Case, scope: Scope) -> Node:
    operand = bind(binder, e.this, scope) if e.this is not None else None
    parts: list[Node] = []
    for branch in e.args["ifs"]:
        condition = bind(binder, branch.this, scope)
        if operand is not None:
            condition = compare(binder.terms, "eq", operand, condition)
        parts += [condition, bind(binder, branch.args["true"], scope)]
    return _choice(binder, parts, e.args.get("default"), scope)


def _if(binder: Binder, e: exp.If, scope: Scope) -> Node:
    parts = [bind(binder, e.this, scope), bind(binder, e.args["true"], scope)]
    return _choice(binder, parts, e.args.get("false"), scope)


def _choice(binder: Binder, parts: list[Node], default: exp.Expr | None, scope: Scope) -> Node:
    """CASE and IF; a missing ELSE is NULL."""
    other = bind(binder, default, scope) if default is not None else None
    if other is None or other.tag == "Null":
        return binder.terms.make("case", *parts)
    return binder.terms.make("case", *parts, other)


def _cast(binder: Binder, e: exp.Cast, scope: Scope) -> Node:
    target = e.args["to"]
    text = type_sql(target, binder.dialect)
    flags = [
        f"{key}={value}"
        for key, value in sorted(e.args.items())
        if key not in ("this", "to") and value and not isinstance(value, exp.Expr)
    ]
    extra = [
        bind(binder, value, scope)
        for key, value in sorted(e.args.items())
        if key not in ("this", "to") and isinstance(value, exp.Expr)
    ]
    kind = e.__class__.__name__
    if kind == "Cast" and binder.dialect in ("spark", "databricks", "spark2"):
        kind = "TryCast"  # what CAST(…) parses to there; INT(x) and DATE '…' parse to Cast
    this = bind(binder, e.this, scope)
    return binder.terms.make("cast", kind, text, *flags, this, *extra)


def _neg(binder: Binder, e: exp.Neg, scope: Scope) -> Node:
    return minus(binder.terms, bind(binder, e.this, scope))


def _dot(binder: Binder, e: exp.Dot, scope: Scope) -> Node:
    if isinstance(e.expression, exp.Identifier):
        this = bind(binder, e.this, scope)
        return struct_fields(binder.terms, this, (e.expression.name.lower(),))
    return binder.give_up("a function of a schema or a struct star")


def _identifier(binder: Binder, e: exp.Identifier, scope: Scope) -> Node:
    """A lambda's parameter, or a name that is part of the syntax (a field's, with its case)."""
    name = e.name.lower()
    for names in reversed(scope.lambdas):
        if name in names:
            return names[name]
    return binder.terms.make("name", e.name)


def _lambda(binder: Binder, e: exp.Lambda, scope: Scope) -> Node:
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


def _parameter(binder: Binder, e: exp.Parameter, scope: Scope) -> Node:
    if isinstance(e.this, (exp.Var, exp.Identifier, exp.Literal)):
        return binder.terms.make("symbol", e.this.name.lower())
    return binder.give_up("a macro call")


def _placeholder(binder: Binder, e: exp.Placeholder, scope: Scope) -> Node:
    if e.this and isinstance(e.this, str):
        return binder.terms.make("symbol", e.this.lower())
    return binder.give_up("an unnamed parameter")


def _null(binder: Binder, e: exp.Null, scope: Scope) -> Node:
    return binder.terms.make("Null")


def _boolean(binder: Binder, e: exp.Boolean, scope: Scope) -> Node:
    return boolean(binder.terms, bool(e.this))


def _subquery(binder: Binder, e: exp.Expr, scope: Scope) -> Any:
    from vde_dagster.semantics.queries import bind_query

    if scope.lambdas:
        raise Unsupported("a subquery in a lambda")
    return bind_query(binder, e, scope, scope.ctes)


def _scalar(binder: Binder, e: exp.Query, scope: Scope) -> Node:
    rel = _subquery(binder, e, scope)
    if len(rel.outputs) != 1:
        return binder.give_up("a scalar subquery of several columns")
    e.type = rel.outputs[0].type
    return binder.terms.make("scalar", rel)


def _exists(binder: Binder, e: exp.Exists, scope: Scope) -> Node:
    if isinstance(e.this, exp.Query):
        return binder.terms.make("exists", _subquery(binder, e.this, scope))
    return generic(binder, e, scope)


def _quantified(binder: Binder, e: exp.Any | exp.All, scope: Scope) -> Node:
    inner = e.this.unnest() if isinstance(e.this, exp.Expr) else e.this
    if isinstance(inner, exp.Query):
        return binder.terms.make(e.__class__.__name__, _subquery(binder, inner, scope))
    if isinstance(inner, exp.Tuple):
        return generic(binder, e, scope)
    return binder.give_up(f"{e.__class__.__name__.upper()} of an expression")


_CAST_NAMES = {"bigint", "smallint", "tinyint", "float", "boolean", "binary", "decimal"}
"""Spark's casts that are written as functions and that SQLGlot does not know as such."""


def _anonymous(binder: Binder, e: exp.Anonymous, scope: Scope) -> Node:
    name = str(e.name).lower()
    if name in functions.AGGREGATE_NAMES or name in functions.ORDERED_AGGREGATE_NAMES:
        return _aggregate(binder, e, scope, ordered=name in functions.ORDERED_AGGREGATE_NAMES)
    known = (
        name in functions.SCALAR_NAMES
        or name in functions.SESSION_NAMES
        or name in binder.scalar_functions
    )
    arguments = [bind(binder, a, scope) for a in e.expressions]
    if name in _CAST_NAMES and len(arguments) == 1:
        target = type_text(data_type(name, binder.dialect), binder.dialect)
        return binder.terms.make("cast", "TryCast", target, arguments[0])
    if not known:
        return binder.give_up(f"function {name} is not declared as deterministic", *arguments)
    return binder.terms.make("call", name, *arguments)


def _star(binder: Binder, e: exp.Star, scope: Scope) -> Node:
    return binder.give_up("a star inside an expression")


def _struct(binder: Binder, e: exp.Struct, scope: Scope) -> Node:
    """STRUCT, with stars expanded; field names are part of the value, with their case."""
    from vde_dagster.semantics.stars import expand

    parts: list[Any] = []
    for item in e.expressions:
        if item.is_star:
            for output in expand(binder, item, scope):
                parts += [output.name, output.node]
        elif isinstance(item, exp.PropertyEQ):
            parts += [item.this.name, bind(binder, item.expression, scope)]
        elif isinstance(item, exp.Alias):
            parts += [item.alias, bind(binder, item.this, scope)]
        else:
            parts += [None, bind(binder, item, scope)]
    return binder.terms.make("struct", *parts)


def _window(binder: Binder, e: exp.Window, scope: Scope) -> Node:
    from vde_dagster.semantics.windows import bind_window

    return bind_window(binder, e, scope)


def _modified_aggregate(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """FILTER, IGNORE NULLS and WITHIN GROUP around an aggregate function."""
    inner = bind(binder, e.this, scope)
    if inner.tag not in ("aggregate", "ordered aggregate"):
        return binder.give_up(f"{e.__class__.__name__} of something unknown", inner)
    extra: list[Any] = []
    scope.in_aggregate += 1
    try:
        for key, value in sorted(e.args.items()):
            if key != "this" and value is not None:
                extra += [key, _part(binder, value, scope)]
    finally:
        scope.in_aggregate -= 1
    body = binder.terms.make(e.__class__.__name__, inner.parts[0], *extra)
    return binder.terms.make(inner.tag, body)


def _filter(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    if isinstance(e.this, (exp.AggFunc, exp.Anonymous, exp.IgnoreNulls, exp.WithinGroup)):
        return _modified_aggregate(binder, e, scope)
    return binder.give_up("FILTER of something unknown")


def _where(binder: Binder, e: exp.Where, scope: Scope) -> Node:
    return bind(binder, e.this, scope)


def _inside_aggregate(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """DISTINCT and ORDER BY within an aggregate function's parentheses."""
    if not (scope.in_aggregate or scope.in_window):
        return binder.give_up(f"{e.__class__.__name__} outside an aggregate function")
    return generic(binder, e, scope)


def _alias(binder: Binder, e: exp.Alias, scope: Scope) -> Node:
    return bind(binder, e.this, scope)


def _generator(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    return binder.give_up("a generator inside an expression", *_parts(binder, e, scope))


_HANDLERS: dict[type, Handler] = {
    exp.Column: bind_column,
    exp.Identifier: _identifier,
    exp.Dot: _dot,
    exp.Paren: _paren,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.And: _junction,
    exp.Or: _junction,
    exp.Not: _not,
    exp.Between: _between,
    exp.In: _in,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Neg: _neg,
    exp.NullSafeNEQ: _null_safe_neq,
    exp.Lambda: _lambda,
    exp.Parameter: _parameter,
    exp.Placeholder: _placeholder,
    exp.Subquery: _scalar,
    exp.Select: _scalar,
    exp.Exists: _exists,
    exp.Any: _quantified,
    exp.All: _quantified,
    exp.Anonymous: _anonymous,
    exp.Star: _star,
    exp.Struct: _struct,
    exp.Window: _window,
    exp.Filter: _filter,
    exp.Where: _where,
    exp.IgnoreNulls: _modified_aggregate,
    exp.RespectNulls: _modified_aggregate,
    exp.WithinGroup: _modified_aggregate,
    exp.Distinct: _inside_aggregate,
    exp.Order: _inside_aggregate,
    exp.Ordered: _inside_aggregate,
    exp.Alias: _alias,
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
}
for _name in functions.GENERATOR_CLASSES:
    if hasattr(exp, _name):
        _HANDLERS[getattr(exp, _name)] = _generator
