"""Types of seeds' columns that dbt infers from values with one digit for a month, day or hour.

dbt-duckdb leaves inference to DuckDB, other adapters to agate. Both read `2024-2-4` as a date and
`2024-02-04 2:02:21` as an instant; DuckDB alone also reads instants without seconds, with fractions
of seconds, or with a `T`.
"""

from __future__ import annotations

import csv
import re
from datetime import datetime
from pathlib import Path

_SHORT = re.compile(
    rb"\d{4}-(?:\d-|\d\d-\d(?!\d)|\d\d-\d\d[ T](?:\d:|\d\d:\d(?!\d)|\d\d:\d\d:\d(?!\d)))"
)
"""A part of one digit, of which a file that has none is not read a second time."""
_DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_DATES = re.compile(_DATE)
_INSTANTS = re.compile(_DATE + r" (\d{1,2}):(\d{1,2}):(\d{1,2})")
_DUCKDB_INSTANTS = re.compile(_DATE + r"[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.\d{1,6})?)?")


def types_of_short_times(path: Path, delimiter: str, adapter: str) -> dict[str, str]:
    """Return DATE or TIMESTAMP for columns with such values, by their names in small letters."""
    if not _SHORT.search(path.read_bytes()):
        return {}
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    instants = _DUCKDB_INSTANTS if adapter == "duckdb" else _INSTANTS
    found = {}
    for index, name in enumerate(rows[0] if rows else ()):
        values = {row[index].strip() for row in rows[1:] if index < len(row)} - {"", "null"}
        if not any(_SHORT.match(value.encode()) for value in values):
            continue
        if all(_is_time(value, _DATES) for value in values):
            found[name.strip().lower()] = "DATE"
        elif all(_is_time(value, instants) for value in values):
            found[name.strip().lower()] = "TIMESTAMP"
    return found


def _is_time(value: str, pattern: re.Pattern[str]) -> bool:
    match = pattern.fullmatch(value)
    if match is None:
        return False
    try:
        datetime(*(int(part) for part in match.groups() if part is not None))  # type: ignore[arg-type]
    except ValueError:
        return False
    return True
