"""Conversion of Arrow values to Python and JSON values; a map becomes a dictionary.

Python has no dates outside the years 1 to 9999 and no nanoseconds, so such values become ISO 8601
texts. A map whose keys are structs becomes a list of pairs.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pyarrow as pa

from vde_dagster.base.json_values import json_value

_PLAIN = re.compile(r"(null|bool|u?int\d+|(large_)?string)")
_NANOSECONDS = "timestamp[ns"
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
_UNITS = {"s": (1, 0), "ms": (10**3, 3), "us": (10**6, 6), "ns": (10**9, 9)}


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Convert an Arrow table to dictionaries of Python values, one per row."""
    columns = [python_values(column) for column in rows.columns]
    names = rows.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def json_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Convert an Arrow table to dictionaries of JSON values, one per row."""
    columns = [
        python_values(column)
        if _PLAIN.fullmatch(str(column.type))
        else list(map(json_value, python_values(column)))
        for column in rows.columns
    ]
    names = rows.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def python_values(column: pa.ChunkedArray) -> list[Any]:
    if _NANOSECONDS not in str(column.type):
        try:
            found: list[Any] = column.to_pylist(maps_as_pydicts="strict")
            return found
        except (ValueError, OverflowError, TypeError):
            pass  # A far year, or a map whose keys are structs.
    return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StructScalar):
        return {name: _value(scalar[name]) for name in scalar}
    if isinstance(scalar, pa.MapScalar):
        pairs = [(_value(entry[0]), _value(entry[1])) for entry in scalar.values]
        nested = any(isinstance(key, dict | list) for key, _ in pairs)
        return pairs if nested else dict(pairs)
    if isinstance(scalar, pa.ListScalar | pa.LargeListScalar):
        return list(map(_value, scalar.values))
    far = isinstance(scalar, pa.TimestampScalar) and scalar.type.unit == "ns"
    try:
        if not far:
            return scalar.as_py()
    except (ValueError, OverflowError):
        pass  # A far year.
    if isinstance(scalar, pa.Date32Scalar):
        return _day(scalar.value)
    return _instant(scalar.value, scalar.type)


def _day(days: int) -> str:
    """Return a day in ISO 8601. A year outside of 0 to 9999 has a sign."""
    # The calendar repeats after 400 years.
    cycles, rest = divmod(days + 719_162, _CYCLE_DAYS)  # days since the year 1
    within = date.fromordinal(rest + 1)
    year = within.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > 9_999 else ""
    return f"{sign}{abs(year):04}-{within:%m-%d}"


def _instant(value: int, type_: pa.TimestampType) -> str:
    units, digits = _UNITS[type_.unit]
    seconds, rest = divmod(value, units)
    days, of_day = divmod(seconds, 86_400)
    part = f".{rest:0{digits}}" if rest else ""
    zone = "Z" if type_.tz is not None else ""
    hours, minutes = divmod(of_day // 60, 60)
    return f"{_day(days)}T{hours:02}:{minutes:02}:{of_day % 60:02}{part}{zone}"
