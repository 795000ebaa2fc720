"""Times that are told from an instant."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from vde_dagster.base.times import is_relative, names_a_day, parse_range, relative_instant
from vde_dagster.errors import UsageError
from vde_dagster.planning.plan.plan_options import PlanOptions

NOW = datetime(2024, 3, 31, 12, 34, tzinfo=timezone.utc)
NAMES = ("--start", "--end")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("now", "2024-03-31T12:34"),
        ("today", "2024-03-31"),
        ("Yesterday", "2024-03-30"),
        ("tomorrow", "2024-04-01"),
        ("3 days ago", "2024-03-28"),
        ("a week ago", "2024-03-24"),
        ("1  week ago", "2024-03-24"),
        ("1 month ago", "2024-02-29"),
        ("2 years ago", "2022-03-31"),
        ("90 minutes ago", "2024-03-31T11:04"),
        ("an hour ago", "2024-03-31T11:34"),
        ("2 days from now", "2024-04-02"),
    ],
)
def test_days_begin_at_midnight_and_hours_are_exact(text: str, instant: str) -> None:
    assert is_relative(text)
    assert relative_instant(text, NOW) == utc(instant)


@pytest.mark.parametrize("text", ["", "ago", "3 moons ago", "-1 days ago", "1.5 days ago", "soon"])
def test_what_is_no_relative_time_is_refused(text: str) -> None:
    assert not is_relative(text)
    with pytest.raises(ValueError, match="is not a time"):
        relative_instant(text, NOW)


def test_an_end_that_names_a_day_includes_it() -> None:
    assert names_a_day("yesterday")
    assert not names_a_day("2 hours ago")
    assert parse_range("yesterday", "yesterday", NAMES, NOW) == (
        utc("2024-03-30"),
        utc("2024-03-31"),
    )
    assert parse_range(None, "2 hours ago", NAMES, NOW)[1] == NOW - timedelta(hours=2)


def test_a_year_before_the_first_is_no_time() -> None:
    with pytest.raises(UsageError, match="--start '9999 years ago' is not a time"):
        parse_range("9999 years ago", None, NAMES, NOW)


def test_relative_times_are_told_from_the_execution_time() -> None:
    options = PlanOptions.read(
        {"start": "2 days ago", "execution_time": "2024-03-10"}, NOW, "--{}".format
    )
    assert (options.start, options.now) == (utc("2024-03-08"), utc("2024-03-10"))


def test_an_execution_time_that_has_not_come_is_refused() -> None:
    with pytest.raises(UsageError, match="'2024-04-01' lies in the future"):
        PlanOptions.read({"execution_time": "2024-04-01"}, NOW, "--{}".format)
