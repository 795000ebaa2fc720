"""Nested values read without an engine: NULL, empty and evolved ones are as they were written."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types
from pyiceberg.exceptions import ResolveError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import ListType, MapType, NestedField, StructType

from vde_dagster.lakehouse.commit_rows import some_rows
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.rows.projection import file_columns, project_batch
from vde_dagster.lakehouse.rows.scan import narrowed, scan_rows
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable, TableRef
from vde_dagster_tests.lakehouse.nested_reads import Nested, Rows, arrow_rows, under_later_schema
from vde_dagster_tests.lakehouse.pyiceberg_tables import pyiceberg_catalog


def projected(rows: pa.Table, wanted: Schema, at: int = 0) -> Rows:
    """Return rows from a place on, projected from a batch that is a slice of a file."""
    own = pyarrow_to_schema(rows.schema)
    batch = rows.combine_chunks().to_batches()[0].slice(at).select(file_columns(own, wanted))
    types_ = schema_to_pyarrow(wanted, include_field_ids=False)
    found = project_batch(batch, own, wanted, types_, {})
    found.validate(full=True)
    return pa.Table.from_batches([found]).to_pylist()


@pytest.mark.proof
@given(st.randoms(use_true_random=False), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_any_nested_value_is_read_as_written_under_any_later_schema(
    some: random.Random, at: int
) -> None:
    nested = Nested(some)
    schema = nested.schema(2)
    rows = nested.rows(schema, 0, 5)
    later = nested.later(schema)
    written = arrow_rows(schema, rows)
    assert projected(written, schema, at) == rows[at:]
    assert projected(written, later, at) == under_later_schema(rows, schema, later)[at:]


NULL_OR_EMPTY = Schema(
    NestedField(1, "id", types.LongType()),
    NestedField(2, "l", ListType(3, StructType(NestedField(4, "a", types.IntegerType())), False)),
    NestedField(
        5,
        "m",
        MapType(
            6,
            types.StringType(),
            7,
            StructType(NestedField(8, "a", types.IntegerType())),
            False,
        ),
    ),
    NestedField(9, "ll", ListType(10, ListType(11, types.IntegerType(), False), False)),
    NestedField(12, "s", StructType(NestedField(13, "a", types.IntegerType()))),
)
ROWS: Rows = [
    {"id": 0, "l": None, "m": None, "ll": None, "s": None},
    {"id": 1, "l": [], "m": [], "ll": [], "s": {"a": None}},
    {"id": 2, "l": [None], "m": [("k", None)], "ll": [None], "s": {"a": 1}},
    {"id": 3, "l": [{"a": None}], "m": [("k", {"a": None})], "ll": [[]], "s": None},
]


def test_a_table_is_read_with_null_and_empty_apart(lakehouse: Lakehouse, tmp_path: Path) -> None:
    assert read(written(lakehouse, tmp_path)) == ROWS


def test_the_rows_of_a_commit_have_null_where_it_was_written(
    lakehouse: Lakehouse, tmp_path: Path
) -> None:
    table = written(lakehouse, tmp_path)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    names = [field.name for field in NULL_OR_EMPTY.fields]
    made = PhysicalTable(
        id="t",
        ref=TableRef("nested", "t"),
        fill_version="f",
        columns=tuple(PhysicalColumn(name, "v", None) for name in names),
        snapshot_id="s",
        created=True,
    )
    rows = some_rows(
        lakehouse,
        made,
        snapshot.snapshot_id,
        [(name, name) for name in names],
        time_column=None,
        intervals=[],
        limit=9,
    )
    assert rows == ROWS


def test_only_an_added_column_is_read_of_files_that_lack_it(
    lakehouse: Lakehouse, tmp_path: Path
) -> None:
    table = written(lakehouse, tmp_path)
    with table.update_schema() as change:
        change.add_column("more", types.StringType())
    assert read(table.refresh(), "more") == [{"more": None}] * 4


def test_a_struct_with_none_of_its_former_fields_is_not_null() -> None:
    later = Schema(
        NestedField(12, "s", StructType(NestedField(20, "b", types.StringType()))),
    )
    rows = arrow_rows(NULL_OR_EMPTY, ROWS)
    assert projected(rows, later) == [
        {"s": None},
        {"s": {"b": None}},
        {"s": {"b": None}},
        {"s": None},
    ]


def test_a_field_with_a_default_has_it_where_files_are_older_and_a_required_one_needs_it() -> None:
    default = NestedField(20, "b", types.StringType(), required=True, initial_default="x")
    rows = arrow_rows(NULL_OR_EMPTY, ROWS)
    later = Schema(NestedField(2, "l", ListType(3, StructType(default), False)))
    assert projected(rows, later) == [
        {"l": None},
        {"l": []},
        {"l": [None]},
        {"l": [{"b": "x"}]},
    ]
    required = NestedField(20, "b", types.StringType(), required=True)
    with pytest.raises(ResolveError, match="b: required string"):
        projected(rows, Schema(NestedField(2, "l", ListType(3, StructType(required), False))))


def test_a_file_without_columns_of_the_table_has_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(arrow_rows(NULL_OR_EMPTY, ROWS), path)
    later = Schema(NestedField(30, "c", types.LongType()))
    assert projected(pq.read_table(path), later) == [{"c": None}] * 4


def written(lakehouse: Lakehouse, folder: Path) -> Table:
    """Write the rows into a table in a commit."""
    catalog = pyiceberg_catalog(lakehouse)
    catalog.create_namespace("nested")
    made = catalog.create_table(("nested", "t"), NULL_OR_EMPTY)
    # PyIceberg loses NULL when it writes, too, so that it is only told of a file.
    path = str(folder / "rows.parquet")
    plain = schema_to_pyarrow(NULL_OR_EMPTY, include_field_ids=False)
    pq.write_table(pa.Table.from_pylist(ROWS, schema=plain), path)
    made.add_files([path])
    return made


def read(table: Table, *names: str) -> Rows:
    """Read columns of a table, by default all, as everything does that reads without Spark."""
    wanted = narrowed(
        table.schema().as_arrow(), names or [field.name for field in table.schema().fields]
    )
    return [row for rows in scan_rows(table, wanted, (), AlwaysTrue()) for row in rows.to_pylist()]
