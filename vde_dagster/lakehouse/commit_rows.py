"""Rows that a commit added: counts by interval, and a few sample rows, read without an engine.

In the manifest, Iceberg stores the least and the greatest value of each column of a file. If both
values of the time column are in the same range, the file's row count is taken from the manifest.
Otherwise the file's time column is read.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from vde_dagster.lakehouse.handles import LakeHandles
from vde_dagster.lakehouse.rows.row_filters import Both, Comparison, Condition
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.intervals.time_column import TimeColumn
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.db.rows import to_micros

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField


_BATCH_ROWS = 1 << 20
_DAY = 86_400_000_000
_FIELD_ID = b"PARQUET:field_id"
_YEAR_ONE = -62_135_596_800_000_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Row count and size of a commit's rows in one interval.

    Args:
        bytes: Size of the files that contain only these rows; None if unknown.
    """

    rows: int
    bytes: int | None


def interval_figures(
    lakehouse: LakeHandles,
    ref: TableRef,
    snapshot_id: int,
    column: TimeColumn,
    intervals: Sequence[Interval],
) -> list[Figures] | None:
    """Count the rows that a commit added to each interval.

    Return None if the commit is gone, or if a file that must be read is not Parquet.
    """
    table = lakehouse.load_table(ref)
    files = _added_files(table, snapshot_id)
    if files is None:
        return None
    field = table.schema().find_field(column.name)
    instant = _reader(column)
    counts = _Counts(intervals)
    for file in files:
        bounds = _bounds(file, field.field_id, field.field_type)
        ends = [instant(value) for value in bounds] if bounds is not None else []
        place = counts.place(*ends) if len(ends) == 2 else None
        if place is not None:
            counts.rows[place] += file.record_count
            size = counts.sizes[place]
            counts.sizes[place] = None if size is None else size + file.file_size_in_bytes
        elif str(file.file_format).rpartition(".")[2] != "PARQUET":
            return None
        else:
            for value, rows in _values(table.io, file.file_path, field, counts):
                counts.add(instant(value), rows)
    return [Figures(*pair) for pair in zip(counts.rows, counts.sizes, strict=True)]


class _Counts:
    def __init__(self, intervals: Sequence[Interval]) -> None:
        self.starts = [to_micros(interval.start) for interval in intervals]
        self.ends = [to_micros(interval.end) for interval in intervals]
        self.rows = [0] * len(intervals)
        self.sizes: list[int | None] = [0] * len(intervals)

    def place(self, first: int, last: int) -> int | None:
        found = bisect_right(self.starts, first) - 1
        return found if found >= 0 and last < self.ends[found] and last >= first else None

    def add(self, instant: int, rows: int) -> None:
        found = self.place(instant, instant)
        if found is not None:
            self.rows[found] += rows
            self.sizes[found] = None


def _added_files(table: Table, snapshot_id: int) -> list[DataFile] | None:
    from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return None
    return [
        entry.data_file
        for manifest in snapshot.manifests(table.io)
        if manifest.added_snapshot_id == snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.status == ManifestEntryStatus.ADDED
        and entry.data_file.content == DataFileContent.DATA
    ]


def _bounds(file: DataFile, field_id: int, type_: Any) -> tuple[Any, Any] | None:
    """Return a column's least and greatest value in a file.

    Return None if a bound is missing, or is a text that Iceberg may have truncated.
    """
    from pyiceberg.conversions import from_bytes

    lower: Mapping[int, bytes] = file.lower_bounds or {}
    upper: Mapping[int, bytes] = file.upper_bounds or {}
    if field_id not in lower or field_id not in upper:
        return None
    ends = from_bytes(type_, lower[field_id]), from_bytes(type_, upper[field_id])
    if any(isinstance(value, str) and len(value) >= 16 for value in ends):
        return None
    return ends


def _reader(column: TimeColumn) -> Callable[[Any], int]:
    """Return a function that converts stored values to microseconds since 1970 (UTC)."""
    kind = column.type.lower()
    if kind == "date":
        return lambda value: int(value) * _DAY
    if kind.startswith("timestamp"):
        return int
    pattern = column.pattern

    def parsed(value: Any) -> int:
        at = datetime.strptime(str(value), pattern)
        return to_micros(at.replace(tzinfo=timezone.utc))

    return parsed


