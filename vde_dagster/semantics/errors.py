"""Errors in queries, findings of checks, and notes made while binding; each with its position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from vde_dagster.errors import ProjectError

if TYPE_CHECKING:
    from sqlglot import exp


class SemanticError(ProjectError):
    """The query cannot be parsed, or a column is ambiguous or does not exist.

    Args:
        line, column: 1-based position in the query's text.
        word: The unknown or ambiguous name, as written.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
        word: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.column = column
        self.word = word

    @classmethod
    def for_column(cls, e: exp.Expr, message: str, hint: str | None) -> SemanticError:
        line, column = locate(e)
        return cls(message, hint=hint, line=line, column=column, word=e.name)

    @staticmethod
    def combine_mistakes(mistakes: Sequence[SemanticError]) -> SemanticError:
        """Return the first mistake; its attribute `mistakes` has all mistakes."""
        first = mistakes[0]
        if len(mistakes) > 1:
            first._several = tuple(mistakes)
        return first


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake in a query that can still be analyzed.

    Args:
        certain: Whether the query is certainly wrong; False if the author may have intended it.
        untyped: Whether the only problem is that the type of an operand is unknown.
        line, column: 1-based position in the query's text.
    """

    rule: str
    message: str
    hint: str
    certain: bool = True
    line: int | None = None
    column: int | None = None
    untyped: bool = False


class PositionedMistake(Protocol):
    """A mistake with its position in a query's text."""

    @property
    def line(self) -> int | None:
        """The 1-based line, or None if unknown."""

    @property
    def column(self) -> int | None:
        """The 1-based column within the line, or None if unknown."""


def mistake_offset(query: str, mistake: PositionedMistake) -> int | None:
    """Return the offset of a mistake in a query's text, or None if unknown."""
    if mistake.line is None or mistake.column is None:
        return None
    lines = query.split("\n")[: mistake.line - 1]
    return sum(len(line) + 1 for line in lines) + mistake.column - 1


def locate(e: exp.Expr) -> tuple[int | None, int | None]:
    """Return the 1-based line and column where an expression's first word starts."""
    known = [node.meta for node in e.walk() if "line" in node.meta and "col" in node.meta]
    if not known:
        return None, None
    first = min(known, key=lambda meta: meta.get("start", 0))
    width = first["end"] - first["start"] if "start" in first and "end" in first else 0
    return first["line"], max(1, first["col"] - width)


def make_finding_at(
    rule: str,
    where: exp.Expr,
    message: str,
    hint: str,
    *,
    certain: bool = True,
    untyped: bool = False,
) -> Finding:
    return Finding(rule, message, hint, certain, *locate(where), untyped)


Rule = Literal[
    "unknown function",
    "number of arguments",
    "aggregate in clause",
    "nested aggregate",
    "window in clause",
    "no window",
    "window without order",
    "ungrouped",
    "position",
    "different widths",
    "several columns",
    "alias list",
]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRefusal:
    """A part of a query that Spark refuses, recorded during binding.

    Args:
        details: Values to insert into the rule's message.
    """

    rule: Rule
    where: exp.Expr
    details: tuple[Any, ...] = ()
