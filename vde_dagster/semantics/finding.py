"""What a check of a query found, with its place in the query's text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake in a query that can be bound all the same.

    Args:
        rule: Which check found it.
        message: What is wrong, in one sentence without a full stop.
        hint: What to do next.
        certain: Whether Spark refuses the query, or its meaning is certainly another one;
            otherwise it may be meant so.
        line: 1-based line within the query's text, or None.
        column: 1-based column within that line, or None.
    """

    rule: str
    message: str
    hint: str
    certain: bool = True
    line: int | None = None
    column: int | None = None


def place(e: exp.Expr) -> tuple[int | None, int | None]:
    """The 1-based line and column where an expression's first word starts."""
    known = [node.meta for node in e.walk() if "line" in node.meta and "col" in node.meta]
    if not known:
        return None, None
    first = min(known, key=lambda meta: meta.get("start", 0))
    width = first["end"] - first["start"] if "start" in first and "end" in first else 0
    return first["line"], max(1, first["col"] - width)


def finding(
    rule: str, where: exp.Expr, message: str, hint: str, *, certain: bool = True
) -> Finding:
    """A finding at an expression."""
    return Finding(rule, message, hint, certain, *place(where))
