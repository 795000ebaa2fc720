"""Queries that return another number of columns than what is around them asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vde_dagster.semantics.finding import Finding, finding

if TYPE_CHECKING:
    from vde_dagster.semantics.binder import Binder
    from vde_dagster.semantics.noted import Noted


def _different(binder: Binder, noted: Noted) -> Finding:
    (widths,) = noted.details
    operation = noted.where.__class__.__name__.upper()
    what = "rows" if operation == "VALUES" else "queries"
    counts = " and ".join(str(width) for width in dict.fromkeys(widths))
    return finding(
        noted.rule,
        noted.where,
        f"the {what} of this {operation} have {counts} columns",
        "give all of them the same columns in the same order",
    )


def _several(binder: Binder, noted: Noted) -> Finding:
    (width,) = noted.details
    return finding(
        noted.rule,
        noted.where,
        f"a subquery that stands for one value returns {width} columns",
        "let it return one, or join it",
    )


def _position(binder: Binder, noted: Noted) -> Finding:
    (width,) = noted.details
    return finding(
        noted.rule,
        noted.where,
        f"there is no column {noted.where.this} in the SELECT list, which has {width}",
        "write a position that is there, or the column's name",
    )


WIDTHS: dict[str, Callable[[Binder, Noted], Finding]] = {
    "different widths": _different,
    "several columns": _several,
    "position": _position,
}
"""What is said of noted numbers of columns, by rule."""
