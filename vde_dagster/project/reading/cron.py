"""Cron expressions: SQLMesh's short names become five fields."""

from __future__ import annotations

import re

SHORT_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_ONCE_A_DAY = re.compile(r"[0-5]?[0-9] ([01]?[0-9]|2[0-3]) \* \* \*")


def normalise_cron(text: str) -> str:
    """Return the five-field form (UTC) of a cron expression.

    Raises:
        ValueError: It is not a cron expression; the message says so.
    """
    fields = text.split()
    if len(fields) == 1 and fields[0].startswith("@"):
        short = SHORT_NAMES.get(fields[0].lower())
        if short is None:
            raise ValueError(f"'{text}' is not a cadence (known: {', '.join(SHORT_NAMES)})")
        return short
    normal = " ".join(fields)
    if normal in SHORT_NAMES.values() or _ONCE_A_DAY.fullmatch(normal):
        return normal  # Nearly every project has such a one, and the parser takes time to import.
    from croniter import croniter

    if len(fields) != 5 or not croniter.is_valid(normal):
        raise ValueError(f"'{text}' is not a cron expression of five fields")
    return normal
