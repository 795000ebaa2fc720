"""Conditions on time columns, without Spark."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from vde_dagster.errors import ExecutionError
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.intervals.time_column import TimeColumn
from vde_dagster_tests.spark.tasks import days, hours


@pytest.mark.parametrize(
    ("type_", "format_", "expected"),
    [
        (
            "timestamp",
            None,
            "`t` >= TIMESTAMP '2013-01-02 00:00:00.000000Z' "
            "AND `t` < TIMESTAMP '2013-01-03 00:00:00.000000Z'",
        ),
        (
            "timestamp_ntz",
            None,
            "`t` >= TIMESTAMP_NTZ '2013-01-02 00:00:00.000000' "
            "AND `t` < TIMESTAMP_NTZ '2013-01-03 00:00:00.000000'",
        ),
        ("date", None, "`t` >= DATE '2013-01-02' AND `t` < DATE '2013-01-03'"),
        ("string", None, "`t` >= '2013-01-02' AND `t` < '2013-01-03'"),
        ("string", "%Y%m%d", "`t` >= '20130102' AND `t` < '20130103'"),
        ("string", "%Y-%m-%d %H:%M", "`t` >= '2013-01-02 00:00' AND `t` < '2013-01-03 00:00'"),
        ("string", "%F", "`t` >= '2013-01-02' AND `t` < '2013-01-03'"),
        ("string", "%d.%m.%Y", "`t` IN ('02.01.2013')"),
        ("string", "%d %b '%y", "`t` IN ('02 Jan \\'13')"),
        ("int", None, "`t` >= 20130102 AND `t` < 20130103"),
        ("bigint", "%Y%m%d%H", "`t` >= 2013010200 AND `t` < 2013010300"),
    ],
)
def test_each_type_has_its_own_literals(type_: str, format_: str | None, expected: str) -> None:
    assert TimeColumn("t", type_, format_).condition(days(2, 3)) == expected


def test_a_format_that_does_not_sort_lists_every_value_of_the_range() -> None:
    condition = TimeColumn("t", "string", "%d/%m/%Y").condition(days(30, 33))
    assert condition == "`t` IN ('30/01/2013', '31/01/2013', '01/02/2013')"


def test_years_before_one_thousand_keep_four_digits() -> None:
    interval = Interval(
        datetime(1, 1, 1, tzinfo=timezone.utc), datetime(2013, 1, 1, tzinfo=timezone.utc)
    )
    assert TimeColumn("t", "date").condition(interval).startswith("`t` >= DATE '0001-01-01'")


@pytest.mark.parametrize("type_", ["date", "string", "int"])
def test_days_cannot_be_cut_into_hours(type_: str) -> None:
    with pytest.raises(ExecutionError, match="cannot separate the interval"):
        TimeColumn("t", type_).condition(hours(3, 4))


def test_months_as_text_hold_whole_months_only() -> None:
    month = TimeColumn("t", "string", "%Y-%m")
    assert month.condition(days(1, 32)) == "`t` >= '2013-01' AND `t` < '2013-02'"
    with pytest.raises(ExecutionError, match="rest of the month"):
        month.condition(days(1, 2))


@pytest.mark.parametrize("format_", ["day", "%j", "%Y-%j"])
def test_a_format_without_a_usable_date_is_refused(format_: str) -> None:
    with pytest.raises(ExecutionError, match="time_format"):
        TimeColumn("t", "string", format_).condition(days(1, 2))


def test_a_type_without_time_is_refused() -> None:
    with pytest.raises(ExecutionError, match="is not supported for time columns"):
        TimeColumn("t", "boolean").condition(days(1, 2))


def test_an_unsortable_format_over_a_huge_range_is_refused() -> None:
    interval = Interval(
        datetime(1900, 1, 1, tzinfo=timezone.utc), datetime(2100, 1, 1, tzinfo=timezone.utc)
    )
    with pytest.raises(ExecutionError, match="does not sort by time"):
        TimeColumn("t", "string", "%d/%m/%Y").condition(interval)


@pytest.mark.parametrize(
    ("type_", "format_", "end"),
    [
        ("date", None, "DATE '2013-01-02'"),
        ("string", None, "'2013-01-02'"),
        ("int", "%Y%m%d", "20130102"),
        ("timestamp", None, "TIMESTAMP '2013-01-01 10:00:00.000000Z'"),
    ],
)
def test_a_day_that_goes_on_has_all_rows_of_a_column_that_tells_days(
    type_: str, format_: str | None, end: str
) -> None:
    column = TimeColumn("t", type_, format_, partials=True)
    assert column.condition(hours(0, 10)).endswith(f"AND `t` < {end}")
    if type_ != "timestamp":
        with pytest.raises(ExecutionError, match="cannot separate the interval"):
            column.condition(hours(3, 10))
