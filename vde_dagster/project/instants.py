"""Dates and instants as people write them.

Times are UTC. An end that is a date includes that day, as in SQLMesh; an end with a time of day is
exclusive, as every range is inside this package.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone


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


def is_date(text: str) -> bool:
    """Say whether a text is a date without a time of day."""
    try:
        date.fromisoformat(text.strip())
    except ValueError:
        return False
    return True
