"""The outermost columns of a query."""

from __future__ import annotations

from sqlglot import exp


def outermost(tree: exp.Expr | None) -> list[exp.Expr]:
    """Return what the outermost SELECT lists; of a set operation all of its sides do."""
    waiting, found = [tree], []
    while waiting:
        query = waiting.pop()
        if isinstance(query, exp.SetOperation):
            waiting += [query.this, query.expression]
        elif isinstance(query, exp.Subquery):
            waiting.append(query.this)
        elif isinstance(query, exp.Select):
            found += query.expressions
    return found


def first_side(tree: exp.Expr | None) -> list[exp.Expr]:
    """Return what names a query's columns: the first SELECT of a set operation."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return list(tree.expressions) if isinstance(tree, exp.Select) else []
