"""Parts of SQLGlot's trees of qualified queries: sources, conditions, columns and aggregates."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from sqlglot import exp

from vde_dagster.semantics import spark_functions

Place = tuple[str, str]
"""Alias of a column's source, and the column's name in lower case."""
_NOT_BY_PARTS = (exp.Column, exp.Star, exp.Query, exp.Window, exp.AggFunc, exp.Anonymous)
"""Expressions whose values do not follow from the values of their parts."""


_INEXACT = re.compile(
    r"\b(FLOAT|DOUBLE|REAL|MAP|VARIANT|CHAR|VARCHAR|COLLATE|INTERVAL|VOID|NULL|UNKNOWN|GEO\w+)\b"
)


def has_exact_equality(type_: str) -> bool:
    """Return whether equal values of a Spark SQL type are identical.

    This is false for floats (0.0 equals -0.0) and texts with a collation.

    >>> has_exact_equality("ARRAY<STRUCT<a: DECIMAL(9,2)>>"), has_exact_equality("MAP<INT, INT>")
    (True, False)
    """
    return type_ != "" and _INEXACT.search(type_.upper()) is None


def contains_node(part: exp.Expr | None, leaf: exp.Expr) -> bool:
    at: exp.Expr | None = leaf
    while at is not None and at is not part:
        at = at.parent
    return at is not None


def source_and_column(column: exp.Expr) -> Place:
    return (column.table, column.name.lower()) if isinstance(column, exp.Column) else ("", "")


def coalesced_columns(call: exp.Expr) -> frozenset[Place]:
    parts = [call.this, *call.expressions] if isinstance(call, exp.Coalesce) else []
    # `CASE WHEN a IS NOT NULL THEN a ELSE b END` counts as `coalesce(a, b)`.
    if isinstance(call, exp.Case) and call.this is None and len(call.args["ifs"]) == 1:
        first, other = call.args["ifs"][0], call.args.get("default")
        if (
            other is not None
            and first.this == exp.Is(this=first.args["true"], expression=exp.Null()).not_()
        ):
            parts = [first.args["true"], other]
    if not all(isinstance(part, exp.Column) for part in parts):
        return frozenset()
    return frozenset(map(source_and_column, parts))


def find_equal_columns(equal: Mapping[Place, Collection[Place]], begin: Place) -> set[Place]:
    """Return all columns that must equal `begin`, directly or through other columns."""
    seen, stack = {begin}, [begin]
    while stack:
        new = set(equal.get(stack.pop(), ())) - seen
        seen |= new
        stack += new
    return seen


def reads_only(expression: exp.Expr, alias: str) -> bool:
    """Return whether an expression has only columns of the table `alias`, and no subquery."""
    if expression.find(exp.Query):
        return False
    return all(column.table == alias for column in expression.find_all(exp.Column))


def reads_any(expression: exp.Expr, aliases: Collection[str]) -> bool:
    """Return whether an expression has a column of the tables `aliases`, or a subquery."""
    if expression.find(exp.Query):
        return True
    return any(column.table in aliases for column in expression.find_all(exp.Column))


def list_sources(select: exp.Select) -> Iterator[exp.Expr]:
    begin = select.args.get("from_")
    if begin is not None:
        yield begin.this
    for join in select.args.get("joins") or ():
        yield join.this


def computed_parts(select: exp.Select) -> list[exp.Expr]:
    # These are computed after grouping.
    parts = [*select.selects, select.args.get("qualify"), select.args.get("having")]
    return [part for part in parts if part is not None]


def walk_outside_queries(expression: exp.Expr) -> Iterator[exp.Expr]:
    return expression.walk(prune=lambda node: isinstance(node, exp.Query))


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate function that is not used as a window function."""
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        total = name in spark_functions.AGGREGATE or name in spark_functions.ORDERED_AGGREGATE
    else:
        total = isinstance(node, exp.AggFunc | exp.Any)  # Spark's any() is an aggregate.
    at = node.parent
    while total and isinstance(
        at, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup
    ):
        at = at.parent
    return total and not (isinstance(at, exp.Window) and node.parent is not None)


def is_determined_by(expression: exp.Expr, parts: Iterable[exp.Expr]) -> bool:
    """Return whether rows with equal values of `parts` have equal values of an expression."""
    known = list(parts)
    if expression in known or (
        isinstance(expression, exp.Column)
        and source_and_column(expression) in map(source_and_column, known)
    ):
        return True
    if isinstance(expression, _NOT_BY_PARTS):
        return False
    inner = list(expression.iter_expressions())
    return all(is_determined_by(part, known) for part in inner)


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    if condition is None:
        return []
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def equal_pairs(conditions: Iterable[exp.Expr]) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    for condition in conditions:
        while isinstance(condition, exp.Paren):
            condition = condition.this
        if isinstance(condition, exp.EQ | exp.NullSafeEQ):
            yield condition.this, condition.expression


def equal_columns(conditions: Iterable[exp.Expr]) -> Iterator[tuple[Place, Place]]:
    for one, other in equal_pairs(conditions):
        if isinstance(one, exp.Column) and isinstance(other, exp.Column):
            yield source_and_column(one), source_and_column(other)


def join_conditions(select: exp.Select) -> list[exp.Expr]:
    """Return the ON conditions of all inner joins."""
    inner = [
        join
        for join in select.args.get("joins") or ()
        if not join.args.get("side") and join.args.get("kind") not in ("SEMI", "ANTI")
    ]
    return [condition for join in inner for condition in conjuncts(join.args.get("on"))]


def new_join(source: exp.Expr, side: str, kind: str, on: list[exp.Expr]) -> exp.Join:
    join = exp.Join(this=source, side=side or None, kind=kind or None)
    if on:
        join.set("on", exp.and_(*(condition.copy() for condition in on)))
    return join


def replace_table(query: exp.Expr, name: str, new: str) -> exp.Expr:
    """Return a copy of a query that reads the table `new` instead of the table `name`."""
    copied = query.copy()
    for table in copied.find_all(exp.Table):
        if table.name == name:
            table.set("this", exp.to_identifier(new))
    return copied
