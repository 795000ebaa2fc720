"""Dates and instants as people write them."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from vde_dagster.base.times import is_date, parse_day, parse_end, parse_instant, parse_time
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import load_project, read_settings
from vde_dagster.project.python.sqlmesh.dates import to_datetime
from vde_dagster_tests.project.conftest import WriteProject


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2013-01-31", at(2013, 1, 31), at(2013, 2, 1)),
        (" 2013-12-31 ", at(2013, 12, 31), at(2014, 1, 1)),
        ("2013-01-31 06:00:00", at(2013, 1, 31, 6), at(2013, 1, 31, 6)),
        ("2013-01-31T00:00:00Z", at(2013, 1, 31), at(2013, 1, 31)),
        ("2013-01-31T01:00:00+02:00", at(2013, 1, 30, 23), at(2013, 1, 30, 23)),
    ],
)
def test_a_date_as_an_end_includes_its_day_and_an_instant_does_not(
    text: str, start: datetime, end: datetime
) -> None:
    assert parse_instant(text) == start
    assert parse_end(text) == end


SPELLINGS = {
    "2013-01-31": at(2013, 1, 31),
    "20130131": at(2013, 1, 31),
    "2013-01-31T06": at(2013, 1, 31, 6),
    "2013-01-31t06:30z": at(2013, 1, 31, 6, 30),
    "2013-01-31 06:30 UTC": at(2013, 1, 31, 6, 30),
    "2013-01-31T0630+0130": at(2013, 1, 31, 5),
    "20130131T063015-02": at(2013, 1, 31, 8, 30, 15),
    "2013-01-31T06:30:15.5": at(2013, 1, 31, 6, 30, 15, 500_000),
    "2013-01-31T06:30:15,123456789Z": at(2013, 1, 31, 6, 30, 15, 123_456),
}
"""Accepted texts; versions of Python differ on six of them."""
REFUSED = (
    *("", "yesterday", "2013-13-01", "31.01.2013", "2013-1-31", "2013-02-29", "2013-0131"),
    *("2013-W05-4", "2013-W05", "2013-031", "2013-01-31x06:00", "2013-01-31T24:00", "2013-01-31Z"),
    *("2013-01-31T06:3015", "2013-01-31T06:30+24:00", "2013-01-31T06:30+01:60", "1359612000"),
    *("2013-01-31T06:30:15.", "\u0662\u0660\u0661\u0663-01-31", "0001-01-01T00:00+05:00"),
)


@pytest.mark.parametrize("text", SPELLINGS)
def test_every_python_reads_the_same_spellings(text: str, write_project: WriteProject) -> None:
    expected = SPELLINGS[text]
    assert parse_instant(text) == expected
    assert parse_time(text, "--start", expected) == expected
    assert is_date(text) is ("06" not in text)
    assert to_datetime(text) == expected
    model = f"MODEL (name a.b, kind FULL, start '{text}', columns (x INT)); SELECT 1 AS x"
    (loaded,) = load_project(write_project({"models/a.sql": model})).models.values()
    assert loaded.start == expected


@pytest.mark.parametrize("text", REFUSED)
def test_every_python_refuses_the_same_texts(text: str) -> None:
    with pytest.raises(ValueError):
        parse_end(text)
    assert not is_date(text)
    with pytest.raises(ValueError):
        parse_day(text)


def test_a_day_for_spark_has_one_spelling() -> None:
    assert parse_day("2013-01-31") == at(2013, 1, 31).date()
    for text in SPELLINGS.keys() - {"2013-01-31"}:
        with pytest.raises(ValueError, match="is not a day such as 2024-01-31"):
            parse_day(text)


@pytest.mark.parametrize(
    "start", ["2013-01-31", "'20130131'", "'2013-01-31 00:00 UTC'", "2013-01-31T02:00:00+02:00"]
)
def test_the_setting_start_has_the_same_spellings(start: str, write_project: WriteProject) -> None:
    root = write_project({"pyproject.toml": f"[tool.vde]\nstart = {start}\n"})
    assert read_settings(root).start == at(2013, 1, 31).date()


@pytest.mark.parametrize("start", ["1359590400", "'1359590400'", "'2013-01-31T06:00'", "true"])
def test_the_setting_start_is_a_day(start: str, write_project: WriteProject) -> None:
    root = write_project({"pyproject.toml": f"[tool.vde]\nstart = {start}\n"})
    with pytest.raises(ProjectError, match="setting 'start': input should be a date such as"):
        read_settings(root)
