"""LEFT JOIN LATERAL without ON, which SQLGlot's tree does not tell from ON TRUE.

Spark 4.1 leaves out the rows without a match unless there is a condition, even TRUE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.tokens import Token  # type: ignore[attr-defined]

WITHOUT_ON = "LEFT JOIN LATERAL without ON"

_ENDS = frozenset(
    {"JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "LATERAL", "WHERE", "GROUP"}
    | {"HAVING", "QUALIFY", "WINDOW", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET"}
    | {"UNION", "EXCEPT", "INTERSECT", "MINUS", ",", ";"}
)
"""What may follow a joined table that has no condition."""


def lacks_condition(tokens: Sequence[Token]) -> bool:
    """Whether a query's tokens have an outer join to LATERAL without ON."""
    words = [token.text.upper() for token in tokens]
    for i, word in enumerate(words):
        if word != "LATERAL" or words[i - 1 : i] != ["JOIN"]:
            continue
        if words[max(i - 3, 0) : i - 1][-1:] in (["LEFT"], ["OUTER"]) and not _has_on(words, i + 1):
            return True
    return False


def _has_on(words: list[str], start: int) -> bool:
    depth = 0
    for word in words[start:]:
        if word == "(":
            depth += 1
        elif word == ")":
            depth -= 1
            if depth < 0:
                return False
        elif not depth and word == "ON":
            return True
        elif not depth and word in _ENDS:
            return False
    return False
