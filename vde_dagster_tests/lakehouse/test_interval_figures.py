"""Each range's rows and bytes of one commit: from manifests, and from one column where it must."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from vde_dagster.lakehouse.commit_rows import Figures, interval_figures
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.intervals.time_column import TimeColumn
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.lakehouse.pyiceberg_tables import pyiceberg_catalog

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
START = datetime(2024, 1, 1, tzinfo=timezone.utc)
REF = TableRef("vde_physical", "made")
VALUES = {
    ("TIMESTAMP", None): (pa.timestamp("us", "UTC"), lambda n: START + n * DAY + 23 * HOUR),
    ("TIMESTAMP_NTZ", None): (
        pa.timestamp("us"),
        lambda n: (START + n * DAY + 23 * HOUR).replace(tzinfo=None),
    ),
    ("DATE", None): (pa.date32(), lambda n: date(2024, 1, 1) + n * DAY),
    ("STRING", None): (pa.string(), lambda n: f"{START + n * DAY:%Y-%m-%d}"),
    ("STRING", "%d.%m.%Y at %H h, as told"): (
        pa.string(),
        lambda n: f"{START + n * DAY:%d.%m.%Y} at 07 h, as told",
    ),
    ("INT", None): (pa.int32(), lambda n: int(f"{START + n * DAY:%Y%m%d}")),
}


def days(*numbers: int) -> list[Interval]:
    return [Interval(START + n * DAY, START + (n + 1) * DAY) for n in numbers]


def write(lakehouse: Lakehouse, *files: list[object], type_: pa.DataType) -> tuple[int, list[Path]]:
    """Commit the files, each with one value a row; return the last commit and its files."""
    tables = [pa.table({"day_1": pa.array(values, type_)}) for values in files]
    made = pyiceberg_catalog(lakehouse).create_table((REF.namespace, REF.name), tables[0].schema)
    made.append(tables[0])  # an earlier commit, which counts for nothing
    with made.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        for table in tables:
            for file in _dataframe_to_data_files(made.metadata, table, made.io):
                append.append_data_file(file)
    snapshot = made.current_snapshot()
    assert snapshot is not None
    found = made.inspect.entries().filter(pa.compute.field("snapshot_id") == snapshot.snapshot_id)
    paths = [
        Path(row["file_path"].removeprefix("file://")) for row in found["data_file"].to_pylist()
    ]
    return snapshot.snapshot_id, paths


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_a_file_of_one_range_gives_rows_and_bytes_and_one_of_several_gives_rows(
    lakehouse: Lakehouse, kind: tuple[str, str | None]
) -> None:
    type_, value = VALUES[kind]
    commit, paths = write(
        lakehouse, [value(0)] * 3, [value(1), value(2), value(2)], [value(2)], type_=type_
    )
    column = TimeColumn("day_1", *kind)
    found = interval_figures(lakehouse, REF, commit, column, days(0, 1, 2, 3))
    assert found is not None
    assert [figures.rows for figures in found] == [3, 1, 3, 0]
    if kind[1] is None:
        sizes = {path.stat().st_size for path in paths}
        assert found[0].bytes in sizes
    assert [figures.bytes for figures in found[1:]] == [None, None, 0]


def test_what_lies_in_one_range_is_counted_without_opening_a_data_file(
    lakehouse: Lakehouse,
) -> None:
    type_, value = VALUES["TIMESTAMP", None]
    commit, paths = write(lakehouse, [value(0)] * 2, [value(5)], type_=type_)
    sizes = sorted(path.stat().st_size for path in paths)
    for path in paths:
        path.unlink()
    column = TimeColumn("day_1", "TIMESTAMP")
    found = interval_figures(lakehouse, REF, commit, column, days(0, 5))
    assert found is not None
    assert [figures.rows for figures in found] == [2, 1]
    assert sorted(figures.bytes or 0 for figures in found) == sizes


def test_hours_are_told_apart_within_a_day(lakehouse: Lakehouse) -> None:
    at = [START + n * HOUR / 2 for n in range(8)]
    commit, _ = write(lakehouse, at, type_=pa.timestamp("us", "UTC"))
    hours = [Interval(START + n * HOUR, START + (n + 1) * HOUR) for n in range(1, 4)]
    column = TimeColumn("day_1", "TIMESTAMP")
    assert interval_figures(lakehouse, REF, commit, column, hours) == [Figures(2, None)] * 3


def test_a_commit_that_is_gone_has_no_figures(lakehouse: Lakehouse) -> None:
    type_, value = VALUES["DATE", None]
    write(lakehouse, [value(0)], type_=type_)
    assert interval_figures(lakehouse, REF, 17, TimeColumn("day_1", "DATE"), days(0)) is None


def test_a_column_is_found_by_its_id_in_files_that_name_it_otherwise(lakehouse: Lakehouse) -> None:
    type_, value = VALUES["DATE", None]
    commit, _ = write(lakehouse, [value(0), value(1), value(1)], type_=type_)
    with pyiceberg_catalog(lakehouse).load_table((REF.namespace, REF.name)).update_schema() as to:
        to.rename_column("day_1", "the day")
    found = interval_figures(lakehouse, REF, commit, TimeColumn("the day", "DATE"), days(0, 1))
    assert found is not None
    assert [figures.rows for figures in found] == [1, 2]
