"""Filters let those rows through that SQL does, whatever the types, and tell mistakes as such."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types
from pyiceberg.schema import Schema

from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.rows.bind_filter import bind_filter
from vde_dagster.lakehouse.rows.row_filters import parse_filter
from vde_dagster.lakehouse.rows.row_values import json_rows
from vde_dagster_tests.serve.filter_search import COLUMNS, search

SCHEMA = Schema(
    types.NestedField(1, "tenant", types.IntegerType()),
    types.NestedField(2, "amount", types.DecimalType(10, 2)),
    types.NestedField(3, "share", types.DoubleType()),
    types.NestedField(4, "day", types.DateType()),
    types.NestedField(5, "word", types.StringType()),
    types.NestedField(6, "raw", types.BinaryType()),
    types.NestedField(7, "tags", COLUMNS["ma"][0]),
    types.NestedField(8, "at", types.TimestamptzType()),
)
TENANTS = [6, 7, 8, 10, None]


def tenants(text: str, **columns: list[Any]) -> list[int | None]:
    """Return the tenants of the rows that a filter lets through."""
    arrow = SCHEMA.as_arrow()
    rows = {name: pa.nulls(5, arrow.field(name).type) for name in arrow.names}
    rows["tenant"] = pa.array(TENANTS, pa.int32())
    rows |= {name: pa.array(values, arrow.field(name).type) for name, values in columns.items()}
    test = bind_filter(parse_filter(text), SCHEMA, "the filter")
    found: list[int | None] = test.rows(pa.table(rows))["tenant"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tenant <= 7.5", [6, 7]),
        ("tenant = 7.5", []),
        ("tenant != 7.5", [6, 7, 8, 10]),
        ("tenant > 9.5", [10]),
        ("9.5 < tenant", [10]),
        ("tenant < 9999999999999999999", [6, 7, 8, 10]),
        ("tenant != 9999999999999999999", [6, 7, 8, 10]),
        ("NOT tenant = 9999999999999999999", [6, 7, 8, 10]),
        ("tenant >= 1e999999", []),
        ("tenant IN (7.0, 7.5, 99999999999)", [7]),
        ("tenant NOT IN (7, 7.5)", [6, 8, 10]),
        ("tenant NOT BETWEEN 6.5 AND 8.5", [6, 10]),
        ("tenant IS NULL OR tenant < 6.1", [6, None]),
        ("tenant IS NOT NULL AND tenant > -1e-999", [6, 7, 8, 10]),
        ("true", TENANTS),
    ],
)
def test_a_number_that_the_columns_type_has_not_lets_no_other_row_through(
    text: str, expected: list[int | None]
) -> None:
    assert tenants(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("word LIKE 'a_'", [7, 8]),
        ("word LIKE '%b'", [7]),
        (r"word LIKE 'a\_'", [8]),
        ("word NOT LIKE 'a%'", []),
        ("share > 5", [6, 7]),
        ("share = 'NaN'", [6]),
        ("share IS NAN", [6]),
        ("NOT share IS NOT NAN", [6]),
        ("share IS NOT NAN", [7, 8, 10, None]),  # as Spark: NOT isnan(NULL)
        ("NOT (share IS NAN)", [7, 8, 10, None]),
        ("share IS NOT NAN AND share IS NOT NULL", [7, 8]),
        ("share IS NAN OR share IS NULL", [6, 10, None]),
        ("share < 1e400", [7, 8]),
        ("raw = X'00ff'", [10]),
        ("tags IS NOT NULL", [6]),
        ("day < '10000-01-01'", [7]),
        ("day >= '10000-01-01'", [6]),
        ("amount < 7.255", [6]),
        ("amount = 7.255", []),
        ("at = '1970-01-01T02:00:00+02:00' OR at = '1970-01-02'", [6, 7]),
    ],
)
def test_types_are_compared_as_sql_does(text: str, expected: list[int | None]) -> None:
    far = pa.array([2_932_897, 0, None, None, None], pa.int32()).cast(pa.date32())
    found = tenants(
        text,
        word=["a", "ab", "a_", None, None],
        share=[float("nan"), 7.5, -1.0, None, None],
        raw=[b"", None, None, b"\x00\xff", None],
        tags=[[], None, None, None, None],
        amount=[Decimal("7.25"), Decimal("7.26"), None, None, None],
        day=far,
        at=pa.array([0, 86_400 * 10**6, 5, None, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
    )
    assert found == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tenant = 'a'", "tenant is of type int, and 'a' is not a number"),
        ("tenant = true", "tenant is of type int, and true is not a number"),
        ("day = 7", "day is of type date, and 7 is not valid: write it like '2026-01-31'"),
        ("day > '2026-02-30'", "'2026-02-30' is not valid: write it like"),
        ("at > '2026-01-31T25:00'", "is not valid: write it like '2026-01-31T06:30:00Z'"),
        ("word = 5", "5 is not a text: write '5'"),
        ("raw = 'AP8='", "'AP8=' is not bytes, such as X'00ff'"),
        ("tags = 1", "tags is of type map<string, int>, and supports only IS NULL"),
        ("tenant LIKE 'a%'", "LIKE needs texts"),
        ("tenant IS NAN", "has no NaN"),
        ("tags.a IS NULL", "the column 'tags.a' does not exist"),
        ("nope = 1", "the column 'nope' does not exist"),
        ("tenant = NULL", "use IS NULL"),
        ("tenant = 1 tenant", "cannot be read: at 'tenant'"),
        ("tenant = 'a", "cannot be read: at ''a'"),
        ("raw = X'0'", "cannot be read: at 'X'0''"),
        ("(" * 900, "too deep"),
        ("NOT " * 490, "it ends too early"),
        ("tenant =", "it ends too early"),
        ("", "it ends too early"),
    ],
)
def test_a_mistake_is_told_and_no_failure(text: str, says: str) -> None:
    with pytest.raises(UsageError) as told:
        tenants(text)
    assert says in f"{told.value.message} {told.value.hint}"


def test_a_filter_of_many_conditions_is_no_deep_one() -> None:
    assert tenants(" OR ".join(["tenant=7"] * 160)) == [7]


@pytest.mark.proof
def test_random_filters_let_the_rows_through_that_duckdb_does(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    wrong = search(tmp_path, seed, 200, 3)
    assert not wrong, f"seed {seed}: {len(wrong)} differ\n" + "\n".join(wrong[:5])


def test_json_has_bytes_in_base64_and_days_of_any_year() -> None:
    days = pa.array([2_932_897, -719_529, 0], pa.int32()).cast(pa.date32())
    rows = pa.table({"raw": [b"\xff\xfe\xfb", b"", None], "day": days})
    assert [(row["raw"], row["day"]) for row in json_rows(rows)] == [
        ("//77", "+10000-01-01"),
        ("", "-0001-12-31"),
        (None, "1970-01-01"),
    ]
    known = [date(1, 1, 1) + timedelta(some) for some in range(0, 3_652_059, 1_234)]
    shown = [row["d"] for row in json_rows(pa.table({"d": known}))]
    assert shown == [one.isoformat() for one in known]
