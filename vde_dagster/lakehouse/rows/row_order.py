"""Sorts rows by keys, and selects the page after a given row. NaN and then NULL come last.

Rows with equal keys stay in reading order. A cursor is not signed, because a forged cursor can only
select rows that the request may read anyway.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from vde_dagster.errors import UsageError


@dataclass(frozen=True, slots=True)
class SortKey:
    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Behind:
    """The position in the sorted rows at which a page begins.

    Args:
        keys: The keys of the last row before the position.
        given: Number of rows with these keys before the position.
    """

    keys: tuple[pa.Scalar, ...]
    given: int


def first_rows(
    batches: Iterable[pa.Table],
    schema: pa.Schema,
    keys: Sequence[SortKey],
    most: int,
    behind: Behind | None,
) -> pa.Table:
    """Sort rows by the keys, and return up to `most` rows after a position.

    Args:
        batches: All rows, in the same order for every page.
        keys: The sort keys. Without keys, rows stay in reading order.
    """
    found = schema.empty_table()
    skip = behind.given if behind is not None else 0
    # Only the result and one batch are in memory at a time.
    for rows in batches:
        if not keys:
            rest, skip = rows.slice(min(skip, rows.num_rows)), max(0, skip - rows.num_rows)
            found = pa.concat_tables([found, rest.slice(0, most - found.num_rows)])
            if found.num_rows >= most:
                break
            continue
        if behind is not None:
            after, same = _compared(rows, keys, behind.keys)
            equal = pc.indices_nonzero(same)
            taken = min(skip, len(equal))
            skip -= taken
            kept = pa.concat_arrays([pc.indices_nonzero(after), equal.slice(taken)])
            rows = rows.take(kept.take(pc.sort_indices(kept)))
        found = _sorted(pa.concat_tables([found, rows]), keys).slice(0, most)
    return found.combine_chunks()


def _sorted(rows: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    columns: dict[str, Any] = {}
    order: list[tuple[str, str]] = []
    for number, key in enumerate(keys):
        # Arrow puts NaN and NULL last in both directions only when it sorts by one column.
        rank, value = _rank(rows[key.column]), rows[key.column]
        columns |= {f"r{number}": rank, f"v{number}": value}
        order += [
            (f"r{number}", "ascending"),
            (f"v{number}", "descending" if key.descending else "ascending"),
        ]
    return rows.take(pc.sort_indices(pa.table(columns), sort_keys=order))


def _rank(values: Any) -> Any:
    null = pc.is_null(values)
    nan = pc.is_nan(values) if pa.types.is_floating(values.type) else None
    ranks = pc.if_else(null, pa.scalar(2, pa.int8()), pa.scalar(0, pa.int8()))
    if nan is None:
        return ranks
    return pc.if_else(pc.fill_null(nan, False), pa.scalar(1, pa.int8()), ranks)


def _compared(
    rows: pa.Table, keys: Sequence[SortKey], last: Sequence[pa.Scalar]
) -> tuple[Any, Any]:
    length = rows.num_rows
    after, same = pa.repeat(False, length), pa.repeat(True, length)
    for key, value in zip(keys, last, strict=True):
        column = rows[key.column].combine_chunks()
        rank, own = _rank(column), _rank(pa.repeat(value, 1))[0]
        later = pc.greater(rank, own)
        equal = pc.equal(rank, own)
        if own.as_py() == 0:
            compare = pc.less if key.descending else pc.greater
            beyond = pc.fill_null(compare(column, value), False)
            later = pc.or_(later, pc.and_(equal, beyond))
            equal = pc.and_(equal, pc.fill_null(pc.equal(column, value), False))
        after = pc.or_(after, pc.and_(same, later))
        same = pc.and_(same, equal)
    return _combined(after), _combined(same)


def _combined(mask: Any) -> pa.Array:
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of the next page, which clients send back as text.

    Args:
        request: Identifies the request that the cursor belongs to.
        keys: The last row's sort keys, as texts.
        given: Number of returned rows with these keys; without sort keys, of all returned rows.
    """

    version: int
    request: str
    keys: tuple[Any, ...]
    given: int

    def text(self) -> str:
        data = json.dumps([self.version, self.request, list(self.keys), self.given])
        return base64.urlsafe_b64encode(data.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Parse a text that a client sent back, or raise UsageError."""
        try:
            data = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            version, request, keys, given = data
            if type(version) is int and type(request) is str and type(given) is int and given >= 0:
                return cls(version, request, tuple(keys), given)
        except (ValueError, TypeError, RecursionError):
            pass
        raise UsageError(
            "the cursor was not made by this server", hint="send `next` of the last page unchanged"
        )


def require_sortable(keys: Sequence[SortKey], schema: pa.Schema) -> None:
    """Raise UsageError if a sort key has an unsupported type, such as a nested or binary one."""
    for key in keys:
        if not _is_sortable(schema.field(key.column).type):
            raise UsageError(f"rows cannot be sorted by {key.column}: its type is not supported")


def _is_sortable(type_: pa.DataType) -> bool:
    kinds = pa.types
    return any(
        is_kind(type_)
        for is_kind in (
            kinds.is_boolean,
            kinds.is_integer,
            kinds.is_floating,
            kinds.is_decimal,
            kinds.is_string,
            kinds.is_large_string,
            kinds.is_date32,
            kinds.is_timestamp,
        )
    )


def to_key(value: pa.Scalar) -> str | None:
    """Convert a sort key to a text without loss."""
    found: str | None = value.cast(_exact_type(value.type)).cast(pa.string()).as_py()
    return found


def from_keys(keys: Sequence[Any], types: Sequence[pa.DataType]) -> list[pa.Scalar]:
    """Read sort keys that `to_key` wrote, or raise UsageError if they have other types."""
    try:
        return [
            pa.scalar(None if key is None else str(key), pa.string())
            .cast(_exact_type(type_))
            .cast(type_)
            for key, type_ in zip(keys, types, strict=True)
        ]
    except (ValueError, ArithmeticError) as error:
        raise UsageError(
            "the cursor belongs to another request", hint="start again without a cursor"
        ) from error


def _exact_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(type_) else type_
