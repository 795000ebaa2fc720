"""Calls that Spark refuses: of functions that nobody knows, and where they may not stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vde_dagster.base.suggestions import closest
from vde_dagster.semantics import spark_functions
from vde_dagster.semantics.finding import Finding, finding
from vde_dagster.sql.reading import name_of_call

if TYPE_CHECKING:
    from vde_dagster.semantics.binder import Binder
    from vde_dagster.semantics.noted import Noted

_CLAUSES = {"where": "WHERE", "on": "a join's ON", "group": "GROUP BY", "having": "HAVING"}


def _unknown(binder: Binder, noted: Noted) -> Finding:
    name = name_of_call(noted.where)
    near = closest(name, [*spark_functions.names(), *binder.functions])
    hint = f"did you mean '{near}'? " if near else ""
    return finding(
        noted.rule,
        noted.where,
        f"Spark has no function '{name}'",
        f"{hint}Functions that your session registers are declared in pyproject.toml: "
        f'functions = ["{name}"] under [tool.vde]',
    )


def _aggregate_in_clause(binder: Binder, noted: Noted) -> Finding:
    (clause,) = noted.details
    what = name_of_call(noted.where)
    hint = "put the condition into HAVING, which sees the groups"
    if clause != "where":
        hint = "aggregate in a subquery or a CTE first"
    called = f"the aggregate function '{what}'" if what else "an aggregate function"
    return finding(noted.rule, noted.where, f"{called} cannot stand in {_CLAUSES[clause]}", hint)


def _nested(binder: Binder, noted: Noted) -> Finding:
    return finding(
        noted.rule,
        noted.where,
        f"the aggregate function '{name_of_call(noted.where)}' stands inside another one",
        "aggregate in a subquery or a CTE first",
    )


def _window_in_clause(binder: Binder, noted: Noted) -> Finding:
    (clause,) = noted.details
    return finding(
        noted.rule,
        noted.where,
        f"a window function cannot stand in {_CLAUSES[clause]}",
        "put the condition into QUALIFY, or compute the window in a subquery first",
    )


def _no_window(binder: Binder, noted: Noted) -> Finding:
    name = name_of_call(noted.where)
    return finding(
        noted.rule,
        noted.where,
        f"'{name}' is a window function and has no OVER",
        f"write {name}(…) OVER (PARTITION BY … ORDER BY …)",
    )


def _without_order(binder: Binder, noted: Noted) -> Finding:
    name = name_of_call(noted.where.this)
    return finding(
        noted.rule,
        noted.where,
        f"the window of '{name}' has no ORDER BY",
        "say in OVER (… ORDER BY …) by what the rows are ordered",
    )


CALLS: dict[str, Callable[[Binder, Noted], Finding]] = {
    "unknown function": _unknown,
    "aggregate in clause": _aggregate_in_clause,
    "nested aggregate": _nested,
    "window in clause": _window_in_clause,
    "no window": _no_window,
    "window without order": _without_order,
}
"""What is said of a noted call, by rule."""
