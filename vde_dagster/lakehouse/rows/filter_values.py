"""Exact conversion of filter values to a column's type.

Integers, decimals, dates, times and instants are compared as whole numbers of a unit: 1 for
integers, 10^-scale for decimals, a day for dates, and a microsecond or nanosecond for times and
instants. So `tenant <= 7.5` becomes `tenant <= 7`, and `tenant = 7.5` matches no row.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import pyarrow as pa
from pyiceberg import types
from pyiceberg.expressions import literals

from vde_dagster.lakehouse.rows.row_filters import Value

_EXACT = Context(prec=10_000, Emax=9_999_999, Emin=-9_999_999)
_DAY = re.compile(r"([+-]?[0-9]{4,9})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,18}))?)?")
_ZONE = re.compile(r"(?:[zZ]|([+-])([0-9]{2}):?([0-9]{2})?)$")
_FIRST_DAY = date(1970, 1, 1).toordinal()
_INSTANTS: dict[type[types.IcebergType], tuple[int, bool]] = {
    types.TimestampType: (10**6, False),
    types.TimestamptzType: (10**6, True),
    types.TimestampNanoType: (10**9, False),
    types.TimestamptzNanoType: (10**9, True),
}


def bounds(type_: types.IcebergType) -> tuple[int, int] | None:
    """Return the least and greatest value of a column type, in the unit of `whole`.

    For example, the bounds of DATE are numbers of days. Return None for types without such bounds.
    """
    if isinstance(type_, (types.IntegerType, types.DateType)):
        return -(2**31), 2**31 - 1
    if isinstance(type_, types.TimeType):
        return 0, 86_400 * 10**6 - 1
    if isinstance(type_, types.LongType) or type(type_) in _INSTANTS:
        return -(2**63), 2**63 - 1
    if isinstance(type_, types.DecimalType):
        return 1 - 10**type_.precision, 10**type_.precision - 1
    return None


def to_column_units(type_: types.IcebergType, value: Value) -> Decimal:
    """Convert a value to a number in the unit of a column type, perhaps with a fraction.

    For example, the date '2026-01-31' becomes a number of days since 1970.

    Raises:
        ValueError: The value is not valid for the type. The message has a valid example.
    """
    if isinstance(type_, types.DateType):
        return Decimal(_days(_text(value, "'2026-01-31'"), "'2026-01-31'"))
    if isinstance(type_, types.TimeType):
        return _seconds(_text(value, "'06:30:00'"), "'06:30:00'") * 10**6
    if type(type_) in _INSTANTS:
        units, zoned = _INSTANTS[type(type_)]
        return _EXACT.multiply(_instant(value, zoned), Decimal(units))
    found = number(value)
    if isinstance(type_, types.DecimalType):
        return _EXACT.scaleb(found, type_.scale)
    return found


def number(value: Value) -> Decimal:
    """Convert a number, or a text such as '7.5', to a Decimal, or raise ValueError."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, str) and re.fullmatch(
        r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?\s*", value
    ):
        return Decimal(value.strip())
    raise ValueError("not a number, such as 7 or 7.5")


def floored(value: Decimal) -> int | Decimal:
    """Round down to a whole number. A number too large for every type stays a Decimal."""
    found = value.to_integral_value(ROUND_FLOOR, _EXACT)
    return int(found) if found.adjusted() < 50 else found


def scalar(type_: pa.DataType, units: int) -> pa.Scalar:
    """Convert a number in the unit of `whole` to a value of an Arrow type."""
    if pa.types.is_decimal(type_):
        digits = tuple(map(int, str(abs(units))))
        return pa.scalar(Decimal((int(units < 0), digits, -type_.scale)), type_)
    if pa.types.is_integer(type_):
        return pa.scalar(units, type_)
    held = pa.int32() if type_.bit_width == 32 else pa.int64()
    return pa.scalar(units, held).cast(type_)


def literal(type_: types.IcebergType, units: int) -> literals.Literal[Any] | None:
    """Convert a number in the unit of `whole` to a PyIceberg literal; None for DECIMAL, TIME, …"""
    if isinstance(type_, (types.IntegerType, types.LongType)):
        return literals.LongLiteral(units)
    if isinstance(type_, types.DateType):
        return literals.DateLiteral(units)
    if isinstance(type_, (types.TimestampType, types.TimestamptzType)):
        return literals.TimestampLiteral(units)
    return None


def to_days(year: int, month: int, day: int) -> int:
    """Convert a date of any year to days since 1970, or raise ValueError."""
    cycles, of_cycle = divmod(year, 400)  # The calendar repeats after 400 years.
    within = date(of_cycle + 400, month, day).toordinal()
    return within + (cycles - 1) * 146_097 - _FIRST_DAY


def _text(value: Value, like: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"not valid: write it like {like}")
    return value.strip()


def _days(text: str, like: str) -> int:
    match = _DAY.fullmatch(text)
    if match is not None:
        with suppress(ValueError):
            return to_days(*map(int, match.groups()))
    raise ValueError(f"not valid: write it like {like}")


def _seconds(text: str, like: str) -> Decimal:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"not valid: write it like {like}")
    hours, minutes, seconds = (int(match[n] or 0) for n in (1, 2, 3))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"not valid: write it like {like}")
    return hours * 3600 + minutes * 60 + seconds + Decimal(f"0.{match[4] or 0}")


def _instant(value: Value, zoned: bool) -> Decimal:
    """Convert a text to seconds since 1970. A text without a time zone is in UTC."""
    like = "'2026-01-31T06:30:00Z'" if zoned else "'2026-01-31T06:30:00'"
    text = _text(value, like)
    day, _, time = text.replace("t", "T").replace(" ", "T", 1).partition("T")
    zone = _ZONE.search(time)
    ahead = 0
    if zone is not None:
        if not zoned:
            raise ValueError(f"not valid, because the type has no time zone: write it like {like}")
        time = time[: zone.start()]
        ahead = int(zone[2] or 0) * 3600 + int(zone[3] or 0) * 60
        ahead = -ahead if zone[1] == "-" else ahead
    seconds = _seconds(time.strip(), like) if time else Decimal(0)
    return _days(day, like) * 86_400 + seconds - ahead
