"""Rows of unit tests that are written as CSV, or lie in files of their own."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any

from vde_dagster.base.suggestions import suggest

_FORMAT = {"sep": "delimiter", "delimiter": "delimiter", "quotechar": "quotechar"} | {
    name: name for name in ("escapechar", "doublequote", "skipinitialspace")
}
"""Settings of pandas that SQLMesh hands on, and what Python's reader calls them."""
_NULLS = ("na_values", "keep_default_na")
_BLANK = "skip_blank_lines"
_KNOWN = (*_FORMAT, *_NULLS, _BLANK)
_MISSING = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
    | {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""What pandas reads as NULL."""


class CsvError(ValueError):
    """CSV that cannot be read; its second argument is a hint or None."""


def csv_rows(text: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read CSV with a line of names: numbers, booleans and texts by column, as pandas tells them.

    Args:
        text: The CSV.
        settings: `csv_settings` of the test, named as in pandas.

    Raises:
        CsvError: A setting is unknown, or a line has too many values.
    """
    for name in settings:
        if name not in _KNOWN:
            raise CsvError(f"unknown CSV setting '{name}'", suggest(name, _KNOWN))
    form = {_FORMAT[name]: value for name, value in settings.items() if name in _FORMAT}
    given = settings.get("na_values") or ()
    nulls = {given} if isinstance(given, str) else set(map(str, given))
    if settings.get("keep_default_na", True):
        nulls |= _MISSING
    try:
        lines = list(csv.reader(io.StringIO(text), strict=True, **form))
    except (csv.Error, TypeError) as error:
        raise CsvError(f"the CSV cannot be read: {error}", None) from None
    if settings.get(_BLANK, True):
        lines = list(filter(None, lines))
    if not (lines and lines[0]):
        raise CsvError("the CSV has no line of names", None)
    names, *rows = lines
    for number, row in enumerate(rows, 1):
        if len(row) > len(names):
            raise CsvError(
                f"row {number} of the CSV has {len(row)} values; there are {len(names)} columns",
                None,
            )
    padded = [[*row, *[""] * (len(names) - len(row))] for row in rows]
    columns = [
        _typed([None if cell in nulls else cell for cell in column])
        for column in zip(*padded, strict=True)
    ]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _typed(cells: list[str | None]) -> list[Any]:
    """Read a column's cells as the narrowest type that all of them have."""
    for read in (_integer, float, _boolean):
        try:
            return [None if cell is None else read(cell) for cell in cells]
        except ValueError:
            continue
    return list(cells)


def _integer(cell: str) -> int:
    if cell.strip().lstrip("+-").isdecimal():
        return int(cell)
    raise ValueError(cell)


def _boolean(cell: str) -> bool:
    read: Callable[[str], bool | None] = {"true": True, "false": False}.get
    found = read(cell.strip().lower())
    if found is None:
        raise ValueError(cell)
    return found
