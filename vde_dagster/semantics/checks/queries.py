"""Checks of a query's calls, groups, output columns and numbers of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sqlglot import exp

from vde_dagster.base.texts import closest, did_you_mean
from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import called_function
from vde_dagster.semantics.algebra.nodes import Node
from vde_dagster.semantics.binding.binder import Binder, Unsupported
from vde_dagster.semantics.binding.names import Scope
from vde_dagster.semantics.errors import Finding, RecordedRefusal, make_finding_at
from vde_dagster.semantics.spark_functions import GENERATOR_KINDS
from vde_dagster.sql.reading import call_name

_CLAUSES = {"where": "WHERE", "on": "a join's ON", "group": "GROUP BY", "having": "HAVING"}


def make_finding(noted: RecordedRefusal, binder: Binder) -> Finding:
    where, details, name = noted.where, noted.details, call_name(noted.where)
    match noted.rule:
        case "unknown function":
            near = closest(name, [*spark_functions.function_names(), *binder.functions])
            message = f"Spark has no function '{name}'"
            hint = (
                "Functions that your session registers are declared in pyproject.toml: "
                f'functions = ["{name}"] under [tool.vde]'
            )
            hint = did_you_mean(name, near, f" {hint}") if near else hint
        case "number of arguments":
            taken = spark_functions.arguments_text(name)
            message = f"'{name}' has {_counted(details[0], 'argument')} but takes {taken}"
            hint = f"DESCRIBE FUNCTION {name} lists them in Spark"
        case "aggregate in clause":
            what = f"the aggregate function '{name}'" if name else "an aggregate function"
            message = f"{what} is not allowed in {_CLAUSES[details[0]]}"
            hint = "aggregate in a subquery or a CTE first"
            if details[0] == "where":
                hint = "put the condition into HAVING, which filters the groups"
        case "nested aggregate":
            message = f"the aggregate function '{name}' is inside another aggregate function"
            hint = "aggregate in a subquery or a CTE first"
        case "window in clause":
            message = f"a window function is not allowed in {_CLAUSES[details[0]]}"
            hint = "put the condition into QUALIFY, or compute the window in a subquery first"
        case "no window":
            message = f"'{name}' is a window function and has no OVER"
            hint = f"write {name}(…) OVER (PARTITION BY … ORDER BY …)"
        case "window without order":
            message = f"the window of '{call_name(where.this)}' has no ORDER BY"
            hint = "write the order of the rows: OVER (… ORDER BY …)"
        case "different widths":
            operation = where.__class__.__name__.upper()
            what = "rows" if operation == "VALUES" else "queries"
            counts = " and ".join(str(width) for width in dict.fromkeys(details[0]))
            message = f"the {what} of this {operation} have {counts} columns"
            hint = "give all of them the same columns in the same order"
        case "several columns":
            message = f"a subquery used as one value returns {details[0]} columns"
            hint = "return one column, or join the subquery"
        case "position":
            message = f"there is no column {where.this} in the SELECT list, which has {details[0]}"
            hint = "write an existing position, or the column's name"
        case _:
            names, columns = _counted(details[0], "name"), _counted(details[1], "column")
            message = f"'{where.alias_or_name}' has {columns} and is given {names}"
            hint, where = "name all of its columns, or none", where.args.get("alias") or where
    return make_finding_at(noted.rule, where, message, hint)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


_RULE = "ungrouped"
_AGGREGATES = ("aggregate", "ordered aggregate", "grouping")


def ungrouped_findings(binder: Binder, noted: RecordedRefusal) -> Iterator[Finding]:
    (scope,) = noted.details
    select = noted.where
    wrong = set(scope.ungrouped)
    reported: set[Node] = set()
    for clause in ("select", "having", "qualify", "order"):
        scope.clause, part = clause, select if clause == "select" else select.args.get(clause)
        if part is None:
            continue
        for item in part.expressions or [part.this]:
            for column, node in _alone(binder, item, scope, wrong):
                if node not in reported:
                    reported.add(node)
                    yield _finding(select, column)


def _alone(
    binder: Binder, e: exp.Expr, scope: Scope, wrong: set[Node]
) -> Iterator[tuple[exp.Column, Node]]:
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
    return spark_functions.function_kind(called_function(e)) in _AGGREGATES


def _finding(select: exp.Expr, column: exp.Column) -> Finding:
    name = ".".join(part.name for part in column.parts)
    if select.args.get("group") is not None:
        message = f"column '{name}' is neither in GROUP BY nor in an aggregate function"
        hint = f"add {name} to GROUP BY, or write any_value({name})"
    elif not any(map(_is_aggregate, select.walk())):
        message = f"HAVING without GROUP BY makes one group, in which '{name}' has many values"
        hint = f"write WHERE to choose rows, or GROUP BY {name}"
    else:
        message = f"column '{name}' is used with an aggregate function, but without GROUP BY"
        hint = f"add GROUP BY {name}, or write any_value({name})"
    return make_finding_at(_RULE, column, message, hint)


UNNAMED = "unnamed"
REPEATED = "repeated"
_MOST = 20
"""Maximum number of reported columns: in generated queries, all have the same mistake."""


def output_findings(tree: exp.Expr, names: Sequence[str] | None) -> Iterator[Finding]:
    """Report output columns without a name, and repeated output names."""
    while not isinstance(tree, exp.Select):
        if not isinstance(tree, exp.Subquery | exp.SetOperation):
            return
        tree = tree.this
    items = tree.expressions
    for item in [item for item in items if not _has_name(item)][:_MOST]:
        name = called_function(item)
        shown = f"{name}(…)" if name and " " not in name else "of an expression"
        yield make_finding_at(
            UNNAMED, item, f"the column {shown} has no name", "name it: … AS name"
        )
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
    return make_finding_at(REPEATED, where, f"two output columns are called '{name}'", hint)


def _is_star(e: exp.Expr) -> bool:
    return not isinstance(e, exp.Alias) and e.is_star


def _has_name(e: exp.Expr) -> bool:
    """Return whether Spark gives a column a predictable name."""
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
    return called_function(e) in GENERATOR_KINDS
