"""Comparing the rows that a model returned with those that a test expects."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

SIGNIFICANT_DIGITS = 9
"""Floats are equal when they agree in this many digits: sums depend on Spark's order of rows."""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowDifference:
    """How two multisets of rows differ.

    Args:
        columns: The compared columns.
        missing: Rows that were expected and not returned.
        unexpected: Rows that were returned and not expected.
    """

    columns: tuple[str, ...]
    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)


def compare_rows(
    columns: Sequence[str], expected: Iterable[Row], actual: Iterable[Row]
) -> RowDifference:
    """Compare rows without regard to their order.

    Args:
        columns: The columns of both.
        expected: The rows that should be there, as often as they occur.
        actual: The rows that are there.
    """
    wanted = [(_key(row), row) for row in expected]
    found = [(_key(row), row) for row in actual]
    return RowDifference(
        tuple(columns),
        _left_over(wanted, Counter(key for key, _ in found)),
        _left_over(found, Counter(key for key, _ in wanted)),
    )


def _left_over(rows: list[tuple[str, Row]], others: Counter[str]) -> tuple[Row, ...]:
    left = []
    for key, row in rows:
        if others[key]:
            others[key] -= 1
        else:
            left.append(row)
    return tuple(left)


def _key(value: Any) -> str:
    """Write a value so that equal values have equal texts, whatever they hold."""
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        return f"{value:.{SIGNIFICANT_DIGITS}g}" if value else "0"
    if isinstance(value, Decimal):
        return str(value.normalize()) if value else "0"
    if isinstance(value, dict):
        items = sorted((_key(key), _key(item)) for key, item in value.items())
        return f"{{{items}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_key(item) for item in value)}]"
    return f"{type(value).__name__}:{value!r}"
