"""Which queries only select columns of one relation."""

from __future__ import annotations

import doctest

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.rendering import served_views
from vde_dagster.planning.rendering.served_views import read_selection

SOURCE = {"id": "id", "Day": "day", "two words": "w"}


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT id AS number, DAY FROM a.b", (("number", "id"), ("DAY", "day"))),
        ("SELECT * FROM a.b", (("id", "id"), ("Day", "day"), ("two words", "w"))),
        ("SELECT t.* FROM a.b AS t", (("id", "id"), ("Day", "day"), ("two words", "w"))),
        ("SELECT a.b.id, b.day d FROM a.b", (("id", "id"), ("d", "day"))),
        ("SELECT `two words` AS `w w` FROM a.b t", (("w w", "w"),)),
        ("SELECT ALL id FROM a.b", (("id", "id"),)),
        ("FROM a.b SELECT id", (("id", "id"),)),
    ],
)
def test_columns_under_any_name_are_selected(
    query: str, columns: tuple[tuple[str, str], ...]
) -> None:
    found = read_selection(query)
    assert found is not None
    assert found.source == ModelName("a", "b")
    assert found.columns(SOURCE) == columns


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, id AS again FROM a.b",
        "SELECT id, day AS ID FROM a.b",
        "SELECT *, id AS again FROM a.b",
        "SELECT current_user FROM a.b",
        "SELECT missing FROM a.b",
    ],
)
def test_a_column_twice_or_none_is_no_selection(query: str) -> None:
    found = read_selection(query)
    assert found is None or found.columns(SOURCE) is None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT id FROM a.b",
        "SELECT id FROM a.b WHERE id > 1",
        "SELECT id FROM a.b LIMIT 3",
        "SELECT id FROM a.b OFFSET 1",
        "SELECT id FROM a.b ORDER BY id",
        "SELECT id FROM a.b SORT BY id",
        "SELECT id FROM a.b CLUSTER BY id",
        "SELECT id FROM a.b HAVING id > 1",
        "SELECT id FROM a.b QUALIFY id",
        "SELECT id FROM a.b TABLESAMPLE 5 ROWS",
        "SELECT id FROM a.b VERSION AS OF 3",
        "SELECT id FROM a.b, c.d",
        "SELECT id FROM a.b CROSS JOIN c.d",
        "SELECT id FROM a.b EXCEPT SELECT id FROM a.c",
        "SELECT id FROM a.b LATERAL VIEW explode(x) y",
        "SELECT id FROM (SELECT id FROM a.b)",
        "SELECT id FROM a.b AS t(id)",
        "SELECT id FROM lake.a.b",
        "SELECT id::string FROM a.b",
        "SELECT id + 1 AS id FROM a.b",
        "SELECT -id FROM a.b",
        "SELECT s.id FROM a.b",
        "SELECT b.s.id FROM a.b",
        "SELECT list[0] FROM a.b",
        "SELECT 1 AS one FROM a.b",
        "SELECT NULL AS id FROM a.b",
        "SELECT current_date FROM a.b",
        "SELECT * EXCEPT (id) FROM a.b",
        "SELECT /*+ REPARTITION(3) */ id FROM a.b",
        "SELECT id FROM",
        "SELECT 1",
    ],
)
def test_whatever_else_a_query_does_is_none(query: str) -> None:
    assert read_selection(query) is None


def test_the_examples() -> None:
    assert doctest.testmod(served_views).failed == 0
