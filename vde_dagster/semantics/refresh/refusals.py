"""Clauses of a query that prevent refreshing its rows from changes, with hints for authors."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from vde_dagster.semantics.refresh.qualified import NotRefreshableError
from vde_dagster.semantics.refresh.trees import computed_parts, walk_outside_queries
from vde_dagster.sql.trees import used_args

PLAIN = {"kind", "expressions", "from_", "joins", "where", "group", "having", "qualify"}
PLAIN |= {"distinct", "order", "laterals", "hint", "windows"}
NO_COLUMN = "no output column is known for the affected rows"
NOT_SUPPORTED = "the query has a clause that is not supported"
SEVERAL_SETS = "the query groups by several sets of columns"
ONE_SET = "write one GROUP BY for each set, joined by UNION ALL"
INEXACT = "equal values of this type may be written differently"
CAST_INEXACT = "compare a value of another type, such as a decimal"
SELECT_ONE = "add a column to the SELECT that identifies the rows of the changed table"


def computed_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the nodes of SELECT, HAVING and QUALIFY, without those in subqueries."""
    return (node for part in computed_parts(select) for node in walk_outside_queries(part))


def output_list(query: exp.Expr) -> exp.Expr:
    return exp.Tuple(expressions=[one.copy() for one in getattr(query, "selects", ())])


def no_known_column_error(select: exp.Select, lost: Collection[str]) -> NotRefreshableError:
    windows = [node for node in computed_nodes(select) if isinstance(node, exp.Window)]
    for window in windows:
        if not window.args.get("partition_by"):
            return NotRefreshableError(
                "a window reads all rows", window, "add PARTITION BY with a column of the SELECT"
            )
    for join in select.args.get("joins") or ():
        if join.args.get("side") and lost:
            hint = "add to the SELECT a column of the side that keeps all its rows"
            return NotRefreshableError(NO_COLUMN, join, hint)
    part = select.args.get("group") or next(iter(windows), None)
    if part is None:
        return NotRefreshableError(NO_COLUMN, output_list(select), SELECT_ONE)
    if isinstance(part, exp.Group) and part.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        return NotRefreshableError(SEVERAL_SETS, part, ONE_SET)
    by, inner = "GROUP BY", part.expressions
    if isinstance(part, exp.Window):
        by, inner = "PARTITION BY", part.args["partition_by"]
    if any(output.unalias() in inner for output in select.selects):
        hint = f"in the {by}, use only columns that no aggregate or outer join computes"
    else:
        hint = f"add a column of the {by} to the SELECT"
    return NotRefreshableError(NO_COLUMN, part, hint)


def unsupported_clause_error(query: exp.Query) -> NotRefreshableError:
    for name in ("limit", "offset"):
        if (part := query.args.get(name)) is not None:
            hint = "remove the clause, or select the first rows of each group with row_number()"
            return NotRefreshableError("the query takes the first rows", part, hint)
    if isinstance(query, exp.SetOperation):
        return NotRefreshableError("the branches of a set operation are matched by name", query)
    odd = sorted(used_args(query) - PLAIN)
    found = next((part for name in odd if isinstance(part := query.args[name], exp.Expr)), query)
    return NotRefreshableError(NOT_SUPPORTED, found)
