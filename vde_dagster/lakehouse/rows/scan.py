"""Streams the rows of a table at one snapshot in a stable order, based on PyIceberg."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import Future

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.expressions.visitors import ResidualEvaluator, UnpartitionedResidualEvaluator
from pyiceberg.io.pyarrow import (
    _combine_positional_deletes,
    _get_column_projection_values,
    _read_all_delete_files,
    pyarrow_to_schema,
)
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, ManifestGroupPlanner, Table
from pyiceberg.utils.concurrent import ExecutorFactory

from vde_dagster.lakehouse.rows.bind_filter import RowTest
from vde_dagster.lakehouse.rows.projection import file_columns, project_batch

_SMALL_BYTES = 4_000_000
_AHEAD = 4
_BUFFER_BYTES = 8 * 1024 * 1024
_FORMATS = {
    FileFormat.PARQUET: ds.ParquetFileFormat(pre_buffer=True, buffer_size=_BUFFER_BYTES),
    FileFormat.ORC: ds.OrcFileFormat(),
}

FileState = tuple[str, frozenset[str]]
"""A data file with its delete files, which together always have the same rows."""


def scan_rows(
    table: Table,
    wanted: pa.Schema,
    tests: Sequence[RowTest],
    files: BooleanExpression,
    without: Set[FileState] = frozenset(),
) -> Iterator[pa.Table]:
    """Read the rows of a table that fulfill all tests, in batches and in a stable order.

    Args:
        wanted: The columns to return, with their types.
        files: A condition for skipping files that have no wanted row.
        without: Files to leave out, as `file_states` returns them.
    """
    names = list(dict.fromkeys([*wanted.names, *(name for test in tests for name in test.columns)]))
    schema = table.schema()
    needed = narrowed(schema.as_arrow(), names)
    for test in tests:
        files = And(files, test.files)
    tasks = [task for task in _planned(table, files) if _state(task) not in without]
    fields = {field.name: field for field in schema.fields}
    selected = Schema(*(fields[name] for name in names))
    deletes = _read_all_delete_files(table.io, tasks)

    def read(task: FileScanTask) -> Iterator[pa.RecordBatch]:
        return _read_file(table, task, selected, needed, deletes.get(task.file.file_path, ()))

    for batch in _ahead(tasks, read):
        rows = pa.Table.from_batches([batch])
        for test in tests:
            rows = test.rows(rows)
        if rows.num_rows:
            yield rows.select(wanted.names)


def _read_file(
    table: Table,
    task: FileScanTask,
    wanted: Schema,
    types: pa.Schema,
    deletes: Sequence[pa.ChunkedArray],
) -> Iterator[pa.RecordBatch]:
    metadata, file = table.metadata, task.file
    version = metadata.format_version
    with table.io.new_input(file.file_path).open() as stream:
        fragment = _FORMATS[file.file_format].make_fragment(stream)
        schema = fragment.physical_schema
        own = pyarrow_to_schema(
            schema,
            metadata.name_mapping(),
            downcast_ns_timestamp_to_us=version <= 2,
            format_version=version,
        )
        spec = metadata.specs().get(file.spec_id)
        constants = _get_column_projection_values(
            file, wanted, metadata.schema(), spec, own.field_ids
        )
        columns = file_columns(own, wanted)
        position = 0
        for batch in ds.Scanner.from_fragment(
            fragment, schema=schema, columns=columns
        ).to_batches():
            start, position = position, position + batch.num_rows
            kept = _combine_positional_deletes(list(deletes), start, position) if deletes else None
            length = batch.num_rows if kept is None else len(kept)
            if kept is not None and length < batch.num_rows:
                batch = batch.take(kept)
            if length:
                yield project_batch(batch, own, wanted, types, constants)


def file_states(table: Table) -> frozenset[FileState]:
    """Return the data files of a table, each with its delete files, without reading rows."""
    return frozenset(map(_state, _planned(table, AlwaysTrue())))


def _state(task: FileScanTask) -> FileState:
    return task.file.file_path, frozenset(one.file_path for one in task.delete_files)


class _Planner(ManifestGroupPlanner):
    """Finds the files to scan, without computing a residual condition for each file."""

    def _build_residual_evaluator(self, spec_id: int) -> Callable[[DataFile], ResidualEvaluator]:
        # PyIceberg would compute the condition from partition values, and fail on NULL.
        evaluator = UnpartitionedResidualEvaluator(self.table_metadata.schema(), AlwaysTrue())

        def nothing_left(file: DataFile) -> ResidualEvaluator:
            return evaluator

        return nothing_left


def _planned(table: Table, files: BooleanExpression) -> Sequence[FileScanTask]:
    snapshot = table.current_snapshot()
    if snapshot is None:
        return ()

    def plan(condition: BooleanExpression) -> Sequence[FileScanTask]:
        planner = _Planner(table.metadata, table.io, condition, case_sensitive=True)
        return list(planner.plan_files(snapshot.manifests(table.io)))

    try:
        return plan(files)
    except (ValueError, TypeError, ArithmeticError, struct.error):
        # Skipping files only saves time, and their bounds may come from any writer.
        return plan(AlwaysTrue())


def _ahead(
    tasks: Sequence[FileScanTask], read: Callable[[FileScanTask], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    def whole(task: FileScanTask) -> list[pa.RecordBatch]:
        return list(read(task))

    executor = ExecutorFactory.get_or_create()
    waiting = deque(tasks)
    begun: deque[tuple[FileScanTask, Future[list[pa.RecordBatch]] | None]] = deque()
    while waiting or begun:
        while waiting and len(begun) < _AHEAD:
            task = waiting.popleft()
            small = task.file.file_size_in_bytes <= _SMALL_BYTES
            begun.append((task, executor.submit(whole, task) if small else None))
        task, future = begun.popleft()
        yield from read(task) if future is None else future.result()


def narrowed(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return a schema that has only the named columns, all nullable and without metadata."""
    return pa.schema([schema.field(name).with_nullable(True).remove_metadata() for name in names])
