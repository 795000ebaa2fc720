"""Values of rows as JSON, in one form for every output; and the canonical form of JSON.

JSON has no NaN, infinity, decimal, date or bytes: these become texts. docs/cli.md has the table.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any


def json_value(value: Any) -> Any:
    """Convert a value of a row to JSON types: a `Decimal` to "1.50", NaN to "NaN"."""
    if isinstance(value, float):
        return value if math.isfinite(value) else _non_finite_text(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else _non_finite_text(float(value))
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(timezone.utc)
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _interval_literal(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {_json_key(key): json_value(item) for key, item in value.items()}
    if hasattr(value, "asDict"):
        return json_value(value.asDict())
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return str(value)


def text_value(value: Any) -> str:
    """Format a value of a row for a table on a terminal; None becomes `NULL`."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.1f}"
    return str(json_value(value))


def canonical_json(value: Any) -> bytes:
    """Write JSON so that equal values have equal bytes: sorted keys, no whitespace, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _non_finite_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _json_key(key: Any) -> str:
    found = json_value(key)
    return found if isinstance(found, str) else json.dumps(found)


def _interval_literal(value: timedelta) -> str:
    sign = "-" if value < timedelta(0) else ""
    value = abs(value)
    hours, rest = divmod(value.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    part = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    text = f"{sign}{value.days} {hours:02}:{minutes:02}:{seconds:02}{part}"
    return f"INTERVAL '{text}' DAY TO SECOND"
