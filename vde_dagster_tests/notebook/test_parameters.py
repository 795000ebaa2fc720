"""Variables in SQL: where one stands, and that the literal of a value is that value."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from vde_dagster.errors import UsageError
from vde_dagster.programs.notebook.parameters import insert_values

NOON = datetime(2024, 5, 1, 12)


@pytest.mark.parametrize(
    ("query", "filled"),
    [
        ("SELECT :a", "SELECT 1"),
        ("SELECT x=:a, (:a), -:a", "SELECT x=1, (1), -1"),
        ("SELECT 5 -:less, - :less", "SELECT 5 - -1, - -1"),
        ("SELECT ':a', `:a`, x::INT, 1 -- :a", "SELECT ':a', `:a`, x::INT, 1 -- :a"),
        ("SELECT /* :a */ :a", "SELECT /* :a */ 1"),
        ("SELECT CAST(x AS STRUCT<a:INT>), b[0]:a", "SELECT CAST(x AS STRUCT<a:INT>), b[0]:a"),
        ("SELECT : a", "SELECT : a"),
    ],
)
def test_a_parameter_is_a_colon_that_stands_alone_with_a_name(query: str, filled: str) -> None:
    assert insert_values(query, {"a": 1, "INT": 2, "less": -1}) == filled


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (pandas.NaT, "NULL"),
        (True, "TRUE"),
        (-3, "-3"),
        (numpy.int64(7), "7"),
        (numpy.datetime64(NOON, "ns"), "TIMESTAMP_NTZ'2024-05-01 12:00:00.000000'"),
        (numpy.datetime64("2024-05-01"), "DATE'2024-05-01'"),
        (SimpleNamespace(dtype=object(), shape=(), item=lambda: 7), "7"),  # Like PyTorch's.
        (0.1, "0.1D"),
        (float("nan"), "CAST('nan' AS DOUBLE)"),
        (Decimal("1E+2"), "100BD"),
        (date(2024, 5, 1), "DATE'2024-05-01'"),
        (NOON, "TIMESTAMP_NTZ'2024-05-01 12:00:00.000000'"),
        (NOON.replace(tzinfo=timezone.utc), "TIMESTAMP'2024-05-01 12:00:00.000000+00:00'"),
        (b"\0a", "X'0061'"),
        (["a", 1], "('a', 1)"),
    ],
)
def test_a_value_is_a_literal_of_its_type(value: Any, literal: str) -> None:
    assert insert_values(":v", {"v": value}) == literal


@given(st.text())
def test_a_text_is_one_string_whatever_is_in_it(text: str) -> None:
    read = parse_one(insert_values("SELECT :v", {"v": text}), dialect="spark").selects
    assert [type(one) for one in read] == [exp.Literal]
    assert read[0].name == text


@pytest.mark.parametrize(
    "value",
    [
        *([], object(), [object()], Decimal("NaN"), numpy.timedelta64(1, "ns")),
        *(numpy.array([1, 2]), pandas.Series(["a", "b"])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_literal_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(UsageError, match=":v "):
        insert_values("SELECT :v", {"v": value})
