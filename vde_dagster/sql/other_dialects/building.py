"""Helpers for the rules that rewrite trees of other dialects.

A rule is called with a node and its dialect. It returns the node's replacement, or None to keep the
node, and raises Unwritable if the node has no equivalent in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from vde_dagster.sql.reading import parse_plain

Replacement = exp.Expr | None
"""The replacement of a part of a query, or None if the part stays unchanged."""


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Create a call of a Spark function with copies of the arguments."""
    return exp.Anonymous(this=name, expressions=[one.copy() for one in arguments])


def is_null(value: exp.Expr) -> exp.Is:
    return exp.Is(this=value.copy(), expression=exp.Null())


def when(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr | None = None) -> exp.Case:
    """Create a CASE with one condition; it is NULL for other rows without `otherwise`."""
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def null_if_any_null(given: Iterable[exp.Expr], otherwise: exp.Expr) -> exp.Case:
    """Create a CASE that is NULL if one of the given values is NULL."""
    return when(exp.or_(*map(is_null, given)), exp.Null(), otherwise)


def cast(value: exp.Expr, kind: str) -> exp.Cast:
    return exp.cast(value, kind, dialect="spark")


MOVED = "vde_moved"


def cast_interval_sum(total: exp.Expr) -> exp.Cast:
    """Cast a sum with an interval to TIMESTAMP, and mark the cast as added here."""
    made = cast(total, "TIMESTAMP")
    made.meta[MOVED] = True
    return made


def fill_template(template: str, **parts: exp.Expr | str) -> exp.Expr:
    """Parse a Spark SQL template, and replace each column by the part of the same name.

    A part that is a str becomes a string literal.
    """
    tree = parse_plain(template)
    for column in list(tree.find_all(exp.Column)):
        part = parts.get(column.name)
        if part is not None:
            column.replace(exp.Literal.string(part) if isinstance(part, str) else part.copy())
    return tree
