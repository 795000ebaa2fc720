"""Rows of a commit, without an engine: of the newest range that has any, under given names."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from vde_dagster.lakehouse.commit_rows import some_rows
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable, TableRef
from vde_dagster_tests.lakehouse.pyiceberg_tables import pyiceberg_catalog, writable

DAY = timedelta(days=1)
START = datetime(2024, 1, 1, tzinfo=timezone.utc)
TYPES = {
    "date": (pa.date32(), [date(2024, 1, 1) + n * DAY for n in range(3)]),
    "timestamp": (pa.timestamp("us", "UTC"), [START + n * DAY for n in range(3)]),
    "timestamp_ntz": (
        pa.timestamp("us"),
        [START.replace(tzinfo=None) + n * DAY for n in range(3)],
    ),
    "string": (pa.string(), ["2024-01-01", "2024-01-02", "2024-01-03"]),
}


def make(lakehouse: Lakehouse, kind: str) -> tuple[PhysicalTable, int]:
    """Write three days of two rows each, and return the table and the commit."""
    type_, days = TYPES[kind]
    rows = pa.table({"day_1": pa.array([*days, *days], type_), "n": pa.array(range(6), pa.int64())})
    ref = TableRef("vde_physical", f"made_{kind}")
    made = pyiceberg_catalog(lakehouse).create_table((ref.namespace, ref.name), rows.schema)
    made.append(rows)
    snapshot = made.current_snapshot()
    assert snapshot is not None
    columns = (PhysicalColumn("day_1", "v1", kind.upper()), PhysicalColumn("n", "v2", "BIGINT"))
    table = PhysicalTable(
        id="t1", ref=ref, fill_version="f", columns=columns, snapshot_id="s", created=True
    )
    return table, snapshot.snapshot_id


def day(first: int, end: int) -> Interval:
    return Interval(START + first * DAY, START + end * DAY)


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_rows_are_of_the_first_range_that_has_any(lakehouse: Lakehouse, kind: str) -> None:
    table, snapshot_id = make(lakehouse, kind)
    columns = [("n", "n"), ("day", "day_1")]
    days = TYPES[kind][1]

    def read(*intervals: Interval, limit: int = 10) -> list[dict[str, object]]:
        return some_rows(
            lakehouse,
            table,
            snapshot_id,
            columns,
            time_column="day_1",
            intervals=intervals,
            limit=limit,
        )

    newest = [{"n": 2, "day": days[2]}, {"n": 5, "day": days[2]}]
    assert read(day(2, 3), day(0, 3)) == newest
    assert read(day(7, 8), day(2, 9)) == newest
    assert list(newest[0]) == ["n", "day"]
    assert len(read(day(0, 3), limit=1)) == 1
    assert read(day(7, 8)) == []


def test_a_time_column_of_text_tells_no_ranges_apart(lakehouse: Lakehouse) -> None:
    table, snapshot_id = make(lakehouse, "string")
    rows = some_rows(
        lakehouse,
        table,
        snapshot_id,
        [("n", "n")],
        time_column="day_1",
        intervals=[day(7, 8)],
        limit=4,
    )
    assert rows == [{"n": n} for n in range(4)]


def test_rows_are_those_of_the_commit(lakehouse: Lakehouse) -> None:
    table, snapshot_id = make(lakehouse, "date")
    made = writable(lakehouse, table.ref)
    made.delete("n < 6")
    for number, expected in ((snapshot_id, 6), (made.metadata.current_snapshot_id, 0)):
        assert number is not None
        rows = some_rows(
            lakehouse, table, number, [("n", "n")], time_column=None, intervals=[], limit=99
        )
        assert len(rows) == expected
