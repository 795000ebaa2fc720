"""Which sets of columns an audit proves unique, by its query and not by its name."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_ALLOWED = frozenset({"expressions", "from_", "group", "having"})
"""What a query may have: a condition, for instance, would look at some of the rows only."""


@lru_cache(maxsize=4096)
def proven_keys(query: str) -> tuple[frozenset[str], ...]:
    """Return the sets of columns, in lower case, of which a query would find two equal rows.

    Understood is what the built-in audits of uniqueness ask: the groups of all of the model's rows
    that have more than one row, for one set of columns or, by UNION ALL, for several.

    Args:
        query: An audit's query, `@this_model` still in it.
    """
    if "HAVING" not in query.upper():
        return ()
    from sqlglot import parse_one
    from sqlglot.errors import SqlglotError

    try:
        tree = parse_one(query, dialect="spark")
    except SqlglotError:
        return ()
    keys = [_key(select) for select in _selects(tree)]
    return tuple(key for key in keys if key)


def _selects(tree: exp.Expr) -> list[exp.Expr]:
    from sqlglot import exp

    if isinstance(tree, exp.Union):
        given = {name for name, value in tree.args.items() if value}
        plain = given <= {"this", "expression"} and tree.args.get("distinct") is False
        return [*_selects(tree.this), *_selects(tree.expression)] if plain else []
    return [tree]


def _key(select: exp.Expr) -> frozenset[str]:
    """Return the columns by which a query groups all of the model's rows to find repeated ones."""
    from sqlglot import exp

    if not isinstance(select, exp.Select):
        return frozenset()
    group, having = select.args.get("group"), select.args.get("having")
    if {name for name, value in select.args.items() if value} - _ALLOWED or not group:
        return frozenset()
    if not _reads_the_model(select) or not having or not _is_repeated(having.this):
        return frozenset()
    if {name for name, value in group.args.items() if value} != {"expressions"}:
        return frozenset()
    columns = group.expressions
    if not all(isinstance(c, exp.Column) and not c.args.get("table") for c in columns):
        return frozenset()
    if not all(_is_one_value(expression.unalias()) for expression in select.expressions):
        return frozenset()
    return frozenset(column.name.lower() for column in columns)


def _is_one_value(expression: exp.Expr) -> bool:
    """Say whether an output keeps each group one row: a generator could return none."""
    from sqlglot import exp

    if isinstance(expression, exp.Cast):
        expression = expression.this
    if isinstance(expression, exp.Count):
        return isinstance(expression.this, exp.Star)
    return isinstance(expression, exp.Column | exp.Literal)


def _reads_the_model(select: exp.Select) -> bool:
    from sqlglot import exp

    source = select.args.get("from_")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or {n for n, v in table.args.items() if v} != {"this"}:
        return False
    return isinstance(table.this, exp.Parameter) and table.this.name.lower() == "this_model"


def _is_repeated(condition: exp.Expr) -> bool:
    """Say whether a condition is `COUNT(*) > 1`."""
    from sqlglot import exp

    return (
        isinstance(condition, exp.GT)
        and isinstance(condition.this, exp.Count)
        and isinstance(condition.this.this, exp.Star)
        and not condition.this.this.args.get("except_")
        and isinstance(condition.expression, exp.Literal)
        and condition.expression.sql() == "1"
    )
