"""Brackets around what a macro stands for, where operators beside it would take it apart."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.sql.nesting import too_deep
from vde_dagster.sql.scanner import SourceText


def bracketed(text: str, dialect: str) -> str:
    """Put brackets around text that is an operator's expression and nothing more."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    if "@" in text or text.isidentifier() or too_deep(SourceText(Path("macro"), text)) is not None:
        return text  # What is too deep is refused with the place of the call.
    try:
        tree = parse_one(text, dialect=dialect)
    except SqlglotError:  # not an expression of its own: a clause, a list, part of a statement
        return text
    loose = exp.Binary | exp.Not | exp.Neg | exp.Between | exp.In
    atomic = exp.Paren | exp.Dot | exp.Func
    if isinstance(tree, loose) and not isinstance(tree, atomic):
        return f"({text})"
    if isinstance(tree, exp.Connector):
        return f"({text})"
    return text
