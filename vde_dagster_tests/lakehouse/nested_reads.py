"""Random nested columns: their types, rows, a later schema of the table, and the rows under it.

Types have lists, maps and structs to a depth of three. A later schema has fields added, dropped,
renamed, reordered and promoted at every depth.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
from pyiceberg import types
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

Rows = list[dict[str, Any]]

_VALUES: dict[IcebergType, Sequence[Any]] = {
    types.IntegerType(): (0, 1, -1, 2**31 - 1, -(2**31)),
    types.LongType(): (0, 7, 2**63 - 1, -(2**63)),
    types.FloatType(): (0.0, 1.5, -2.25),
    types.DoubleType(): (0.0, 0.1, -1e300),
    types.DecimalType(9, 2): (Decimal("0.00"), Decimal("1234567.89"), Decimal("-0.01")),
    types.DecimalType(18, 2): (Decimal("0.00"), Decimal("-9999999999999999.99")),
    types.StringType(): ("", "a", "ä\n𝄞", "null"),
    types.BooleanType(): (True, False),
    types.DateType(): (date(1969, 12, 31), date(2024, 2, 29)),
    types.TimestampType(): (datetime(1969, 12, 31, 23, 59, 59, 1), datetime(2024, 2, 29)),
    types.TimestamptzType(): (datetime(2024, 2, 29, 1, 2, 3, tzinfo=timezone.utc),),
    types.BinaryType(): (b"", b"\x00\xff"),
}
_PROMOTED: dict[IcebergType, IcebergType] = {
    types.IntegerType(): types.LongType(),
    types.FloatType(): types.DoubleType(),
    types.DecimalType(9, 2): types.DecimalType(18, 2),
}


class Nested:
    """Makes types, values and later schemas from a source of chance."""

    def __init__(self, some: random.Random) -> None:
        self.some = some
        self.ids = count(1)

    def schema(self, columns: int) -> Schema:
        """Return an `id` and some columns of nested types."""
        fields = [NestedField(next(self.ids), "id", types.LongType())]
        for number in range(columns):
            fields.append(NestedField(next(self.ids), f"c{number}", self._nested(3)))
        return Schema(*fields)

    def rows(self, schema: Schema, first: int, length: int) -> Rows:
        """Return rows of a schema; NULL and empty values are at every level."""
        return [
            {"id": first + place}
            | {one.name: self._value(one.field_type) for one in schema.fields[1:]}
            for place in range(length)
        ]

    def later(self, schema: Schema) -> Schema:
        """Return a later schema of a table, with the field ids of the earlier one."""
        self.ids = count(max(schema.field_ids) + 1)
        fields = [
            NestedField(one.field_id, one.name, self._evolved(one.field_type))
            for one in schema.fields[1:]
        ]
        if self.some.random() < 0.3:
            fields.append(NestedField(next(self.ids), "added", self._nested(2)))
        return Schema(schema.fields[0], *fields, schema_id=schema.schema_id + 1)

    def _type(self, depth: int) -> IcebergType:
        if depth and self.some.random() < 0.7:
            return self._nested(depth)
        return self.some.choice(list(_VALUES))

    def _nested(self, depth: int) -> IcebergType:
        kind = self.some.choice(("list", "map", "struct", "struct"))
        if kind == "list":
            return ListType(next(self.ids), self._type(depth - 1), False)
        if kind == "map":
            key: IcebergType = self.some.choice((types.StringType(), types.IntegerType()))
            if self.some.random() < 0.2:
                key = StructType(NestedField(next(self.ids), "k", types.IntegerType()))
            return MapType(next(self.ids), key, next(self.ids), self._type(depth - 1), False)
        fields = (self._field(f"f{place}", depth) for place in range(self.some.randint(1, 3)))
        return StructType(*fields)

    def _field(self, name: str, depth: int) -> NestedField:
        return NestedField(next(self.ids), name, self._type(depth - 1))

    def _value(self, type_: IcebergType) -> Any:
        some = self.some
        if some.random() < 0.3:
            return None
        if isinstance(type_, StructType):
            return {one.name: self._value(one.field_type) for one in type_.fields}
        if isinstance(type_, ListType):
            return [self._value(type_.element_type) for _ in range(some.choice((0, 0, 1, 3)))]
        if isinstance(type_, MapType):
            return [
                (_key(type_.key_type, place), self._value(type_.value_type))
                for place in range(some.choice((0, 0, 1, 3)))
            ]
        return some.choice(_VALUES[type_])

    def _evolved(self, type_: IcebergType) -> IcebergType:
        some = self.some
        if isinstance(type_, StructType):
            fields = []
            for one in type_.fields:
                if some.random() < 0.25:
                    continue
                name = f"{one.name}r" if some.random() < 0.25 else one.name
                fields.append(NestedField(one.field_id, name, self._evolved(one.field_type)))
            if not fields or some.random() < 0.4:
                # Of the name of one that may have been dropped, which is another field.
                free = [name for name in ("f0", "g") if name not in {one.name for one in fields}]
                fields.append(NestedField(next(self.ids), some.choice(free), self._type(1)))
            some.shuffle(fields)
            return StructType(*fields)
        if isinstance(type_, ListType):
            return ListType(type_.element_id, self._evolved(type_.element_type), False)
        if isinstance(type_, MapType):
            value = self._evolved(type_.value_type)
            return MapType(type_.key_id, type_.key_type, type_.value_id, value, False)
        return _PROMOTED.get(type_, type_) if some.random() < 0.5 else type_


def _key(type_: IcebergType, place: int) -> Any:
    if isinstance(type_, StructType):
        return {one.name: _key(one.field_type, place) for one in type_.fields}
    return place if isinstance(type_, types.IntegerType) else f"k{place}"


def arrow_rows(schema: Schema, rows: Rows) -> pa.Table:
    """Return rows as Arrow has them, with field ids."""
    return pa.Table.from_pylist(rows, schema=schema_to_pyarrow(schema, include_field_ids=True))


def under_later_schema(rows: Rows, earlier: Schema, later: Schema) -> Rows:
    """Return rows that were written under a schema as a later one shows them."""
    return [_as_later(row, earlier.as_struct(), later.as_struct()) for row in rows]


def _as_later(value: Any, earlier: IcebergType, later: IcebergType) -> Any:
    if value is None:
        return None
    if isinstance(earlier, StructType) and isinstance(later, StructType):
        own = {one.field_id: one for one in earlier.fields}
        return {
            one.name: _as_later(
                value[own[one.field_id].name], own[one.field_id].field_type, one.field_type
            )
            if one.field_id in own
            else None
            for one in later.fields
        }
    if isinstance(earlier, ListType) and isinstance(later, ListType):
        return [_as_later(one, earlier.element_type, later.element_type) for one in value]
    if isinstance(earlier, MapType) and isinstance(later, MapType):
        return [(key, _as_later(one, earlier.value_type, later.value_type)) for key, one in value]
    return value
