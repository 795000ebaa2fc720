"""Numbers and lists as people read them."""

from __future__ import annotations

from collections.abc import Iterable


def count(number: int, noun: str) -> str:
    """Write a number with its noun: `1 day`, `2 days`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def first_of(total: int, most: int) -> str:
    """Say how many are left out where only the first are shown: ` and 3 more`, or nothing."""
    return f" and {total - most} more" if total > most else ""


def listed(names: Iterable[object], most: int = 10) -> str:
    """Name the first few: `a, b and 3 more`."""
    texts = list(map(str, names))
    return ", ".join(texts[:most]) + first_of(len(texts), most)
