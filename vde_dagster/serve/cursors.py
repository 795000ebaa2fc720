"""Where a page of rows ended: the version, the last row's keys, and how many rows had just those.

A cursor is no secret and proves nothing: who changes one gets other rows of those that the same
request may read.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from vde_dagster.errors import UsageError


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended.

    Args:
        version: The version of the environment.
        request: What tells the request from others.
        keys: The last row's keys, as JSON data.
        given: How many rows with these keys were given already; of all rows where there are no
            keys.
    """

    version: int
    request: str
    keys: tuple[Any, ...]
    given: int

    def text(self) -> str:
        """Return it as clients send it back."""
        data = json.dumps([self.version, self.request, list(self.keys), self.given])
        return base64.urlsafe_b64encode(data.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Read what `text` wrote.

        Raises:
            UsageError: It is something else.
        """
        try:
            data = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            version, request, keys, given = data
            if type(version) is int and type(request) is str and type(given) is int and given >= 0:
                return cls(version, request, tuple(keys), given)
        except (ValueError, TypeError, RecursionError):
            pass
        raise UsageError(
            "the cursor is none of this server's", hint="send `next` of the page before as it is"
        )


def is_sortable(type_: pa.DataType) -> bool:
    """Say whether rows can be sorted by a column's type, and its values kept in a cursor."""
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


def to_key(value: pa.Scalar) -> Any:
    """Return a value as JSON data; none is lost of it."""
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        return value.cast(pa.int64()).as_py()
    if pa.types.is_date32(value.type):
        return value.cast(pa.int32()).as_py()
    found = value.as_py()
    if isinstance(found, float):
        return repr(found)
    return str(found) if isinstance(found, Decimal) else found


def from_keys(keys: Sequence[Any], types: Sequence[pa.DataType]) -> list[pa.Scalar]:
    """Return values that `to_key` wrote.

    Raises:
        UsageError: They are none of these types.
    """
    try:
        return [_value(key, type_) for key, type_ in zip(keys, types, strict=True)]
    except (ValueError, TypeError, ArithmeticError, OverflowError) as error:
        raise UsageError(
            "the cursor is of another request", hint="begin again without a cursor"
        ) from error


def _value(key: Any, type_: pa.DataType) -> pa.Scalar:
    if key is None:
        return pa.scalar(None, type_)
    if pa.types.is_timestamp(type_):
        return pa.scalar(int(key), pa.int64()).cast(type_)
    if pa.types.is_floating(type_):
        return pa.scalar(float(key), type_)
    if pa.types.is_decimal(type_):
        return pa.scalar(Decimal(key), type_)
    if pa.types.is_date32(type_):
        return pa.scalar(int(key), pa.int32()).cast(type_)
    return pa.scalar(key, type_)
