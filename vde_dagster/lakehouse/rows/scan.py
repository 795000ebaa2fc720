"""Rows of a state of a table, read by PyIceberg in the same order always, and not held."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import Future
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.expressions.visitors import ResidualEvaluator, UnpartitionedResidualEvaluator
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, ManifestGroupPlanner
from pyiceberg.utils.concurrent import ExecutorFactory

from vde_dagster.lakehouse.rows.bind_filter import RowTest

if TYPE_CHECKING:
    from pyiceberg.table import Table

_SMALL_BYTES = 4_000_000
_AHEAD = 4


FileState = tuple[str, frozenset[str]]
"""A data file, and the files that say which of its rows are deleted: it has the same rows ever."""


def scan_rows(
    table: Table,
    wanted: pa.Schema,
    tests: Sequence[RowTest],
    files: BooleanExpression,
    without: Set[FileState] = frozenset(),
) -> Iterator[pa.Table]:
    """Read the rows that fulfil a condition, always in the same order, without holding them.

    Args:
        wanted: The columns, with the types that the rows get.
        tests: The conditions, all of which a row has to fulfil.
        files: What all wanted rows fulfil, too: it lets files be left out.
        without: Files that are not read, in these states.
    """
    names = list(dict.fromkeys([*wanted.names, *(name for test in tests for name in test.columns)]))
    schema = table.schema()
    needed = narrowed(schema.as_arrow(), names)
    for test in tests:
        files = And(files, test.files)
    tasks = [task for task in _planned(table, files) if _state(task) not in without]
    scan = ArrowScan(
        table.metadata, table.io, schema.select(*names), AlwaysTrue(), case_sensitive=True
    )
    deletes = _read_all_delete_files(table.io, tasks)

    def read(task: FileScanTask) -> Iterator[pa.RecordBatch]:
        # What is public of it holds all rows of all files.
        return scan._record_batches_from_scan_tasks_and_deletes([task], deletes)

    for batch in _ahead(tasks, read):
        rows = pa.Table.from_batches([batch]).select(names).cast(needed)
        for test in tests:
            rows = test.rows(rows)
        if rows.num_rows:
            yield rows.select(wanted.names)


def file_states(table: Table) -> frozenset[FileState]:
    """Return the files that a table's rows are in; reads manifests only."""
    return frozenset(map(_state, _planned(table, AlwaysTrue())))


def _state(task: FileScanTask) -> FileState:
    return task.file.file_path, frozenset(one.file_path for one in task.delete_files)


class _Planner(ManifestGroupPlanner):
    """Finds files, and does not ask what of a condition is left to judge in each.

    PyIceberg would compare its partitions' NULLs to find that.
    """

    def _build_residual_evaluator(self, spec_id: int) -> Callable[[DataFile], ResidualEvaluator]:
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
        # Which files are left out is a matter of time, and bounds are written by anybody.
        return plan(AlwaysTrue())


def _ahead(
    tasks: Sequence[FileScanTask], read: Callable[[FileScanTask], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Read files in order; the next few are on their way already where they are small."""

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
    """Return some columns of a schema, of which each may be NULL, without metadata."""
    return pa.schema([schema.field(name).with_nullable(True).remove_metadata() for name in names])
