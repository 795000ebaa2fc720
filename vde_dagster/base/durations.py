"""Lengths of time as people write them: `400d`, `12h`, `2w`."""

from __future__ import annotations

import re
from datetime import timedelta

from vde_dagster.errors import UsageError

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LONGEST = timedelta(days=365_000)


def parse_duration(text: str, name: str) -> timedelta:
    """Read a length of time: a whole number and `m`, `h`, `d` or `w`.

    Args:
        text: The text.
        name: What it is called where it was written.

    Raises:
        UsageError: It is none, or it is nothing, or longer than a thousand years.

    >>> parse_duration("400d", "--keep").days, parse_duration(" 2 W ", "--keep").days
    (400, 14)
    """
    found = re.fullmatch(r"\s*([0-9]{1,9})\s*([mhdw])\s*", text.lower(), re.ASCII)
    length = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else timedelta()
    if not timedelta() < length <= _LONGEST:
        raise UsageError(
            f"{name} '{text}' is not a length of time",
            hint="write a whole number of minutes, hours, days or weeks: 90m, 12h, 400d, 8w",
        )
    return length
