"""Time properties of a model: cron, time zone, interval unit, start and end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from vde_dagster.base import times
from vde_dagster.base.cron import shortest_gap_seconds
from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError
from vde_dagster.project.property_value import Value
from vde_dagster.project.settings import Settings

UNITS = {
    "five_minute": 300,
    "quarter_hour": 900,
    "half_hour": 1800,
    "hour": 3600,
    "day": 86400,
    "month": 28 * 86400,
    "year": 365 * 86400,
}
"""Names of interval units, with their shortest length in seconds."""

_SOME_DAY = datetime(2024, 1, 1, tzinfo=timezone.utc)


def read_times(given: Mapping[str, Value], settings: Settings) -> dict[str, Any]:
    """Read the properties about time, such as `cron` and `start`, as fields of `Model`."""
    cron, zone = settings.schedule()
    cron = given["cron"].cron() if "cron" in given else cron
    partials = "allow_partials" in given and given["allow_partials"].boolean()
    unit = given.get("interval_unit")
    fields: dict[str, Any] = {
        "cron": cron,
        "cron_tz": _read_zone(given["cron_tz"]) if "cron_tz" in given else zone,
        "interval_unit": _read_unit(unit, cron, partials) if unit is not None else None,
        "allow_partials": partials,
        **dict.fromkeys(("start", "end", "relative_start", "relative_end")),
    }
    for name in ("start", "end"):
        if name in given:
            fields |= _read_instant(given[name], name)
    if "start" not in given:
        fields["start"] = settings.start_time
    if fields["start"] and fields["end"] and fields["end"] <= fields["start"]:
        raise given["end"].error("'end' is not after 'start'", "a date as 'end' includes that day")
    return fields


def read_length(value: Value) -> int:
    """Read a length of time, such as `2 hours` or `90m`, as seconds."""
    text = re.sub(r"(minute|hour|day|week)s?", lambda found: found[1][0], value.text().lower())
    try:
        return int(times.parse_duration(text, value.name).total_seconds())
    except UsageError:
        message = f"'{value.text()}' is not a length of time"
        raise value.error(
            message, f"write {value.name} '2 hours', '45 minutes' or '1 day'"
        ) from None


def _read_zone(value: Value) -> str:
    text = value.raw.strip("'\"")
    try:
        return times.zone_name(text)
    except LookupError as error:
        raise value.error(f"'{text}' is not a time zone", error.args[0]) from None


def _read_unit(value: Value, cron: str, partials: bool) -> str:
    text = value.raw.strip("'\"").lower()
    if text not in UNITS:
        raise value.error(
            f"'{text}' is not an interval unit", suggest(text, UNITS, "interval units")
        )
    if UNITS[text] > shortest_gap_seconds(cron) and not partials:
        raise value.error(
            f"the interval unit '{text}' is longer than the time between two ticks of '{cron}'",
            "use a shorter unit or a less frequent cron; or 'allow_partials true', which fills the"
            " unfinished unit at every tick",
        )
    return text


def _read_instant(value: Value, name: str) -> dict[str, Any]:
    text = value.raw.strip("'\"")
    try:
        if times.is_relative(text):
            times.relative_instant(text, _SOME_DAY)
            return {f"relative_{name}": " ".join(text.lower().split())}
        return {name: times.parse_end(text) if name == "end" else times.parse_instant(text)}
    except (ValueError, OverflowError):
        raise value.error(*not_a_date(text)) from None


def not_a_date(text: str, *, relative: bool = True) -> tuple[str, str]:
    """Return the error message and the hint for a text that is not a date."""
    also = ", 'yesterday' or '3 days ago'" if relative else ""
    return f"'{text}' is not a date", f"write it as '2013-01-31'{also}"
