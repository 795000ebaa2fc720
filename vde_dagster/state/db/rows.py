"""Rows in batches, and values made from rows; instants are microseconds since 1970 (UTC)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, timezone
from functools import cache, lru_cache
from typing import Any, TypeVar

import sqlalchemy as sa

from vde_dagster.base.names import ModelName
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.state.db.guards import write_views

T = TypeVar("T")
_CHUNK = 500


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split a sequence into parts of 500, because databases limit a statement's parameters."""
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]


def among(
    connection: sa.Connection,
    query: Any,
    column: sa.ColumnElement[Any],
    values: Iterable[Any],
    parameters: Mapping[str, Any] | None = None,
) -> Iterator[Any]:
    """Run a query, and yield the rows with one of the given values in a column."""
    found = _with_values(query, column)
    for part in chunks(list(dict.fromkeys(values))):
        yield from connection.execute(found, {**(parameters or {}), "among": part})


@lru_cache(maxsize=256)
def _with_values(query: Any, column: sa.ColumnElement[Any]) -> Any:
    return query.where(column.in_(sa.bindparam("among", expanding=True)))


@dataclass(frozen=True, slots=True)
class OnRanges:
    """Statements for the rows that overlap a range, or that lie within it; see `span`."""

    read: sa.Select[Any]
    delete: sa.Delete
    delete_within: sa.Delete


@cache
def on_ranges(table: sa.Table) -> OnRanges:
    row = table.c
    own, start, end = row.table_id == sa.bindparam("of"), row.start_at, row.end_at
    overlaps = own & (start < sa.bindparam("of_end")) & (end > sa.bindparam("of_start"))
    within = own & (start >= sa.bindparam("of_start")) & (end <= sa.bindparam("of_end"))
    return OnRanges(
        sa.select(table).where(overlaps),
        sa.delete(table).where(overlaps),
        sa.delete(table).where(within),
    )


def span(table_id: str, interval: Interval) -> dict[str, Any]:
    """Return the parameters of `on_ranges` for a range of a physical table."""
    return {"of": table_id, "of_start": interval.start, "of_end": interval.end}


def value_from_row(kind: type[T], row: sa.Row[Any], **others: Any) -> T:
    """Create a dataclass value. Fields that are not in `others` get the row's columns by name."""
    hashable: Any = kind
    values = {name: getattr(row, name) for name in _fields(hashable) if name not in others}
    return kind(**values, **others)


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def row_from_value(value: object, table: sa.Table, **others: Any) -> dict[str, Any]:
    """Create a row. Columns that are not in `others` get the value's attributes by name."""
    names = (column.name for column in table.c)
    return {name: getattr(value, name) for name in names if hasattr(value, name)} | others


def is_model(table: sa.Table, name: ModelName) -> sa.ColumnElement[bool]:
    """Build the SQL condition that a row belongs to a model."""
    return (table.c.model_namespace == name.namespace) & (table.c.model_name == name.name)


def valid_at(table: sa.Table, environment: Any, version: Any) -> tuple[sa.ColumnElement[bool], ...]:
    """Build the SQL condition that an entry or pin belongs to a version of an environment."""
    until = table.c.valid_to
    return (
        table.c.environment == environment,
        table.c.valid_from <= version,
        until.is_(None) | (until > version),
    )


def ranges_by_key(rows: Iterable[Any]) -> dict[Any, IntervalSet]:
    """Group rows of the form (key, start, end) into one set of intervals for each key."""
    found: dict[Any, list[Interval]] = {}
    for key, start, end in rows:
        found.setdefault(key, []).append(Interval(start, end))
    return {key: IntervalSet.of(ranges) for key, ranges in found.items()}


def upsert(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], *changed: str
) -> int:
    """Insert rows, or update columns `changed` of existing ones. Returns how many were written."""
    if not rows:
        return 0
    if write_views.writes_by_views(connection):
        taken = ",".join(changed) or write_views.NOTHING
        own = [{**row, write_views.ON_CONFLICT: taken} for row in rows]
        return connection.execute(sa.insert(write_views.with_conflict_column(table)), own).rowcount
    return connection.execute(_upsert(connection.dialect.name, table, changed), rows).rowcount


@cache
def _upsert(dialect_name: str, table: sa.Table, changed: tuple[str, ...]) -> Any:
    dialect: Any
    if dialect_name == "postgresql":
        from sqlalchemy.dialects import postgresql as dialect  # 50 ms that SQLite need not pay.
    else:
        from sqlalchemy.dialects import sqlite as dialect
    statement = dialect.insert(table)
    new = {name: statement.excluded[name] for name in changed}
    if new:
        return statement.on_conflict_do_update(index_elements=table.primary_key, set_=new)
    return statement.on_conflict_do_nothing()


EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(value: datetime) -> int:
    return (value - EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


class Texts(sa.TypeDecorator[dict[str, str]]):
    """Column type for a dictionary of texts, stored compressed. An empty dictionary is NULL."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> bytes | None:
        return zlib.compress(json.dumps(value, sort_keys=True).encode(), 6) if value else None

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> dict[str, str]:
        return {} if value is None else dict(json.loads(zlib.decompress(value)))


class Instant(sa.TypeDecorator[datetime]):
    """Column type for a datetime with time zone, stored as microseconds since 1970."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> int | None:
        return None if value is None else to_micros(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else from_micros(value)
