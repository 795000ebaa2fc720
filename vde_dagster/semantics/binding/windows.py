"""Calls with OVER, and the keys that sort their rows."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import called_function
from vde_dagster.semantics.algebra.nodes import Node
from vde_dagster.semantics.binding.binder import Binder
from vde_dagster.semantics.binding.calls import (
    bind_aggregate_body,
    check_argument_count,
    check_argument_types,
)
from vde_dagster.semantics.binding.names import Scope
from vde_dagster.semantics.simplify.facts import Facts

_STEADY = ("aggregate", "ranking")
_TELLING_APART = ("ordered aggregate", "tie-breaking")
_ORDERED = (spark_functions.RANKING | spark_functions.TIE_BREAKING) - {"nth_value"}
"""Functions that need a window with ORDER BY."""


_BY_ROWS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "ntile"})
"""Functions that always use the frame of all rows up to the current one."""
_FRAME_ARGS = {"kind", "start", "start_side", "end", "end_side"}
_SO_FAR = ("UNBOUNDED", "PRECEDING", "CURRENT ROW", None)
_WHOLE = ("UNBOUNDED", "PRECEDING", "UNBOUNDED", "FOLLOWING")


def bind_window(binder: Binder, e: exp.Window, scope: Scope) -> Node:
    """Bind a window function without its rows, which `complete_windows` adds later."""
    if scope.clause in ("where", "on", "group", "having"):
        if scope.parent is None:
            binder.record_refusal("window in clause", e, scope.clause)
        return binder.give_up(f"a window function in {scope.clause.upper()}")
    definition = _window_definition(binder, e, scope)
    if definition is None:
        return binder.give_up("an unknown window")
    partition, order, spec = definition
    if not order and called_function(e.this) in _ORDERED:
        binder.record_refusal("window without order", e)
    scope.in_window += 1
    try:
        body, ties = _bind_window_function(binder, e.this, scope)
    finally:
        scope.in_window -= 1
    kind = spark_functions.function_kind(called_function(_unwrap_modifiers(e.this)))
    keys = [bind_sort_key(binder, o, scope) for o in order]
    whole = spec is not None and kind == "aggregate" and _bounds(spec) == _WHOLE
    facts = Facts(binder.terms)
    if whole and all(facts.never_fails(key.parts[-1]) for key in keys):
        keys, spec = [], None
    elif spec is not None and _is_default(
        spec, called_function(_unwrap_modifiers(e.this)), ordered=bool(order)
    ):
        spec = None
    frame: list[Any] = []
    if spec is not None:
        for key, value in sorted(spec.args.items()):
            if value is not None:
                frame += [key, binder.bind(value, scope) if isinstance(value, exp.Expr) else value]
        ties = ties or spec.args.get("kind") != "RANGE"
    if e.args.get("first"):
        return binder.give_up("a window with FIRST")
    scope.has_window = True
    terms = binder.terms
    return terms.make(
        "pending window",
        ties,
        body,
        terms.unordered("keys", [binder.bind(p, scope) for p in partition]),
        terms.make("order", *keys),
        terms.make("frame", *frame),
    )


def _unwrap_modifiers(e: exp.Expr) -> exp.Expr:
    while isinstance(e, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        e = e.this
    return e


def _bounds(spec: exp.Expr) -> tuple[Any, ...]:
    parts = [spec.args.get(k) for k in ("start", "start_side", "end", "end_side")]
    return (*parts[:2], parts[2] or "CURRENT ROW", parts[3])


def _is_default(spec: exp.Expr, name: str, *, ordered: bool) -> bool:
    if {key for key, value in spec.args.items() if value} - _FRAME_ARGS:
        return False
    kind, bounds = spec.args.get("kind"), _bounds(spec)
    if spark_functions.function_kind(name) in ("ranking", "tie-breaking"):
        return name in _BY_ROWS and kind == "ROWS" and bounds == _SO_FAR
    if not ordered:
        return bounds == _WHOLE
    return kind == "RANGE" and bounds == _SO_FAR


def _window_definition(
    binder: Binder, e: exp.Window, scope: Scope
) -> tuple[list[exp.Expr], list[exp.Expr], exp.Expr | None] | None:
    partition = list(e.args.get("partition_by") or [])
    order_by = e.args.get("order")
    order = list(order_by.expressions) if order_by is not None else []
    spec = e.args.get("spec")
    name = e.args.get("alias")
    if name is None:
        return partition, order, spec
    base = scope.windows.get(name.name.lower())
    if base is None or base is e:
        return None
    inherited = _window_definition(binder, base, scope)
    if inherited is None:
        return None
    return partition or inherited[0], order or inherited[1], spec or inherited[2]


def _bind_window_function(binder: Binder, e: exp.Expr, scope: Scope) -> tuple[Node, bool]:
    """Bind a window's function, and return whether its result can differ for equal sort keys."""
    if isinstance(e, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        inner, ties = _bind_window_function(binder, e.this, scope)
        condition = e.args.get("expression")
        if isinstance(condition, exp.Expr):
            return binder.give_up("FILTER of a window", inner, binder.bind(condition, scope)), ties
        return binder.terms.make(e.__class__.__name__, inner), ties
    if isinstance(e, exp.Anonymous):
        kind = spark_functions.function_kind(called_function(e))
        if kind in _STEADY or kind in _TELLING_APART:
            check_argument_count(binder, e)
            # Aggregate functions in the arguments, as in SUM(SUM(x)) OVER (), are computed by the
            # grouped query that the window reads.
            body = check_argument_types(
                binder, e, called_function(e), bind_aggregate_body(binder, e, scope)
            )
            if any(isinstance(argument, exp.Distinct) for argument in e.expressions):
                return binder.give_up("DISTINCT in a window", body), False
            return body, kind in _TELLING_APART
    return binder.give_up("an unknown window function", binder.bind(e, scope)), True


def bind_sort_key(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    if not isinstance(e, exp.Ordered):
        return binder.terms.make("sort", False, True, binder.bind(e, scope))
    if e.args.get("with_fill"):
        return binder.give_up("WITH FILL")
    return binder.terms.make(
        "sort",
        bool(e.args.get("desc")),
        bool(e.args.get("nulls_first")),
        binder.bind(e.this, scope),
    )