def _values(
    io: FileIO, path: str, column: NestedField, counts: _Counts
) -> Iterator[tuple[Any, int]]:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.parquet import ParquetFile

    # Rounding keeps the number of distinct values small.
    step = math.gcd(*counts.starts, *counts.ends)
    # Division rounds towards zero, so count from before all instants.
    first = counts.starts[0] - step * ((counts.starts[0] - _YEAR_ONE) // step + 1)
    with io.new_input(path).open() as stream:
        file = ParquetFile(stream)
        # Files of an earlier schema have an earlier name, and Iceberg escapes names in Parquet.
        names = {(one.metadata or {}).get(_FIELD_ID): one.name for one in file.schema_arrow}
        name = names.get(str(column.field_id).encode(), column.name)
        for batch in file.iter_batches(_BATCH_ROWS, columns=[name]):
            values = batch.column(0)
            if pa.types.is_timestamp(values.type):
                micros = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
                since = pc.divide(pc.subtract(micros, first), step)
                values = pc.add(pc.multiply(since, step), first)
            elif pa.types.is_date(values.type):
                values = values.cast(pa.date32()).cast(pa.int32())
            for pair in pc.value_counts(values):
                if pair["values"].is_valid:
                    yield pair["values"].as_py(), pair["counts"].as_py()


_BOUNDS = {"date": "%Y-%m-%d", "timestamp": "%Y-%m-%dT%H:%M:%S.%f+00:00"}
_BOUNDS |= {"timestamp_ltz": _BOUNDS["timestamp"], "timestamp_ntz": "%Y-%m-%dT%H:%M:%S.%f"}


def has_bounds(type_: str) -> bool:
    """Check whether `some_rows` can filter by a time column of this type."""
    return type_.lower() in _BOUNDS


def some_rows(
    lakehouse: LakeHandles,
    table: PhysicalTable,
    snapshot_id: int,
    columns: Sequence[tuple[str, str]],
    *,
    time_column: str | None,
    intervals: Sequence[Interval],
    limit: int,
) -> list[dict[str, Any]]:
    """Read up to `limit` rows of a table at a commit, from the first interval that has rows."""
    from pyiceberg.expressions import AlwaysTrue

    from vde_dagster.lakehouse.rows.bind_filter import bind_filter
    from vde_dagster.lakehouse.rows.row_order import first_rows
    from vde_dagster.lakehouse.rows.scan import narrowed, scan_rows

    kinds = {column.name: (column.type or "").lower() for column in table.columns}
    bound = _BOUNDS.get(kinds.get(time_column or "", ""))
    conditions: list[Condition | None] = [None]
    if time_column is not None and bound is not None:
        conditions = [_within(time_column, interval, bound) for interval in intervals]
    commit = lakehouse.table_from_metadata(
        _at_snapshot(lakehouse.table_metadata(table.ref), snapshot_id), table.ref
    )
    wanted = list(dict.fromkeys(name for _, name in columns))
    schema = narrowed(commit.schema().as_arrow(), wanted)
    for condition in conditions:
        tests = [bind_filter(condition, commit.schema(), "the range")] if condition else []
        rows = first_rows(
            scan_rows(commit, schema, tests, AlwaysTrue()), schema, (), limit, None
        ).to_pylist()
        if rows:
            return [{name: row[column] for name, column in columns} for row in rows]
    return []


def _at_snapshot(metadata: dict[str, Any], snapshot_id: int) -> dict[str, Any]:
    found = next(one for one in metadata["snapshots"] if one["snapshot-id"] == snapshot_id)
    schema = found.get("schema-id", metadata["current-schema-id"])
    return {**metadata, "current-snapshot-id": snapshot_id, "current-schema-id": schema, "refs": {}}


def _within(column: str, interval: Interval, bound: str) -> Condition:
    start, end = (f"{at:{bound}}" for at in (interval.start, interval.end))
    return Both((Comparison((column,), ">=", start), Comparison((column,), "<", end)), False)
