"""Dates and instants as people write them."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from vde_dagster.base.times import parse_end, parse_instant


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


@pytest.mark.parametrize("text", ["", "yesterday", "2013-13-01", "31.01.2013"])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"isoformat|month"):
        parse_end(text)
