"""Window functions: a value per row that depends on all rows of the group they are over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.calls import aggregate_body, called
from vde_dagster.semantics.names import Scope

if TYPE_CHECKING:
    from vde_dagster.semantics.binder import Binder

_STEADY = ("aggregate", "ranking")
_TELLING_APART = ("ordered aggregate", "tie-breaking")
_ORDERED = (spark_functions.RANKING | spark_functions.TIE_BREAKING) - {"nth_value"}
"""Functions that ask for a window with ORDER BY."""


_FRAME_ARGS = {"kind", "start", "start_side", "end", "end_side"}
_SO_FAR = ("UNBOUNDED", "PRECEDING", "CURRENT ROW", None)
_WHOLE = ("UNBOUNDED", "PRECEDING", "UNBOUNDED", "FOLLOWING")


def define_windows(windows: list[exp.Expr], scope: Scope) -> None:
    """Note the windows of a WINDOW clause."""
    for window in windows:
        scope.windows[window.this.name.lower()] = window


def bind_window(binder: Binder, e: exp.Window, scope: Scope) -> Node:
    """A ``pending window`` node, which the SELECT completes with the group that it is over."""
    from vde_dagster.semantics.expressions import bind

    if scope.clause in ("where", "on", "group", "having"):
        if scope.parent is None:
            binder.note("window in clause", e, scope.clause)
        return binder.give_up(f"a window function in {scope.clause.upper()}")
    definition = _inherit(binder, e, scope)
    if definition is None:
        return binder.give_up("an unknown window")
    partition, order, spec = definition
    if not order and called(e.this) in _ORDERED:
        binder.note("window without order", e)
    scope.in_window += 1
    try:
        body, ties = _function(binder, e.this, scope)
    finally:
        scope.in_window -= 1
    kind = spark_functions.kind(called(_bare(e.this)))
    if spec is not None and kind == "aggregate" and _bounds(spec) == _WHOLE:
        order, spec = [], None
    elif spec is not None and _is_default(spec, kind, ordered=bool(order)):
        spec = None
    frame: list[Any] = []
    if spec is not None:
        for key, value in sorted(spec.args.items()):
            if value is not None:
                frame += [key, bind(binder, value, scope) if isinstance(value, exp.Expr) else value]
        ties = ties or spec.args.get("kind") != "RANGE"
    if e.args.get("first"):
        return binder.give_up("a window with FIRST")
    scope.has_window = True
    terms = binder.terms
    return terms.make(
        "pending window",
        ties,
        body,
        terms.unordered("keys", [bind(binder, p, scope) for p in partition]),
        terms.make("order", *[sort_key(binder, o, scope) for o in order]),
        terms.make("frame", *frame),
    )


def _bare(e: exp.Expr) -> exp.Expr:
    """A window function without FILTER and the treatment of NULLs."""
    while isinstance(e, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        e = e.this
    return e


def _bounds(spec: exp.Expr) -> tuple[Any, ...]:
    """Where a frame begins and ends; without an end it ends with the row at hand."""
    parts = [spec.args.get(k) for k in ("start", "start_side", "end", "end_side")]
    return (*parts[:2], parts[2] or "CURRENT ROW", parts[3])


def _is_default(spec: exp.Expr, kind: str | None, *, ordered: bool) -> bool:
    """Whether a frame is the one that Spark takes where none is written."""
    if {key for key, value in spec.args.items() if value} - _FRAME_ARGS:
        return False
    if kind in ("ranking", "tie-breaking"):
        return False  # They have frames of their own.
    if not ordered:
        return _bounds(spec) == _WHOLE
    return spec.args.get("kind") == "RANGE" and _bounds(spec) == _SO_FAR


def _inherit(
    binder: Binder, e: exp.Window, scope: Scope
) -> tuple[list[exp.Expr], list[exp.Expr], exp.Expr | None] | None:
    """PARTITION BY, ORDER BY and frame, with those of a named window."""
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
    inherited = _inherit(binder, base, scope)
    if inherited is None:
        return None
    return partition or inherited[0], order or inherited[1], spec or inherited[2]


def _function(binder: Binder, e: exp.Expr, scope: Scope) -> tuple[Node, bool]:
    """The function, and whether it tells rows apart that sort equal.

    Aggregate functions in its arguments are those of the grouped query below the window, as in
    ``SUM(SUM(x)) OVER ()``.
    """
    from vde_dagster.semantics.expressions import bind

    if isinstance(e, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        inner, ties = _function(binder, e.this, scope)
        condition = e.args.get("expression")
        extra = [bind(binder, condition, scope)] if isinstance(condition, exp.Expr) else []
        return binder.terms.make(e.__class__.__name__, inner, *extra), ties
    if isinstance(e, exp.Anonymous):
        kind = spark_functions.kind(called(e))
        if kind in _STEADY or kind in _TELLING_APART:
            return aggregate_body(binder, e, scope), kind in _TELLING_APART
    return binder.give_up("an unknown window function", bind(binder, e, scope)), True


def sort_key(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """One ORDER BY expression with its direction and the place of NULLs."""
    from vde_dagster.semantics.expressions import bind

    if not isinstance(e, exp.Ordered):
        return binder.terms.make("sort", False, True, bind(binder, e, scope))
    if e.args.get("with_fill"):
        return binder.give_up("WITH FILL")
    return binder.terms.make(
        "sort",
        bool(e.args.get("desc")),
        bool(e.args.get("nulls_first")),
        bind(binder, e.this, scope),
    )
