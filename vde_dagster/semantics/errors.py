"""The mistakes in a query that only its author can mend."""

from __future__ import annotations

from collections.abc import Sequence

from vde_dagster.errors import ProjectError


class SemanticError(ProjectError):
    """A query names something that does not exist, or cannot be parsed.

    Args:
        message: What is wrong, in one sentence, with the place in the query.
        hint: What to write instead, when there is a good guess.
        line: 1-based line within the query's text, or None.
        column: 1-based column within that line, or None.
        unplaced: What is wrong without the place, for who names another; the message by default.
        word: The name that does not exist or is not clear, as it is written.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
        unplaced: str | None = None,
        word: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.column = column
        self.unplaced = unplaced or self.message
        self.word = word

    @staticmethod
    def first_of(mistakes: Sequence[SemanticError]) -> SemanticError:
        """Return the first of several, which has all of them as its `mistakes`."""
        first = mistakes[0]
        if len(mistakes) > 1:
            first._several = tuple(mistakes)
        return first
