"""Rows as JSON, as an Arrow stream and as CSV."""

from __future__ import annotations

import base64
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.csv
from pydantic_core import to_json

from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.planning.environments.environment import Environment
    from vde_dagster.plugins.serve.read_rows import Page

Format = Literal["json", "arrow", "csv"]
MEDIA: dict[Format, str] = {
    "json": "application/json",
    "arrow": "application/vnd.apache.arrow.stream",
    "csv": "text/csv",
}


def chosen_format(asked: Format | None, accept: str) -> Format:
    """Return the format that a request asks for, by name or by its `Accept`; JSON by default."""
    if asked is not None:
        return asked
    for part in accept.lower().split(","):
        kind = part.partition(";")[0].strip()
        for name, media in MEDIA.items():
            if kind == media:
                return name
    return "json"


def written(page: Page, form: Format, version: Environment, model: str) -> bytes:
    """Write a page.

    Args:
        version: Whose they are, for JSON, which says so.

    Raises:
        UsageError: CSV has no form for a column.
    """
    if form == "arrow":
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, page.rows.schema) as stream:
            stream.write_table(page.rows)
        return bytes(sink.getvalue())
    if form == "csv":
        sink = pa.BufferOutputStream()
        try:
            pyarrow.csv.write_csv(page.rows, sink)
        except pa.ArrowInvalid as error:
            raise UsageError(
                f"CSV has no form for a column: {error}", hint="leave it out, or ask for JSON"
            ) from error
        return bytes(sink.getvalue())
    answer: dict[str, Any] = {
        "environment": version.name,
        "version": version.version,
        "publication": version.publication_id,
        "model": model,
        "columns": [{"name": one.name, "type": str(one.type)} for one in page.rows.schema],
        "rows": json_rows(page.rows),
        "next": page.next.text() if page.next is not None else None,
    }
    # NaN and infinities are no JSON.
    return to_json(answer, inf_nan_mode="strings")


def json_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as JSON has them: bytes in base64, days and instants of any year as texts."""
    changed = [_plain_type(field.type) for field in rows.schema]
    fields = zip(rows.schema, changed, strict=True)
    held = rows.cast(pa.schema([field.with_type(type_) for field, type_ in fields]))
    found: list[dict[str, Any]] = held.to_pylist()
    for field, type_ in zip(rows.schema, changed, strict=True):
        if _differs(field.type, type_):
            for row in found:
                row[field.name] = _plain_value(row[field.name], field.type)
    return found


def _differs(own: pa.DataType, plain: pa.DataType) -> bool:
    return bool(own != plain) or "binary" in str(own)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    """Return a type that Python has all values of, in place of days and instants."""
    kinds = pa.types
    if kinds.is_date32(type_):
        return pa.int32()
    if kinds.is_timestamp(type_):
        return pa.int64()
    if kinds.is_struct(type_):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in type_.fields])
    if kinds.is_map(type_):
        return pa.map_(
            type_.key_field.with_type(_plain_type(type_.key_type)),
            type_.item_field.with_type(_plain_type(type_.item_type)),
        )
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        made = pa.list_ if kinds.is_list(type_) else pa.large_list
        return made(type_.value_field.with_type(_plain_type(type_.value_type)))
    return type_


def _plain_value(value: Any, type_: pa.DataType) -> Any:
    kinds = pa.types
    if value is None:
        return None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if kinds.is_date32(type_):
        return _day(value)
    if kinds.is_timestamp(type_):
        return _instant(value, type_)
    if kinds.is_struct(type_):
        return {field.name: _plain_value(value[field.name], field.type) for field in type_.fields}
    if kinds.is_map(type_):
        return [
            (_plain_value(key, type_.key_type), _plain_value(one, type_.item_type))
            for key, one in value
        ]
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        return [_plain_value(one, type_.value_type) for one in value]
    return value


_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
_UNITS = {"s": (1, 0), "ms": (10**3, 3), "us": (10**6, 6), "ns": (10**9, 9)}


def _day(days: int) -> str:
    """Return a day as ISO 8601 has it; years beyond 0 to 9999 have a sign."""
    # The calendar is the same again after 400 years.
    cycles, rest = divmod(days + 719_162, _CYCLE_DAYS)  # days since the year 1
    within = date.fromordinal(rest + 1)
    year = within.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > 9_999 else ""
    return f"{sign}{abs(year):04}-{within:%m-%d}"


def _instant(value: int, type_: pa.TimestampType) -> str:
    units, digits = _UNITS[type_.unit]
    seconds, rest = divmod(value, units)
    days, of_day = divmod(seconds, 86_400)
    part = f".{rest:0{digits}}" if rest else ""
    zone = "Z" if type_.tz is not None else ""
    hours, minutes = divmod(of_day // 60, 60)
    return f"{_day(days)}T{hours:02}:{minutes:02}:{of_day % 60:02}{part}{zone}"
