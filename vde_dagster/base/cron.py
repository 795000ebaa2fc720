"""Cron expressions: short names, ticks in a time zone, and the time between ticks."""

from __future__ import annotations

import functools
import itertools
import re
from bisect import bisect_left
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

SHORT_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_A_LEAP_YEAR = datetime(2024, 1, 1, tzinfo=timezone.utc)
_ONCE_A_DAY = re.compile(r"[0-5]?[0-9] ([01]?[0-9]|2[0-3]) \* \* \*")


def normalise_cron(text: str) -> str:
    """Return the five-field form of a cron expression.

    Raises:
        ValueError: The text is not a cron expression, is random (R), or never ticks.
    """
    fields = text.split()
    if len(fields) == 1 and fields[0].startswith("@"):
        short = SHORT_NAMES.get(fields[0].lower())
        if short is None:
            raise ValueError(
                f"'{text}' is not a known name of a cron expression; use {', '.join(SHORT_NAMES)}"
            )
        return short
    normal = " ".join(fields)
    if normal in SHORT_NAMES.values() or _ONCE_A_DAY.fullmatch(normal):
        return normal  # Most models use one of these, and importing the parser takes time.
    from croniter import CroniterBadDateError, croniter

    if len(fields) != 5 or not croniter.is_valid(normal):
        raise ValueError(f"'{text}' is not a cron expression of five fields")
    if any(field[0] in "Rr" for field in fields):
        raise ValueError(f"'{text}' has random fields (R), which differ in every process")
    try:
        croniter(normal, _A_LEAP_YEAR).get_next()
    except CroniterBadDateError:
        raise ValueError(f"'{text}' never ticks: its months do not have these days") from None
    return normal


def last_tick(cron: str, now: datetime, zone: str | None = None) -> datetime:
    """Return the latest tick at or before an instant (UTC).

    When clocks go forward, a skipped time counts as the first time after the gap, as in Dagster's
    schedules. When clocks go back, a repeated time counts once, at its first occurrence; a cron
    with `*` as its hours ticks at both. `zone` is an IANA name; None means UTC.
    """
    minute = now.replace(second=0, microsecond=0)  # Ticks are whole minutes.
    return _last_tick(cron, minute) if zone is None else _last_local_tick(cron, minute, zone)


@functools.lru_cache(maxsize=4096)
def _last_tick(cron: str, now: datetime) -> datetime:
    from croniter import croniter  # Not every command needs ticks.

    tick: datetime = croniter(cron, now + timedelta(minutes=1)).get_prev(datetime)
    return tick


@functools.lru_cache(maxsize=4096)
def _last_local_tick(cron: str, now: datetime, zone: str) -> datetime:
    from croniter import croniter

    there = ZoneInfo(zone)
    local = now.astimezone(there)
    clock = local.replace(tzinfo=None, fold=0)
    if local.fold:  # The first pass of the repeated hour is over: begin after it.
        clock += _utc_offset(clock, there, 0) - _utc_offset(clock, there, 1)
    every_hour = cron.split()[1] == "*"
    ticks = croniter(cron, clock + timedelta(minutes=1))
    first_pass: datetime | None = None
    while True:
        tick: datetime = ticks.get_prev(datetime)
        instant = _first_instant_of_local_time(tick, there)
        # For a skipped time the order of the offsets is reversed.
        twice = every_hour and _utc_offset(tick, there, 0) > _utc_offset(tick, there, 1)
        again = tick.replace(tzinfo=there, fold=1).astimezone(timezone.utc) if twice else instant
        if again <= now:
            return again if first_pass is None else max(again, first_pass)
        if first_pass is None and instant <= now:
            first_pass = instant  # A tick before it may have occurred again since.


def _first_instant_of_local_time(clock: datetime, zone: ZoneInfo) -> datetime:
    before, after = _utc_offset(clock, zone, 0), _utc_offset(clock, zone, 1)
    instant = clock.replace(tzinfo=zone).astimezone(timezone.utc)
    if before >= after:
        return instant
    # Clocks change within these minutes: with the offset before it the result is later, with the
    # offset after it earlier than the change.
    early, minutes = instant - (after - before), int((after - before).total_seconds()) // 60
    first = bisect_left(
        range(minutes),
        True,
        key=lambda past: (early + timedelta(minutes=past)).astimezone(zone).utcoffset() == after,
    )
    return early + timedelta(minutes=first)


def _utc_offset(clock: datetime, zone: ZoneInfo, fold: int) -> timedelta:
    return clock.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()


@functools.cache
def shortest_gap_seconds(cron: str) -> float:
    """Return the shortest time between two successive ticks, in seconds: 86400.0 for `@daily`."""
    from croniter import croniter  # Not every command needs ticks.

    cron = normalise_cron(cron)
    (minutes, hours, *dates), nth_weekdays = croniter.expand(cron)
    clock = sorted(
        60 * hour + minute
        for hour in (range(24) if hours == ["*"] else map(int, hours))
        for minute in (range(60) if minutes == ["*"] else map(int, minutes))
    )
    gaps = [later - earlier for earlier, later in itertools.pairwise(clock)]
    days = _shortest_gap_days(cron, 28 if nth_weekdays or dates.count(["*"]) < 2 else 2)
    return 60.0 * min([*gaps, days * 24 * 60 - clock[-1] + clock[0]])


def _shortest_gap_days(cron: str, years: int) -> int:
    """Return the shortest time between two days with ticks."""
    # Weekdays and dates repeat every 28 years.
    from croniter import croniter

    ticks = croniter(f"0 0 {' '.join(cron.split()[2:])}", _A_LEAP_YEAR - timedelta(days=366))
    last, shortest = ticks.get_next(datetime), timedelta.max
    # The years are one without and one with a 29 February, which may be the only tick.
    while shortest.days > 1 and (shortest == timedelta.max or last.year < 2023 + years):
        tick = ticks.get_next(datetime)
        last, shortest = tick, min(shortest, tick - last)
    return shortest.days
