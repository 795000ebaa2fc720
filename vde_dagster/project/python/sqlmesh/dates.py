"""Replacement of SQLMesh's `sqlmesh.utils.date`; all instants are in UTC."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Any

from vde_dagster.base.times import is_relative as _is_relative_text
from vde_dagster.base.times import names_a_day, parse_iso, relative_instant

UTC = timezone.utc
TimeLike = date | datetime | str | int | float
DatetimeRange = tuple[datetime, datetime]
DatetimeRanges = list[DatetimeRange]
DATE_INT_FMT = "%Y%m%d"


def now(minute_floor: bool = True) -> datetime:
    """Return the current instant, by default without its seconds."""
    moment = datetime.now(tz=UTC)
    return moment.replace(second=0, microsecond=0) if minute_floor else moment


def now_timestamp(minute_floor: bool = False) -> int:
    """Return the current instant in milliseconds since 1970."""
    return to_timestamp(now(minute_floor))


def now_ds() -> str:
    """Return today as `2013-01-31`."""
    return to_ds(now())


def yesterday(relative_base: datetime | None = None) -> datetime:
    """Return the start of yesterday."""
    return to_datetime("yesterday", relative_base)


def yesterday_ds(relative_base: datetime | None = None) -> str:
    """Return yesterday as `2013-01-31`."""
    return to_ds(yesterday(relative_base))


def yesterday_timestamp(relative_base: datetime | None = None) -> int:
    """Return the start of yesterday, in milliseconds since 1970."""
    return to_timestamp(yesterday(relative_base))


def to_timestamp(
    value: Any,
    relative_base: datetime | None = None,
    check_categorical_relative_expression: bool = True,
) -> int:
    """Convert a time to milliseconds since 1970."""
    return int(to_datetime(value, relative_base).timestamp() * 1000)


def to_datetime(
    value: Any,
    relative_base: datetime | None = None,
    check_categorical_relative_expression: bool = True,
    tz: tzinfo | None = None,
) -> datetime:
    """Convert a day, an instant, a text such as `3 days ago`, or milliseconds to an instant.

    Raises:
        ValueError: The value has an invalid form.
    """
    found = _read(value, relative_base or now())
    zone = tz or UTC
    return found.replace(tzinfo=zone) if found.tzinfo is None else found.astimezone(zone)


def _read(value: Any, base: datetime) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if hasattr(value, "sql") and hasattr(value, "name"):  # An expression of SQLGlot.
        value = value.name
    text = str(value).strip()
    try:
        epoch = float(text)
    except ValueError:
        return _read_text(text, base)
    try:
        return datetime.strptime(text, DATE_INT_FMT)
    except ValueError:
        pass
    try:
        return datetime.fromtimestamp(epoch / 1000.0, tz=UTC)
    except (OverflowError, OSError, ValueError):
        raise _conversion_error(text) from None


def _read_text(text: str, base: datetime) -> datetime:
    try:
        if _is_relative_text(text):
            return relative_instant(text, base)
        return parse_iso(text)
    except (ValueError, OverflowError):
        raise _conversion_error(text) from None


def _conversion_error(text: str) -> ValueError:
    return ValueError(f"Could not convert `{text}` to datetime.")


def to_date(value: Any, relative_base: datetime | None = None) -> date:
    return to_datetime(value, relative_base).date()


def to_ds(obj: Any, relative_base: datetime | None = None) -> str:
    """Write the day of a time as `2013-01-31`."""
    return to_ts(obj, relative_base)[:10]


def to_ts(obj: Any, relative_base: datetime | None = None) -> str:
    """Write a time as `2013-01-31 23:59:59`."""
    return to_datetime(obj, relative_base).replace(tzinfo=None).isoformat(sep=" ")


def to_tstz(obj: Any, relative_base: datetime | None = None) -> str:
    """Write a time as `2013-01-31 23:59:59+00:00`."""
    return to_datetime(obj, relative_base).isoformat(sep=" ")


def date_dict(execution_time: Any, start: Any = None, end: Any = None) -> dict[str, Any]:
    """Return the time variables as Python values: `start_ds`, `end_dt`, `execution_ts`, …"""
    given = {"latest": execution_time, "execution": execution_time, "start": start, "end": end}
    values: dict[str, Any] = {}
    for prefix, value in given.items():
        if value is None:
            continue
        moment = to_datetime(value)
        millis = to_timestamp(moment)
        values |= {
            f"{prefix}_dt": moment,
            f"{prefix}_dtntz": moment.replace(tzinfo=None),
            f"{prefix}_date": moment.date(),
            f"{prefix}_ds": to_ds(moment),
            f"{prefix}_ts": to_ts(moment),
            f"{prefix}_tstz": to_tstz(moment),
            f"{prefix}_epoch": millis / 1000,
            f"{prefix}_millis": millis,
            f"{prefix}_hour": moment.hour,
        }
    return values


def is_date(obj: Any) -> bool:
    """Return whether a value is a day without a time."""
    if isinstance(obj, date) and not isinstance(obj, datetime):
        return True
    try:
        time.strptime(str(obj).replace("-", ""), DATE_INT_FMT)
    except ValueError:
        return False
    return True


def is_categorical_relative_expression(expression: str) -> bool:
    """Return whether a relative text, such as `2 days ago`, refers to whole days."""
    return _is_relative_text(expression) and names_a_day(expression)


def is_relative(value: Any) -> bool:
    """Return whether a value is a relative text for whole days, such as `2 days ago`."""
    return isinstance(value, str) and is_categorical_relative_expression(value)


def make_exclusive(time: Any) -> datetime:
    """Return the end of a day; an instant is returned unchanged."""
    moment = to_datetime(time)
    return moment + timedelta(days=1) if is_date(time) else moment


def make_inclusive_end(end: Any, dialect: Any = "") -> datetime:
    """Return the last instant before an exclusive end, one microsecond earlier."""
    return make_exclusive(end) - timedelta(microseconds=1)


def make_inclusive(start: Any, end: Any, dialect: Any = "") -> DatetimeRange:
    """Return the first and the last instant of a range, whose last day is included."""
    return to_datetime(start), make_inclusive_end(end)


def validate_date_range(start: Any, end: Any) -> None:
    """Raise a ValueError if a range ends before it starts."""
    if start and end and to_datetime(start) > to_datetime(end):
        raise ValueError(
            f"Start date / time ({start}) can't be greater than end date / time ({end})"
        )


def time_like_to_str(time_like: Any) -> str:
    """Write a day as `2013-01-31`, an instant with its time, and a text unchanged."""
    if isinstance(time_like, str):
        return time_like
    return to_ds(time_like) if is_date(time_like) else to_ts(time_like)
