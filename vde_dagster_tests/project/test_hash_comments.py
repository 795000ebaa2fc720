"""Comments that begin with `#`, where a dialect has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.sql.scanner import SourceText
from vde_dagster.sql.templates import rewrite_hash_comments
from vde_dagster_tests.project.conftest import LoadModel

QUERY = 'SELECT 1 AS a, # it\'s; not two\n \'#b\' AS b #\'\n, """#""" AS c -- # d\n'


@pytest.mark.parametrize("dialect", ["bigquery", "clickhouse", "mysql"])
@pytest.mark.parametrize("where", ["header", "settings"])
def test_a_comment_may_have_quotes_and_semicolons(
    load_model: LoadModel, dialect: str, where: str
) -> None:
    header = f"MODEL (name a.m, # the model's name\n kind FULL, dialect {dialect});"
    other = {}
    if where == "settings":
        header = header.replace(f", dialect {dialect}", "")
        other = {"pyproject.toml": f"[tool.vde]\ndialect = '{dialect}'\n"}
    query = QUERY if dialect == "bigquery" else QUERY.partition(', "')[0]
    model = load_model(f"{header}\n{query};\nSET x = 1;", other)

    assert (model.query or "").startswith("SELECT 1 AS a, '#b' AS b")
    assert model.post_statements == ("SET x = 1",)


def test_a_comment_of_a_column_describes_it(load_model: LoadModel) -> None:
    model = load_model(
        "MODEL (name a.m, dialect bigquery);\nSELECT\n  1 AS a, # how many\n  2 AS b"
    )

    assert model.column_descriptions == {"a": "how many"}


def test_comments_of_jinja_are_none_of_them(load_model: LoadModel) -> None:
    text = "MODEL (name a.m, dialect bigquery);\nSELECT 1 AS a {# b #}, '{# c #}' AS d"

    assert load_model(text).query == "SELECT 1 AS a, '{# c #}' AS d"


def test_elsewhere_the_sign_is_none_of_a_comment(load_model: LoadModel) -> None:
    assert load_model("MODEL (name a.m, dialect postgres);\nSELECT 5 # 3 AS a").query == (
        "SELECT 5 ^ 3 AS a"
    )


def test_mistakes_behind_a_comment_keep_their_place(load_model: LoadModel) -> None:
    with pytest.raises(ProjectError) as caught:
        load_model("MODEL (name a.m, dialect bigquery); # it's\n# a\nSELECT @nobody AS a")
    assert str(caught.value.location) == "models/m.sql:3:8"


@pytest.mark.parametrize("piece", ["/*", "''' ", "{#", "\\'", '\\"', "`#", "#'\\\\"])
@pytest.mark.timeout(60)
def test_long_texts_that_nobody_closes_are_looked_through_once(piece: str) -> None:
    text = f"# a\n'{piece * 200_000}"
    found = rewrite_hash_comments(SourceText(Path("m.sql"), text), "bigquery").text

    assert found.startswith("--a\n")
    assert len(found) == len(text)
