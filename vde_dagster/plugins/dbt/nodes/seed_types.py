"""Column types of seeds without `column_types`, as dbt infers them for its adapters.

dbt infers types with its library agate, even if the warehouse reads the file. A number may have
leading zeros. Parts of a date (`2024-2-4`) or an instant (`2024-02-04 2:02:21`) may have one digit.
An instant without seconds needs a `T`. All other forms (`2024/02/04`) are texts. Numbers without
leading zeros get the same types as in seeds outside of dbt.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

_NULLS = frozenset({"", "null"})
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LEADING_ZERO = re.compile(r"[+-]?0\d")
_DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_DATES = re.compile(_DATE)
_INSTANTS = re.compile(_DATE + r" (\d{1,2}):(\d{1,2}):(\d{1,2})")
_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,6})?)?(?:Z|([+-]\d{2}:?\d{2}))?"
)
_TIME_LIKE = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d")
"""Values that seeds outside of dbt may read as instants."""
_LARGEST_INT = 2**31 - 1


def infer_seed_types(path: Path, delimiter: str, adapter: str) -> dict[str, str]:
    """Return the types that dbt infers for a seed's columns, by lower-case name.

    A column is left out if it gets the same type in a project without dbt.
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    found = {}
    for index, name in enumerate(rows[0] if rows else ()):
        cells = {row[index].strip() for row in rows[1:] if index < len(row)}
        values = {cell for cell in cells if cell.lower() not in _NULLS}
        type_ = _type_of_values(values, adapter) if cells else None
        if type_ is not None:
            found[name.strip().lower()] = type_
    return found


def _type_of_values(values: Collection[str], adapter: str) -> str | None:
    if all(map(_NUMBER.fullmatch, values)):
        if not values:
            return "INT"
        return _number_type(values) if any(map(_LEADING_ZERO.match, values)) else None
    if all(_is_time(value, _DATES) for value in values):
        return "DATE"
    if all(_is_time(value, _INSTANTS) for value in values):
        return "TIMESTAMP"
    if all(_is_time(value, _ISO) for value in values):
        # DuckDB drops the offset of an instant, which no cast of Spark does.
        has_offset = any(_offset(value) for value in values)
        return "STRING" if adapter == "duckdb" and has_offset else "TIMESTAMP"
    return "STRING" if any(map(_TIME_LIKE.match, values)) else None


def _number_type(values: Collection[str]) -> str:
    if not all(value.lstrip("+-").isdigit() for value in values):
        return "DOUBLE"
    return "INT" if all(abs(int(value)) <= _LARGEST_INT for value in values) else "BIGINT"


def _offset(value: str) -> str:
    match = _ISO.fullmatch(value)
    offset = (match[7] if match else None) or ""
    return offset if offset.strip("+-0:") else ""


def _is_time(value: str, pattern: re.Pattern[str]) -> bool:
    match = pattern.fullmatch(value)
    if match is None:
        return False
    try:
        datetime(*(int(part) for part in match.groups()[:6] if part is not None))  # type: ignore[arg-type]
    except ValueError:
        return False
    return True
