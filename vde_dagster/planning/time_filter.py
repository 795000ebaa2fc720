"""The condition that picks one interval's rows by a time column of any supported type."""

from __future__ import annotations

from datetime import datetime, timedelta

from vde_dagster.planning.interval import Interval
from vde_dagster.project.names import quote


def time_filter(column: str, type_: str | None, time_format: str | None, interval: Interval) -> str:
    """Return a Spark SQL condition for the rows of a half-open UTC interval.

    Args:
        column: The time column's name.
        type_: Its Spark SQL type; None is compared as a timestamp.
        time_format: strftime format of text and integer columns; `%Y-%m-%d` for text and
            `%Y%m%d` for integers by default.
        interval: The range. A column of days or coarser text takes the days that it touches.

    Returns:
        A condition on the plain column, so that Iceberg can skip files by it.
    """
    name = quote(column)
    kind = (type_ or "TIMESTAMP").strip().upper().split("(")[0]
    if kind == "DATE":
        low, high = _day(interval.start), _day_after(interval.end)
        return f"{name} >= DATE '{low:%Y-%m-%d}' AND {name} < DATE '{high:%Y-%m-%d}'"
    if kind == "STRING":
        return _text(name, time_format or "%Y-%m-%d", interval, "'")
    if kind in ("INT", "INTEGER", "BIGINT", "LONG"):
        return _text(name, time_format or "%Y%m%d", interval, "")
    literal = "TIMESTAMP_NTZ" if kind == "TIMESTAMP_NTZ" else "TIMESTAMP"
    zone = "" if kind == "TIMESTAMP_NTZ" else "Z"
    low_text = f"{interval.start:%Y-%m-%d %H:%M:%S.%f}{zone}"
    high_text = f"{interval.end:%Y-%m-%d %H:%M:%S.%f}{zone}"
    return f"{name} >= {literal} '{low_text}' AND {name} < {literal} '{high_text}'"


def _text(name: str, time_format: str, interval: Interval, mark: str) -> str:
    """Compare a column of formatted text or numbers, whose order is that of time."""
    last = interval.end - timedelta(microseconds=1)
    low, high = interval.start.strftime(time_format), last.strftime(time_format)
    return f"{name} >= {mark}{low}{mark} AND {name} <= {mark}{high}{mark}"


def _day(instant: datetime) -> datetime:
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


def _day_after(end: datetime) -> datetime:
    floor = _day(end)
    return floor if floor == end else floor + timedelta(days=1)
