"""Values of a query's rows, for JSON and for people."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from vde_dagster.planning.interval import iso


def json_value(value: Any) -> Any:
    """Turn a value that Spark returned into what JSON can say.

    Instants become ISO 8601 in UTC, dates `2013-01-31`, decimals and intervals text, binary
    values Base64, NaN and the infinities null, structs objects.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if hasattr(value, "asDict"):
        return {key: json_value(item) for key, item in value.asDict().items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, Decimal | timedelta):
        return str(value)
    return str(value)


def text_value(value: Any) -> str:
    """Write a value for a table on a terminal."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.1f}"
    plain = json_value(value)
    return plain if isinstance(plain, str) else str(plain)
