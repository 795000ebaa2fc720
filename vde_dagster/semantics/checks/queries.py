"""Checks of a query's calls, groups, output columns and numbers of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from vde_dagster.base.texts import closest
from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import called
from vde_dagster.semantics.binding.binder import Unsupported
from vde_dagster.semantics.errors import Finding, finding
from vde_dagster.semantics.spark_functions import GENERATOR_KINDS
from vde_dagster.sql.reading import name_of_call

if TYPE_CHECKING:
    from vde_dagster.semantics.algebra.nodes import Node
    from vde_dagster.semantics.binding.binder import Binder
    from vde_dagster.semantics.binding.names import Scope
    from vde_dagster.semantics.errors import Noted


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


def _number_of_arguments(binder: Binder, noted: Noted) -> Finding:
    (given,) = noted.details
    name = name_of_call(noted.where)
    taken = spark_functions.arguments_text(name)
    return finding(
        noted.rule,
        noted.where,
        f"'{name}' is given {given} argument{'' if given == 1 else 's'} and takes {taken}",
        f"DESCRIBE FUNCTION {name} says in Spark which they are",
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
    if isinstance(e, exp.Query) or _is_aggregate(e):
        return
    if isinstance(e, exp.Column):
        node = binder.bind(e, scope)
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
        return binder.bind(e, scope) in keys
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


UNNAMED = "unnamed"
REPEATED = "repeated"
_MOST = 20
"""How many of a query's columns are told; who generates thousands has the same mistake in all."""


def output_findings(tree: exp.Expr, names: Sequence[str] | None) -> Iterator[Finding]:
    """Mistakes in the SELECT list that names a query's columns; `names` is None if not known."""
    select = _naming(tree)
    if select is None:
        return
    items = select.expressions
    for item in [item for item in items if not _has_name(item)][:_MOST]:
        yield finding(UNNAMED, item, f"the column {_shown(item)} has no name", "name it: … AS name")
    if names is None:
        names = [item.alias_or_name.lower() for item in items if _has_name(item)]
    if len(set(names)) < len(names):
        counts = Counter(names)
        for name in [name for name, count in counts.items() if count > 1 and name][:_MOST]:
            yield _repeated(items, name)


def _repeated(items: list[exp.Expr], name: str) -> Finding:
    same = [item for item in items if item.alias_or_name.lower() == name and _has_name(item)]
    star = next((item for item in items if _is_star(item)), None)
    where = same[-1] if same else star if star is not None else items[-1]
    from_star = star is not None and len(same) < 2
    hint = f"leave one out of the star: * EXCEPT ({name})" if from_star else "rename one: … AS name"
    return finding(REPEATED, where, f"two output columns are called '{name}'", hint)


def _naming(e: exp.Expr) -> exp.Select | None:
    while not isinstance(e, exp.Select):
        if not isinstance(e, exp.Subquery | exp.SetOperation) or not isinstance(e.this, exp.Query):
            return None
        e = e.this
    return e


def _is_star(e: exp.Expr) -> bool:
    return not isinstance(e, exp.Alias) and e.is_star


def _has_name(e: exp.Expr) -> bool:
    """Whether Spark gives a column a name that a reader could have foreseen."""
    if isinstance(e, exp.Alias | exp.Aliases | exp.Column) or _is_star(e):
        return True
    if isinstance(e, exp.Paren):
        return _has_name(e.this)
    if isinstance(e, exp.Cast):
        return isinstance(e.this.unnest(), exp.Column)
    if isinstance(e, exp.Dot):
        return not isinstance(e.expression, exp.Func) and _has_name(e.this)
    if isinstance(e, exp.Literal):
        return not e.is_string and e.this[-1:] not in "'\""
    return called(e) in GENERATOR_KINDS


def _shown(e: exp.Expr) -> str:
    name = called(e)
    return f"{name}(…)" if name and " " not in name else "of an expression"


def _different(binder: Binder, noted: Noted) -> Finding:
    (widths,) = noted.details
    operation = noted.where.__class__.__name__.upper()
    what = "rows" if operation == "VALUES" else "queries"
    counts = " and ".join(str(width) for width in dict.fromkeys(widths))
    return finding(
        noted.rule,
        noted.where,
        f"the {what} of this {operation} have {counts} columns",
        "give all of them the same columns in the same order",
    )


def _several(binder: Binder, noted: Noted) -> Finding:
    (width,) = noted.details
    return finding(
        noted.rule,
        noted.where,
        f"a subquery that stands for one value returns {width} columns",
        "let it return one, or join it",
    )


def _position(binder: Binder, noted: Noted) -> Finding:
    (width,) = noted.details
    return finding(
        noted.rule,
        noted.where,
        f"there is no column {noted.where.this} in the SELECT list, which has {width}",
        "write a position that is there, or the column's name",
    )


def _names(binder: Binder, noted: Noted) -> Finding:
    names, width = noted.details
    return finding(
        noted.rule,
        noted.where.args.get("alias") or noted.where,
        f"'{noted.where.alias_or_name}' has {width} column{'' if width == 1 else 's'} and is given "
        f"{names} name{'' if names == 1 else 's'}",
        "name all of its columns, or none",
    )


SAYERS: dict[str, Callable[[Binder, Noted], Finding]] = {
    "unknown function": _unknown,
    "number of arguments": _number_of_arguments,
    "aggregate in clause": _aggregate_in_clause,
    "nested aggregate": _nested,
    "window in clause": _window_in_clause,
    "no window": _no_window,
    "window without order": _without_order,
    "different widths": _different,
    "several columns": _several,
    "position": _position,
    "alias list": _names,
}
"""What is said of what was noted while a query was bound, by rule."""
