"""Rows as JSON: one form for every type, whatever reads the rows."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from vde_dagster.base.json_values import json_value
from vde_dagster.execution.query.read_rows import rows_as_tuples
from vde_dagster.lakehouse.rows.row_values import json_rows, python_rows
from vde_dagster.plugins.sync.syncs import parse_json_value

NAN = float("nan")
AT = datetime(2024, 2, 29, 1, 2, 3, 450000, timezone.utc)
STRUCT = pa.struct([("x", pa.float32()), ("b", pa.binary())])
FORMS: list[tuple[pa.DataType, Any, Any]] = [
    (pa.float64(), NAN, "NaN"),
    (pa.float32(), -math.inf, "-Infinity"),
    (pa.float64(), math.inf, "Infinity"),
    (pa.float64(), 0.1, 0.1),
    (pa.int64(), 2**63 - 1, 2**63 - 1),
    (pa.bool_(), True, True),
    (pa.decimal128(38, 10), Decimal("0E-10"), "0.0000000000"),
    (pa.decimal128(38, 0), Decimal("12345678901234567890"), "12345678901234567890"),
    (pa.large_string(), "NaN", "NaN"),
    (pa.date32(), date(2024, 2, 29), "2024-02-29"),
    (pa.date32(), 3_000_000, "+10183-09-21"),
    (pa.timestamp("us", "UTC"), AT, "2024-02-29T01:02:03.450000Z"),
    (pa.timestamp("us"), AT.replace(tzinfo=None), "2024-02-29T01:02:03.450000"),
    (pa.timestamp("us"), 300_000_000_000_000_000, "+11476-08-15T05:20:00"),
    (pa.timestamp("ns"), 1, "1970-01-01T00:00:00.000000001"),
    (pa.time64("us"), time(1, 2), "01:02:00"),
    (pa.duration("us"), timedelta(days=-1, hours=-2), "INTERVAL '-1 02:00:00' DAY TO SECOND"),
    (pa.large_binary(), b"\x00\xff", "AP8="),
    (pa.large_list(pa.float64()), [NAN, None], ["NaN", None]),
    (STRUCT, {"x": math.inf, "b": b"a"}, {"x": "Infinity", "b": "YQ=="}),
    (pa.map_(pa.string(), STRUCT), [("k", {"x": NAN, "b": None})], {"k": {"x": "NaN", "b": None}}),
    (pa.map_(pa.int32(), pa.date32()), [(1, date(2024, 1, 1))], {"1": "2024-01-01"}),
    (pa.map_(pa.bool_(), pa.float64()), [(True, NAN)], {"true": "NaN"}),
    (pa.map_(STRUCT, pa.int32()), [({"x": NAN, "b": None}, 1)], [[{"x": "NaN", "b": None}, 1]]),
    (pa.large_list(pa.date32()), [3_000_000], ["+10183-09-21"]),
]


@pytest.mark.parametrize(("type_", "value", "form"), FORMS, ids=lambda one: str(one)[:30])
def test_a_value_has_one_json_form_in_serve_sync_and_the_command_line(
    type_: pa.DataType, value: Any, form: Any
) -> None:
    table = pa.table({"c": pa.array([value, None], type_)})
    served = json_rows(table)
    assert served == [{"c": form}, {"c": None}]
    assert json.loads(json.dumps(served, allow_nan=False)) == served
    assert json.loads(json.dumps([json_value(row) for row in python_rows(table)])) == served
    assert [
        {"c": json.loads(json.dumps(json_value(c)))} for (c,) in rows_as_tuples(table)
    ] == served


@pytest.mark.parametrize(("type_", "value", "form"), FORMS[:9], ids=lambda one: str(one)[:30])
def test_a_refused_row_is_sent_again_with_its_values(
    type_: pa.DataType, value: Any, form: Any
) -> None:
    again = parse_json_value(json.loads(json.dumps(form)), type_)
    assert repr(again) == repr(value)
    assert parse_json_value("AP8=", pa.large_binary()) == b"\x00\xff"
