"""Values that Spark returned as YAML can hold them, and tests read them."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from vde_dagster.errors import UsageError
from vde_dagster.planning.interval import utc


def yaml_value(value: Any, column: str) -> Any:
    """Return a value for a test's file: the column's type makes it what it was.

    Decimals and bytes are texts, which are cast; NULL, NaN, lists and structs are what they are.

    >>> yaml_value({"price": Decimal("1.50"), "tags": ["a", None]}, "item")
    {'price': '1.50', 'tags': ['a', None]}

    Args:
        value: The value.
        column: Its column, for messages.

    Raises:
        UsageError: A test cannot write it.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return str(value) if value.tzinfo is None else str(utc(value))
    if isinstance(value, date):
        return value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise _cannot(column, "bytes that are no text") from None
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {key: yaml_value(item, column) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [yaml_value(item, column) for item in value]
    raise _cannot(column, f"values of Python's type {type(value).__name__}")


def _cannot(column: str, what: str) -> UsageError:
    return UsageError(
        f"the column '{column}' has {what}, which a test cannot write",
        hint="leave it out of the rows with --query 'parent=SELECT …', or write the test by hand",
    )
