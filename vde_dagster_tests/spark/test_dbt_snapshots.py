"""Versions of rows as dbt-duckdb has them: the corners in which they differ from SCD type 2."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from vde_dagster.project.kinds import ScdType2, ScdType2ByColumn, ScdType2ByTime
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.spark.tasks import Warehouse
from vde_dagster_tests.spark.test_scd_type_2 import at, dimension, fill

pytestmark = pytest.mark.spark

COLUMNS = {"id": "int", "v": "string", "upd": "timestamp_ntz"}
CHECK = ScdType2ByColumn(
    ("id",),
    ("v",),
    execution_time_as_valid_from=True,
    updated_at_name="upd",
    time_data_type="TIMESTAMP_NTZ",
    as_dbt=True,
)
TIMESTAMP = ScdType2ByTime(
    ("id",),
    "upd",
    updated_at_as_valid_from=True,
    invalidate_hard_deletes=True,
    time_data_type="TIMESTAMP_NTZ",
    as_dbt=True,
)
RECORDS = ScdType2ByColumn(
    ("id",),
    ("*",),
    execution_time_as_valid_from=True,
    invalidate_hard_deletes=True,
    time_data_type="TIMESTAMP_NTZ",
    as_dbt=True,
    deleted_name="gone",
)
JAN, FEB, MAR = ("2024-01-01", "2024-02-01", "2024-03-01")


def _source(*rows: tuple[object, ...]) -> str:
    def text(value: object) -> str:
        return "NULL" if value is None else repr(value)

    listed = ", ".join(f"({', '.join(map(text, row))})" for row in (*rows, (0, "", JAN)))
    return (
        "SELECT CAST(id AS INT) AS id, v, CAST(upd AS TIMESTAMP_NTZ) AS upd "
        f"FROM VALUES {listed} t(id, v, upd) WHERE NOT id <=> 0"
    )


def _versions(engine: SparkEngine, kind: ScdType2, *states: list[tuple[object, ...]]) -> list[Any]:
    table: Warehouse = dimension(engine, kind, COLUMNS)
    for day, rows in enumerate(states):
        fill(table, _source(*rows), day)
    return [tuple(map(_short, row)) for row in table.rows("id, v, valid_from, valid_to")]


def _short(value: object) -> object:
    """Write an instant of a source as its month, and one of a fill as its day."""
    if not isinstance(value, datetime):
        return value
    fills = {at(day).replace(tzinfo=None): f"fill {day}" for day in range(4)}
    return fills.get(value, value.strftime("%b"))


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (
            [[(1, "a", FEB)], [(1, "b", JAN)]],
            [(1, "a", "Feb", "Jan"), (1, "b", "Jan", None)],
        ),
        (
            [[(1, "a", JAN)], [(1, "b", JAN)]],
            [(1, "a", "Jan", "Jan"), (1, "b", "Jan", None)],
        ),
        (
            [[(1, "a", None)], [(1, "a", JAN)]],
            [(1, "a", None, None)],
        ),
        (
            [[(None, "a", JAN)], [(None, "a", JAN)]],
            [(None, "a", "Jan", None), (None, "a", "Jan", None)],
        ),
    ],
    ids=["goes back", "stays", "is NULL", "of a NULL key"],
)
def test_a_checked_row_begins_at_its_updated_at(
    spark_engine: SparkEngine, states: list[Any], expected: list[Any]
) -> None:
    assert sorted(_versions(spark_engine, CHECK, *states), key=str) == sorted(expected, key=str)


def test_a_key_that_was_deleted_and_came_back_begins_at_its_updated_at(
    spark_engine: SparkEngine,
) -> None:
    found = _versions(spark_engine, TIMESTAMP, [(1, "a", JAN)], [], [(1, "a", JAN)])

    assert sorted(found, key=str) == [(1, "a", "Jan", "fill 1"), (1, "a", "Jan", None)]


def test_a_row_whose_updated_at_is_no_later_or_null_has_not_changed(
    spark_engine: SparkEngine,
) -> None:
    states = [[(1, "a", FEB), (2, "a", FEB)], [(1, "b", JAN), (2, "b", None)]]

    found = _versions(spark_engine, TIMESTAMP, *states, [(1, "c", MAR), (2, "b", None)])

    assert sorted(found, key=str) == [
        (1, "a", "Feb", "Mar"),
        (1, "c", "Mar", None),
        (2, "a", "Feb", None),
    ]


def test_a_record_of_a_deletion_ends_apart_from_a_version_that_began_with_it(
    spark_engine: SparkEngine,
) -> None:
    """A row without a key is gone and new in each fill, at the same instant."""
    table = dimension(spark_engine, RECORDS, COLUMNS)
    for day in range(3):
        fill(table, _source((None, "a", JAN), (1, "a", JAN)), day)
    fill(table, _source((None, "a", JAN)), 3)

    found = [tuple(map(_short, row)) for row in table.rows("id, valid_from, valid_to, gone")]
    expected = [
        (1, "fill 0", "fill 3", "False"),
        (1, "fill 3", None, "True"),
        *((None, f"fill {day}", f"fill {day + 1}", "False") for day in range(3)),
        *((None, f"fill {day + 1}", None, "True") for day in range(3)),
        (None, "fill 3", None, "False"),
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
