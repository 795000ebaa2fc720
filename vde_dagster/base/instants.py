"""Dates and instants as people write them.

Times are UTC. An end that is a date includes that day, as in SQLMesh; an end with a time of day is
exclusive, as every range is inside this package.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone

from vde_dagster.errors import UsageError


def utc(value: datetime) -> datetime:
    """Return the same instant in UTC; a value without a zone is read as UTC."""
    if value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    return value.astimezone(timezone.utc)


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
    start: str | None, end: str | None, names: tuple[str, str]
) -> tuple[datetime | None, datetime | None]:
    """Read a range that somebody asks for, half-open in UTC.

    Args:
        start: A date or an instant in ISO 8601; without a zone it is UTC.
        end: The same; a date includes that day.
        names: What both are called where they were written.

    Raises:
        UsageError: One of them is neither.
    """
    return _read(start, names[0], parse_instant), _read(end, names[1], parse_end)


def _read(text: str | None, name: str, parse: Callable[[str], datetime]) -> datetime | None:
    if text is None:
        return None
    try:
        return parse(text)
    except (ValueError, OverflowError):  # after the last day of 9999 there is none
        raise UsageError(
            f"{name} '{text}' is not a time",
            hint="write a date or an instant (UTC): 2013-02-01, or 2013-02-01T06:00:00Z",
        ) from None


def is_date(text: str) -> bool:
    """Say whether a text is a date without a time of day."""
    try:
        date.fromisoformat(text.strip())
    except ValueError:
        return False
    return True
