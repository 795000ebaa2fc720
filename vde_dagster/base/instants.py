"""Dates and instants as people write them.

Times are UTC. An end that is a date includes that day, as in SQLMesh; an end with a time of day is
exclusive, as every range is inside this package.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone

from vde_dagster.base.relative import is_relative, names_a_day, relative_instant
from vde_dagster.errors import UsageError


def utc(value: datetime) -> datetime:
    """Return the same instant in UTC; a value without a zone is read as UTC."""
    if value.tzinfo is timezone.utc:
        return value
    if value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    return value.astimezone(timezone.utc)


def instant_text(value: datetime) -> str:
    """Write an instant for people, as messages do everywhere.

    >>> instant_text(datetime(2024, 1, 3, 5))
    '2024-01-03 05:00 UTC'
    """
    value = utc(value)
    seconds = ":%S" if value.second else ""
    return f"{value:%Y-%m-%d %H:%M{seconds}} UTC"


def end_text(value: datetime) -> str:
    """Write an exclusive end for people: of whole days the last that is included.

    >>> end_text(datetime(2024, 1, 4))
    '2024-01-03'
    """
    value = utc(value)
    whole = value.time() == time() and value > datetime.min.replace(tzinfo=timezone.utc)
    return f"{value - timedelta(days=1):%Y-%m-%d}" if whole else instant_text(value)


def range_text(start: datetime, end: datetime) -> str:
    """Write a half-open range for people: whole days by the first and the last of them.

    >>> range_text(datetime(2024, 1, 1), datetime(2024, 1, 4))
    '2024-01-01 … 2024-01-03'
    >>> range_text(datetime(2024, 1, 1), datetime(2024, 1, 1, 6))
    '2024-01-01 00:00 … 2024-01-01 06:00 UTC'
    """
    start, end = utc(start), utc(end)
    if start.time() == end.time() == time() and start < end:
        first, last = f"{start:%Y-%m-%d}", end_text(end)
        return first if first == last else f"{first} … {last}"
    return f"{instant_text(start).removesuffix(' UTC')} … {instant_text(end)}"


def parse_instant(text: str) -> datetime:
    """Read an ISO 8601 date or instant; one without a zone is UTC.

    Raises:
        ValueError: It is neither.
    """
    return utc(datetime.fromisoformat(text.strip().replace("Z", "+00:00")))


def parse_end(text: str) -> datetime:
    """Read the end of a range and return the instant that is the first outside of it (UTC).

    Args:
        text: `2013-01-31` for the whole of that day, or an instant that is itself left out.

    Raises:
        ValueError: It is neither a date nor an instant.
    """
    found = parse_instant(text)
    return found + timedelta(days=1) if is_date(text) else found


def parse_range(
    start: str | None, end: str | None, names: tuple[str, str], now: datetime
) -> tuple[datetime | None, datetime | None]:
    """Read a range that somebody asks for, half-open in UTC.

    Args:
        start: A date or an instant in ISO 8601, which without a zone is UTC, or one that is told
            from now, such as `3 days ago`.
        end: The same; a day is included.
        names: What both are called where they were written.
        now: The instant (UTC) that relative times are told from.

    Raises:
        UsageError: One of them is neither.
    """
    since = None if start is None else parse_time(start, names[0], now)
    return since, None if end is None else _read(end, names[1], now, parse_end)


def parse_time(text: str, name: str, now: datetime) -> datetime:
    """Read one instant that somebody asks for (UTC), as `parse_range` reads a start.

    Raises:
        UsageError: It is none.
    """
    return _read(text, name, now, parse_instant)


def _read(text: str, name: str, now: datetime, parse: Callable[[str], datetime]) -> datetime:
    try:
        if not is_relative(text):
            return parse(text)
        found = relative_instant(text, now)
        return found + timedelta(days=1) if parse is parse_end and names_a_day(text) else found
    except (ValueError, OverflowError):  # after the last day of 9999 there is none
        raise UsageError(
            f"{name} '{text}' is not a time",
            hint="write a date or an instant (UTC): 2013-02-01, or 2013-02-01T06:00:00Z; or a time "
            "as told from now: yesterday, 3 days ago",
        ) from None


def is_date(text: str) -> bool:
    """Say whether a text is a date without a time of day."""
    try:
        date.fromisoformat(text.strip())
    except ValueError:
        return False
    return True
