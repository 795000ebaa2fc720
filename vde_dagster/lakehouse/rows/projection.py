"""Converts rows of a data file to a table's schema, matching nested fields by field id.

PyIceberg 0.12 is not used, because it has two errors. A list or map of structs that is NULL is read
as empty. A struct is read as NULL if the file has none of its current fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType


def file_columns(file: Schema, wanted: Schema) -> list[str]:
    """Return the columns of a data file that hold the wanted columns of the table."""
    ids = {field.field_id for field in wanted.fields}
    return [field.name for field in file.fields if field.field_id in ids]


def project_batch(
    batch: pa.RecordBatch,
    file: Schema,
    wanted: Schema,
    types: pa.Schema,
    constants: Mapping[int, Any],
) -> pa.RecordBatch:
    """Convert rows of a data file to the columns and types of a table's current schema.

    Args:
        batch: The file's rows, with at least the columns of `file_columns`.
        types: The Arrow types of the columns, in the order of `wanted`.
        constants: By field id, values from the file's partition for fields that the file lacks.

    Raises:
        ResolveError: The file lacks a required field that has no default, or Iceberg cannot
            promote the type of a field to the table's type.
    """
    known = {field.field_id: field for field in file.fields}
    columns = []
    for field, target in zip(wanted.fields, types, strict=True):
        own = known.get(field.field_id)
        if own is None:
            columns.append(_missing(field, target.type, batch.num_rows, constants))
        else:
            values = batch.column(own.name)
            columns.append(
                _projected(values, own.field_type, field.field_type, target.type, constants)
            )
    if not columns:
        return batch.select([])
    return pa.RecordBatch.from_arrays(columns, schema=types)


def _projected(
    values: pa.Array,
    file: IcebergType,
    wanted: IcebergType,
    target: pa.DataType,
    constants: Mapping[int, Any],
) -> pa.Array:
    if isinstance(wanted, StructType) and isinstance(file, StructType):
        return _struct(values, file, wanted, target, constants)
    if isinstance(wanted, ListType) and isinstance(file, ListType):
        offsets, start, length = _ends(values.offsets)
        if pa.types.is_large_list(target):
            offsets = offsets.cast(pa.int64())
        elements = _projected(
            values.values.slice(start, length),
            file.element_type,
            wanted.element_type,
            target.value_type,
            constants,
        )
        kind = pa.LargeListArray if pa.types.is_large_list(target) else pa.ListArray
        return kind.from_arrays(offsets, elements, type=target, mask=values.is_null())
    if isinstance(wanted, MapType) and isinstance(file, MapType):
        offsets, start, length = _ends(values.offsets)
        keys = _projected(
            values.keys.slice(start, length),
            file.key_type,
            wanted.key_type,
            target.key_type,
            constants,
        )
        items = _projected(
            values.items.slice(start, length),
            file.value_type,
            wanted.value_type,
            target.item_type,
            constants,
        )
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=values.is_null())
    _check_promotion(file, wanted)
    return _promoted(values, target)


def _check_promotion(file: IcebergType, wanted: IcebergType) -> None:
    both = (type(file).__name__, type(wanted).__name__)
    instants = all(name.startswith("Timestamp") for name in both)
    if file == wanted or (instants and len({"tz" in name for name in both}) == 1):
        return
    if not (file.is_primitive and wanted.is_primitive):
        raise ResolveError(f"Cannot read {file} as {wanted}")
    promote(file, wanted)


def _struct(
    values: pa.Array,
    file: StructType,
    wanted: StructType,
    target: pa.DataType,
    constants: Mapping[int, Any],
) -> pa.Array:
    places = {field.field_id: place for place, field in enumerate(file.fields)}
    arrays = []
    for place, field in enumerate(wanted.fields):
        type_ = target.field(place).type
        own = places.get(field.field_id)
        if own is None:
            arrays.append(_missing(field, type_, len(values), constants))
        else:
            arrays.append(
                _projected(
                    values.field(own),
                    file.fields[own].field_type,
                    field.field_type,
                    type_,
                    constants,
                )
            )
    fields = [target.field(place) for place in range(target.num_fields)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=values.is_null())


def _ends(offsets: pa.Array) -> tuple[pa.Array, int, int]:
    start, end = offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
    # Arrow accepts a mask only if the offsets are not a slice of others.
    return pc.subtract(offsets, pa.scalar(start, offsets.type)), start, end - start


def _missing(
    field: NestedField, type_: pa.DataType, length: int, constants: Mapping[int, Any]
) -> pa.Array:
    value = constants.get(field.field_id)
    if value is None:
        value = field.initial_default
    if value is not None:
        return pa.repeat(pa.scalar(value, type=type_), length)
    if field.required:
        raise ResolveError(f"Field is required, and could not be found in the file: {field}")
    return pa.nulls(length, type=type_)


def _promoted(values: pa.Array, target: pa.DataType) -> pa.Array:
    if values.type == target:
        return values
    # Nanoseconds become the table's microseconds as everywhere in Iceberg: rounded down.
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(target):
        return values.cast(pa.timestamp(target.unit, values.type.tz), safe=False).cast(target)
    return values.cast(target)
