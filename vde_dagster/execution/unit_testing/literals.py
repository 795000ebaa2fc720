"""Values of a test as Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from vde_dagster.planning.interval import utc


def literal(value: Any, type_: str | None) -> str:
    """Write a value as Spark SQL.

    Args:
        value: What YAML read; an instant without a zone is UTC.
        type_: The column's Spark SQL type, to which it is cast, or None to leave it as it is.
    """
    text = _untyped(value, type_)
    return f"CAST({text} AS {type_})" if type_ and not isinstance(value, Mapping) else text


def _untyped(value: Any, type_: str | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, datetime):
        return f"TIMESTAMP '{utc(value).replace(tzinfo=None).isoformat(sep=' ')}+00:00'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Mapping):
        return _struct_or_map(value, type_)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"ARRAY({', '.join(_untyped(item, None) for item in value)})"
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _struct_or_map(value: Mapping[Any, Any], type_: str | None) -> str:
    pairs = ", ".join(f"{_untyped(str(k), None)}, {_untyped(v, None)}" for k, v in value.items())
    if type_ and type_.upper().startswith("MAP"):
        return f"CAST(MAP({pairs}) AS {type_})"
    struct = f"NAMED_STRUCT({pairs})"
    return f"CAST({struct} AS {type_})" if type_ else struct
