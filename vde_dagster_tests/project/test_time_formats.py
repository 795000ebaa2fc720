"""Formats of time columns: what may be written in which dialect, and what is refused at once."""

from __future__ import annotations

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.kinds import IncrementalByTimeRange
from vde_dagster.project.kinds.time_format import spark_format, strftime_format
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.project.conftest import WriteProject


@pytest.mark.parametrize(
    ("dialect", "written", "expected"),
    [
        ("spark", "%d/%m/%Y", "%d/%m/%Y"),
        ("spark", "dd/MM/yyyy", "%d/%m/%Y"),
        ("spark", "yyyyMMddHHmmss", "%Y%m%d%H%M%S"),
        ("spark", "yyyy-MM-dd'T'HH:mm", "%Y-%m-%dT%H:%M"),
        ("spark", "d' MMM yy".replace("d'", "dd"), "%d %b %y"),
        ("databricks", "yyyy-MM-dd", "%Y-%m-%d"),
        ("spark", "YYYY-MM-dd", "%Y-%m-%d"),
        ("duckdb", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M"),
        ("duckdb", "YYYY-MM-dd", "%Y-%m-%d"),
        ("mysql", "%Y-%m-%d %H:%i:%s", "%Y-%m-%d %H:%M:%S"),
        ("bigquery", "%F", "%Y-%m-%d"),
        ("snowflake", "YYYY-MM-DD", "%Y-%m-%d"),
        ("snowflake", "%Y-%m-%d", "%Y-%m-%d"),
        ("postgres", "YYYY/MM/DD HH24:MI:SS", "%Y/%m/%d %H:%M:%S"),
        ("trino", "%Y%m%d", "%Y%m%d"),
        ("postgres", "yyyyMMddHH", "%Y%m%d%H"),
        ("snowflake", "yyyy-MM-dd HH:mm:ss", "%Y-%m-%d %H:%M:%S"),
        ("oracle", "dd/MM/yyyy", "%d/%m/%Y"),
        ("postgres", 'YYYY-MM-DD"T"HH24', "%Y-%m-%dT%H"),
        ("snowflake", 'YYYY-MM-DDTHH24"DD"', "%Y-%m-%dT%HDD"),
        ("snowflake", "YYYY-MM-DD HH24:MI:SS.FF6", "%Y-%m-%d %H:%M:%S.%f"),
    ],
)
def test_a_format_is_strftimes_or_the_dialects(dialect: str, written: str, expected: str) -> None:
    assert strftime_format(written, dialect) == expected


@pytest.mark.parametrize(
    ("dialect", "written", "reason"),
    [
        ("spark", "%d/%m", "it contains the day but not the month|not the year"),
        ("spark", "%m", "it contains the month but not the year"),
        ("spark", "%Y-%d", "it contains the day but not the month"),
        ("spark", "%Y-%m-%d %M", "it contains the minute but not the hour"),
        ("spark", "%j", "'%j' is not one of"),
        ("spark", "%Y-%m-%", "'%' is not one of"),
        ("spark", "YYYY-MM-DD", "'DD' is neither one of"),
        ("spark", "yyyy-M-d", "'M' is neither one of"),
        ("spark", "day", "'d' is neither one of"),
        ("spark", "", "it contains none of"),
        ("duckdb", "day", "'d' is neither one of"),
        ("bigquery", "yyyy-MM-d", "'d' is neither one of"),
        ("snowflake", "day", "'d' is not a supported unit of snowflake"),
        ("snowflake", "YYYY-MM-DD HH24:MI:SS.FF9", "'FF9' is not a supported unit"),
        ("postgres", "YYYY-MM-DD HH12", "'HH12' is not a supported unit of postgres"),
        ("postgres", "YYYYMMDDHH", "'HH' is not a supported unit of postgres"),
        ("postgres", "YYYY-MM-DD H", "'H' is not a supported unit of postgres"),
        ("tsql", "yyyy-M-dd", "'M' is not a supported unit of tsql"),
    ],
)
def test_what_tells_no_one_range_of_time_is_refused(
    dialect: str, written: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        strftime_format(written, dialect)


def test_the_models_dialect_counts(write_project: WriteProject) -> None:
    header = "MODEL (name a.{0}, {1} kind INCREMENTAL_BY_TIME_RANGE (time_column (ds, '{2}')));"
    root = write_project(
        {
            "models/m.sql": header.format("m", "", "dd.MM.yyyy") + "SELECT '' AS ds",
            "models/n.sql": header.format("n", "dialect snowflake,", "DD.MM.YYYY")
            + "SELECT '' AS ds",
        }
    )
    models = load_project(root).models
    for name in ("m", "n"):
        kind = models[ModelName("a", name)].kind
        assert isinstance(kind, IncrementalByTimeRange)
        assert kind.time_format == "%d.%m.%Y"


def test_a_python_model_has_a_format_with_blanks(write_project: WriteProject) -> None:
    root = write_project(
        {
            "models/m.py": """
from vde_dagster import model

@model("a.m", columns={"ds": "STRING"}, kind={
    "name": "INCREMENTAL_BY_TIME_RANGE", "time_column": ["ds", "%Y-%m-%d %H:%M"],
})
def execute(context):
    return None
"""
        }
    )
    kind = load_project(root).models[ModelName("a", "m")].kind
    assert isinstance(kind, IncrementalByTimeRange)
    assert kind.time_format == "%Y-%m-%d %H:%M"


def test_the_format_is_where_the_message_points(write_project: WriteProject) -> None:
    header = "MODEL (name a.m,\n  kind INCREMENTAL_BY_TIME_RANGE (time_column (ds, '%d/%m')));\n"
    root = write_project({"models/m.sql": header + "SELECT '' AS ds"})
    with pytest.raises(ProjectError, match="invalid format '%d/%m' of the time column") as caught:
        load_project(root)
    where = caught.value.location
    assert where is not None
    assert (where.line, where.column) == (2, 52)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("%Y-%m-%dT%H:%M", "yyyy'-'MM'-'dd'T'HH':'mm"),
        ("%d %b '%y", "dd' 'MMM' '''yy"),
        ("100%% %Y", "'100% 'yyyy"),
    ],
)
def test_a_format_in_sparks_letters(pattern: str, expected: str) -> None:
    assert spark_format(pattern) == expected
