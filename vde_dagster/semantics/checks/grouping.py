"""Columns of a grouped query that are neither grouped nor aggregated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics.binder import Unsupported
from vde_dagster.semantics.calls import called
from vde_dagster.semantics.expressions import bind
from vde_dagster.semantics.finding import Finding, finding

if TYPE_CHECKING:
    from vde_dagster.semantics.algebra import Node
    from vde_dagster.semantics.binder import Binder
    from vde_dagster.semantics.names import Scope
    from vde_dagster.semantics.noted import Noted

_RULE = "ungrouped"
_AGGREGATES = ("aggregate", "ordered aggregate", "grouping")


def ungrouped(binder: Binder, noted: Noted) -> Iterator[Finding]:
    """Name the columns, each once, where they stand by themselves."""
    (scope,) = noted.details
    select = noted.where
    wrong = set(scope.ungrouped)
    told: set[Node] = set()
    for clause, items in _clauses(select):
        scope.clause = clause
        for item in items:
            for column, node in _alone(binder, item, scope, wrong):
                if node not in told:
                    told.add(node)
                    yield _finding(select, column)


def _clauses(select: exp.Expr) -> Iterator[tuple[str, list[exp.Expr]]]:
    yield "select", select.expressions
    for clause in ("having", "qualify"):
        found = select.args.get(clause)
        if found is not None:
            yield clause, [found.this]
    order = select.args.get("order")
    if order is not None:
        yield "order", order.expressions


def _alone(
    binder: Binder, e: exp.Expr, scope: Scope, wrong: set[Node]
) -> Iterator[tuple[exp.Column, Node]]:
    """The columns below an expression that are in no aggregate function and in no key."""
    if isinstance(e, exp.Query) or spark_functions.kind(called(e)) in _AGGREGATES:
        return
    if isinstance(e, exp.Column):
        node = bind(binder, e, scope)
        if node in wrong:
            yield e, node
        return
    if not isinstance(e, exp.Alias | exp.Ordered | exp.Window) and _is_key(binder, e, scope):
        return
    for child in e.iter_expressions():
        if isinstance(e, exp.Window) and child is e.this:
            # SUM(x) OVER () adds up rows of the grouped query, so `x` has to be a column there.
            for argument in child.iter_expressions():
                yield from _alone(binder, argument, scope, wrong)
        else:
            yield from _alone(binder, child, scope, wrong)


def _is_key(binder: Binder, e: exp.Expr, scope: Scope) -> bool:
    keys = scope.group_keys
    if not keys:
        return False
    try:
        return bind(binder, e, scope) in keys
    except Unsupported:
        return False


def _is_aggregate(e: exp.Expr) -> bool:
    return spark_functions.kind(called(e)) in _AGGREGATES


def _finding(select: exp.Expr, column: exp.Column) -> Finding:
    name = ".".join(part.name for part in column.parts)
    if select.args.get("group") is not None:
        message = f"column '{name}' is neither in GROUP BY nor in an aggregate function"
        hint = f"add {name} to GROUP BY, or write any_value({name})"
    elif not any(map(_is_aggregate, select.walk())):
        message = f"HAVING without GROUP BY makes one group, of which '{name}' has many values"
        hint = f"write WHERE to choose rows, or GROUP BY {name}"
    else:
        message = f"column '{name}' stands beside an aggregate function without GROUP BY"
        hint = f"add GROUP BY {name}, or write any_value({name})"
    return finding(_RULE, column, message, hint)
