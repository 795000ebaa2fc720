"""Times that are told from an instant: `yesterday`, `3 days ago`, `1 week ago`."""

from __future__ import annotations

import calendar
import re
from datetime import datetime, timedelta

_UNITS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_MONTHS = {"month": 1, "year": 12}
_FINE = ("second", "minute", "hour")
_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1}
_AGO = re.compile(
    rf"(?P<number>[0-9]{{1,6}}|an?) (?P<unit>{'|'.join([*_UNITS, *_MONTHS])})s?"
    r" (?P<direction>ago|from now)"
)


def is_relative(text: str) -> bool:
    """Say whether a text is told from an instant."""
    words = _words(text)
    return words == "now" or words in _DAYS or _AGO.fullmatch(words) is not None


def names_a_day(text: str) -> bool:
    """Say whether a relative text names a day, not an instant within one."""
    words = _words(text)
    found = _AGO.fullmatch(words)
    return words in _DAYS or (found is not None and found["unit"] not in _FINE)


def relative_instant(text: str, now: datetime) -> datetime:
    """Return the instant that a text names; of days, weeks, months and years the first of the day.

    Args:
        text: `now`, `today`, `yesterday`, `tomorrow`, `N UNITs ago` or `N UNITs from now`.
        now: What the text is told from (UTC).

    Raises:
        ValueError: It is nothing of these.
        OverflowError: There is no such year.

    >>> from datetime import timezone
    >>> str(relative_instant("1 week ago", datetime(2024, 3, 10, 12, tzinfo=timezone.utc)))
    '2024-03-03 00:00:00+00:00'
    """
    words = _words(text)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if words == "now":
        return now
    if words in _DAYS:
        return midnight + timedelta(days=_DAYS[words])
    found = _AGO.fullmatch(words)
    if found is None:
        raise ValueError(f"'{text}' is not a time")
    number = int(found["number"]) if found["number"].isdigit() else 1
    steps = -number if found["direction"] == "ago" else number
    unit = found["unit"]
    if unit in _MONTHS:
        return _by_months(midnight, steps * _MONTHS[unit])
    return (now if unit in _FINE else midnight) + _UNITS[unit] * steps


def _by_months(day: datetime, steps: int) -> datetime:
    """Move by months; the 31st becomes the last day of a shorter one."""
    year, month = divmod(day.year * 12 + day.month - 1 + steps, 12)
    if not 1 <= year <= 9999:
        raise OverflowError(f"there is no year {year}")
    last = calendar.monthrange(year, month + 1)[1]
    return day.replace(year=year, month=month + 1, day=min(day.day, last))


def _words(text: str) -> str:
    return " ".join(text.lower().split())
