"""Dates, instants, lengths of time and time zones as people write them.

Times are UTC. An end that is a date includes that day, as in SQLMesh; an end with a time of day is
exclusive. Inside this package, all ends are exclusive.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo, available_timezones

from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError


def utc(value: datetime) -> datetime:
    """Return the same instant in UTC; a value without a zone is read as UTC."""
    if value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    return value if value.tzinfo is timezone.utc else value.astimezone(timezone.utc)


def instant_text(value: datetime) -> str:
    """Return an instant in the form of all messages.

    >>> instant_text(datetime(2024, 1, 3, 5))
    '2024-01-03 05:00 UTC'
    """
    value = utc(value)
    seconds = ":%S" if value.second else ""
    return f"{_day_text(value)} {value:%H:%M{seconds}} UTC"


def _day_text(value: datetime) -> str:
    # On Linux, %Y writes the year 1 without zeros.
    return value.date().isoformat()


def end_text(value: datetime) -> str:
    """Write the exclusive end of a range; an end at midnight is written as the day before it.

    >>> end_text(datetime(2024, 1, 4))
    '2024-01-03'
    """
    value = utc(value)
    whole = value.time() == time() and value > datetime.min.replace(tzinfo=timezone.utc)
    return _day_text(value - timedelta(days=1)) if whole else instant_text(value)


def range_text(start: datetime, end: datetime) -> str:
    """Write a half-open range; a range of whole days ends with its last day.

    >>> range_text(datetime(2024, 1, 1), datetime(2024, 1, 4))
    '2024-01-01 … 2024-01-03'
    >>> range_text(datetime(2024, 1, 1), datetime(2024, 1, 1, 6))
    '2024-01-01 00:00 … 2024-01-01 06:00 UTC'
    """
    start, end = utc(start), utc(end)
    if start.time() == end.time() == time() and start < end:
        first, last = _day_text(start), end_text(end)
        return first if first == last else f"{first} … {last}"
    return f"{instant_text(start).removesuffix(' UTC')} … {instant_text(end)}"


_ISO = re.compile(
    r"(\d{4})(-?)(\d\d)\2(\d\d)"
    r"(?P<time>[T ](\d\d)(?:(:?)(\d\d)(?:\7(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r" ?(?P<zone>Z|UTC|([+-]\d\d)(?::?([0-5]\d))?)?)?",
    re.ASCII | re.IGNORECASE,
)


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_iso(text: str) -> datetime:
    """Read a date or instant in ISO 8601.

    The result has a zone only if the text has one. Accepted are a calendar date, as `2024-01-31` or
    `20240131`; then `T` or a space and a time, as `06`, `06:30`, `0630`, `06:30:15` or
    `06:30:15.25` (or `06:30:15,25`); then `Z`, `UTC`, `+02`, `+0200` or `+02:00`. Digits beyond
    microseconds are dropped.

    Raises:
        ValueError: The text has another form, or no such date or time exists.

    >>> str(parse_iso("20240131T0630Z")), str(parse_iso("2024-01-31 06:30:15,25"))
    ('2024-01-31 06:30:00+00:00', '2024-01-31 06:30:15.250000')
    """
    # Python's own parser accepts other spellings in each of its versions.
    found = _ISO.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{text}' is neither a date nor an instant in ISO 8601")
    year, _, month, day, _, hour, _, minute, second, fraction, zone, hours, minutes = found.groups()
    offset = None
    if zone is not None:
        offset = timezone.utc
        if hours is not None:
            shift = timedelta(hours=int(hours[1:]), minutes=int(minutes or 0))
            offset = timezone(-shift if hours[0] == "-" else shift)
    micros = int(f"{fraction or 0:0<6}"[:6])
    clock = (int(hour or 0), int(minute or 0), int(second or 0), micros)
    return datetime(int(year), int(month), int(day), *clock, tzinfo=offset)


def parse_instant(text: str) -> datetime:
    """Read a date or instant by the rules of `parse_iso`, and return it in UTC, the default zone.

    Raises:
        ValueError: The text is neither a date nor an instant, or its year in UTC is out of range.
    """
    try:
        return utc(parse_iso(text))
    except OverflowError:  # a zone moves the first or last day out of the years 1 to 9999
        raise ValueError(f"'{text}' is out of range in UTC") from None


def parse_day(text: str) -> date:
    """Read a day, spelled as `2024-01-31`.

    Raises:
        ValueError: The text has another form, or the calendar lacks the day.
    """
    # Spark casts only this spelling to the same day.
    if not _DAY.fullmatch(text):
        raise ValueError(f"'{text}' is not a day such as 2024-01-31")
    return date.fromisoformat(text)


def parse_end(text: str) -> datetime:
    """Read the end of a range: a date whose whole day is included, or an exclusive instant.

    Returns:
        The first instant after the range (UTC).

    Raises:
        ValueError: The text is neither a date nor an instant.
        OverflowError: The day is 9999-12-31.
    """
    found = parse_instant(text)
    return found + timedelta(days=1) if is_date(text) else found


def parse_range(
    start: str | None, end: str | None, names: tuple[str, str], now: datetime
) -> tuple[datetime | None, datetime | None]:
    """Read a range as a user wrote it, half-open in UTC.

    Args:
        start: A date or an instant in ISO 8601 (UTC without a zone), or relative, as `3 days ago`.
        end: Written like `start`. If it names a day, the range includes this day.
        names: The names of `start` and `end` in the command or file, for messages.
    """
    since = None if start is None else parse_time(start, names[0], now)
    return since, None if end is None else _parse_written_time(end, names[1], now, parse_end)


def parse_time(text: str, name: str, now: datetime) -> datetime:
    """Read one instant as a user wrote it (UTC), with the rules for the start in `parse_range`."""
    return _parse_written_time(text, name, now, parse_instant)


def _parse_written_time(
    text: str, name: str, now: datetime, parse: Callable[[str], datetime]
) -> datetime:
    try:
        if not is_relative(text):
            return parse(text)
        found = relative_instant(text, now)
        return found + timedelta(days=1) if parse is parse_end and names_a_day(text) else found
    except (ValueError, OverflowError):  # there is no day after 9999-12-31
        raise UsageError(
            f"{name} '{text}' is not a time",
            hint="write a date or an instant (UTC): 2013-02-01, or 2013-02-01T06:00:00Z; or a time "
            "relative to now: yesterday, 3 days ago",
        ) from None


def is_date(text: str) -> bool:
    """Return whether a text is a date without a time of day, in the spellings of `parse_iso`."""
    found = _ISO.fullmatch(text.strip())
    if found is None or found["time"] is not None:
        return False
    try:
        parse_iso(text)
    except ValueError:
        return False
    return True


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
    """Return whether a text is a time relative to now, such as `yesterday` or `3 days ago`."""
    words = _normalize_words(text)
    return words == "now" or words in _DAYS or _AGO.fullmatch(words) is not None


def names_a_day(text: str) -> bool:
    """Return whether a relative time means a whole day (`2 days ago`), not a point in time."""
    words = _normalize_words(text)
    found = _AGO.fullmatch(words)
    return words in _DAYS or (found is not None and found["unit"] not in _FINE)


def relative_instant(text: str, now: datetime) -> datetime:
    """Return the instant of `now`, `today`, `yesterday`, `tomorrow` or a text such as `3 days ago`.

    Other texts are `N UNITs ago` and `N UNITs from now`. Days and longer units are counted from
    midnight.

    Raises:
        ValueError: The text has another form.
        OverflowError: The year is outside of 1 to 9999.

    >>> from datetime import timezone
    >>> str(relative_instant("1 week ago", datetime(2024, 3, 10, 12, tzinfo=timezone.utc)))
    '2024-03-03 00:00:00+00:00'
    """
    words = _normalize_words(text)
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
        return add_months(midnight, steps * _MONTHS[unit])
    return (now if unit in _FINE else midnight) + _UNITS[unit] * steps


def add_months(day: datetime, steps: int) -> datetime:
    """Move an instant by months; the 31st becomes the last day of a shorter month."""
    year, month = divmod(day.year * 12 + day.month - 1 + steps, 12)
    if not 1 <= year <= 9999:
        raise OverflowError(f"the year {year} does not exist")
    last = calendar.monthrange(year, month + 1)[1]
    return day.replace(year=year, month=month + 1, day=min(day.day, last))


def _normalize_words(text: str) -> str:
    return " ".join(text.lower().split())


_LENGTHS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LONGEST = timedelta(days=365_000)


def parse_duration(text: str, name: str) -> timedelta:
    """Read a length of time: a whole number and `m`, `h`, `d` or `w`.

    >>> parse_duration("400d", "--keep").days, parse_duration(" 2 W ", "--keep").days
    (400, 14)
    """
    found = re.fullmatch(r"\s*([0-9]{1,8})\s*([mhdw])\s*", text.lower(), re.ASCII)
    length = timedelta(**{_LENGTHS[found[2]]: int(found[1])}) if found else timedelta()
    if not timedelta() < length <= _LONGEST:
        raise UsageError(
            f"{name} '{text}' is not a length of time",
            hint="write a whole number of minutes, hours, days or weeks: 90m, 12h, 400d, 8w",
        )
    return length


def zone_name(text: str) -> str:
    """Return the IANA name of a time zone, such as `Europe/Berlin`.

    Raises:
        LookupError: The name is unknown; the message suggests names.
    """
    try:
        return ZoneInfo(text).key
    except (ValueError, OSError, KeyError):
        raise LookupError(suggest(text, available_timezones(), "time zones")) from None
