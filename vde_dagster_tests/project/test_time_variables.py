from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.project.macros.variables import (
    TIME_VARIABLES,
    substitute_time_variables,
    time_variable_values,
)

DAY = time_variable_values(
    datetime(2013, 1, 1, tzinfo=timezone.utc),
    datetime(2013, 1, 3, tzinfo=timezone.utc),
    datetime(2020, 5, 6, 7, 8, 9, tzinfo=timezone.utc),
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("start_ds", "'2013-01-01'"),
        ("end_ds", "'2013-01-02'"),
        ("start_ts", "'2013-01-01 00:00:00'"),
        ("end_ts", "'2013-01-02 23:59:59.999999'"),
        ("end_tstz", "'2013-01-02 23:59:59.999999+00:00'"),
        ("start_date", "CAST('2013-01-01' AS DATE)"),
        ("end_date", "CAST('2013-01-02' AS DATE)"),
        ("start_dt", "CAST('2013-01-01 00:00:00+00:00' AS TIMESTAMP)"),
        ("end_dt", "CAST('2013-01-02 23:59:59.999999+00:00' AS TIMESTAMP)"),
        ("end_dtntz", "CAST('2013-01-02 23:59:59.999999' AS TIMESTAMP_NTZ)"),
        ("start_epoch", "CAST('1356998400.000000' AS DOUBLE)"),
        ("end_millis", "CAST(1357171199999 AS BIGINT)"),
        ("end_hour", "23"),
        ("execution_ds", "'2020-05-06'"),
        ("execution_ts", "'2020-05-06 07:08:09'"),
    ],
)
def test_the_interval_s_ends_are_inclusive(name: str, text: str) -> None:
    assert DAY[name] == text


def test_every_variable_has_a_value() -> None:
    assert set(DAY) == TIME_VARIABLES


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ds BETWEEN @start_ds AND @END_DS", "ds BETWEEN '2013-01-01' AND '2013-01-02'"),
        ("x > ${start_ds}", "x > '2013-01-01'"),
        ("x > @{start_ds}", "x > '2013-01-01'"),
        ("'@start_ds' || `@start_ds` -- @start_ds", "'@start_ds' || `@start_ds` -- @start_ds"),
        ("@start_ds_x + @this_model", "@start_ds_x + @this_model"),
        ("CAST(@end_date - 1 AS STRING)", "CAST(CAST('2013-01-02' AS DATE) - 1 AS STRING)"),
        ("'it\\'s @start_ds' = @start_ds", "'it\\'s @start_ds' = '2013-01-01'"),
    ],
)
def test_substitution_finds_variables_outside_of_strings(sql: str, expected: str) -> None:
    assert substitute_time_variables(sql, DAY) == expected


@given(st.text(alphabet="@${}start_ds'`\"x -/*\n", max_size=30))
def test_substitution_leaves_strings_alone(text: str) -> None:
    literal = "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"

    assert substitute_time_variables(f"SELECT {literal}, @start_ds", DAY) == (
        f"SELECT {literal}, '2013-01-01'"
    )
