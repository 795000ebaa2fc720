"""Keys by expressions, MERGE clauses and filters: what is read of a header."""

from __future__ import annotations

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.kinds import IncrementalByUniqueKey, Kind
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.serialise import from_plain, to_plain
from vde_dagster_tests.project.conftest import WriteProject

QUERY = "SELECT 1 AS a, 'x' AS b, 2 AS c"


def kind(
    write_project: WriteProject, properties: str, more: str = "", query: str = QUERY
) -> IncrementalByUniqueKey:
    header = f"MODEL (name a.m, kind INCREMENTAL_BY_UNIQUE_KEY ({properties}){more});"
    root = write_project({"models/m.sql": f"{header}\n{query}"})
    found = load_project(root).models[ModelName("a", "m")].kind
    assert isinstance(found, IncrementalByUniqueKey)
    assert from_plain(Kind, to_plain(found)) == found
    return found


def test_a_key_is_of_columns_and_of_expressions(write_project: WriteProject) -> None:
    one = kind(write_project, "unique_key COALESCE(b, '')")
    assert (one.unique_key, one.key_expressions) == ((), ("COALESCE(b, '')",))
    two = kind(write_project, "unique_key (a, lower(`b`) )")
    assert (two.unique_key, two.key_expressions) == (("a",), ("lower(`b`)",))
    assert two.named_columns == ("a", "b")


def test_a_kind_of_plain_columns_is_hashed_as_it_always_was(write_project: WriteProject) -> None:
    plain = kind(write_project, "unique_key (a, b)")
    assert plain.text == (
        "IncrementalByUniqueKey(unique_key=('a', 'b'), lookback=0, batch_size=None, "
        "name='INCREMENTAL_BY_UNIQUE_KEY')"
    )


@pytest.mark.parametrize("brackets", [("", ""), ("(", ")")])
def test_clauses_are_kept_in_their_authors_words(
    write_project: WriteProject, brackets: tuple[str, str]
) -> None:
    clauses = """WHEN MATCHED AND source.b IS NULL OR CASE WHEN target.c > 1 THEN true END
          THEN UPDATE SET target.c = COALESCE(source.c, target.c), b = source.b,
        WHEN MATCHED AND source.c < 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET *"""
    opening, closing = brackets
    found = kind(
        write_project,
        f"unique_key a, when_matched {opening}{clauses}{closing}, merge_filter target.c > 0",
    )
    condition = "source.b IS NULL OR CASE WHEN target.c > 1 THEN true END"
    assert found.when_matched == (
        (condition, (("c", "COALESCE(source.c, target.c)"), ("b", "source.b"))),
        ("source.c < 0", ()),
        ("", (("*", "*"),)),
    )
    assert found.merge_filter == "target.c > 0"
    assert found.named_columns == ("a", "b", "c")


def test_another_dialects_clauses_are_written_in_sparks(write_project: WriteProject) -> None:
    found = kind(
        write_project,
        "unique_key COALESCE(\"b\", ''), "
        "when_matched WHEN MATCHED THEN UPDATE SET target.c = source.c::int",
        ", dialect duckdb",
    )
    assert found.key_expressions == ("COALESCE(`b`, '')",)
    assert found.when_matched == (("", (("c", "CAST(source.c AS INT)"),)),)


def test_python_models_write_them_as_texts(write_project: WriteProject) -> None:
    root = write_project(
        {
            "models/m.py": """
from vde_dagster import model

@model("a.m", columns={"a": "INT", "b": "STRING"}, kind={
    "name": "INCREMENTAL_BY_UNIQUE_KEY",
    "unique_key": ["a", "COALESCE(b, '')"],
    "when_matched": "WHEN MATCHED AND source.b = 'x' THEN UPDATE SET target.b = source.b",
    "merge_filter": "target.b <> 'it''s'",
})
def execute(context):
    return None
"""
        }
    )
    found = load_project(root).models[ModelName("a", "m")].kind
    assert isinstance(found, IncrementalByUniqueKey)
    assert found.key_expressions == ("COALESCE(b, '')",)
    assert found.when_matched == (("source.b = 'x'", (("b", "source.b"),)),)
    assert found.merge_filter == "target.b <> 'it''s'"


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ("unique_key (a, 1 + 1)", "unique key '1 \\+ 1' names no column"),
        ("unique_key (a b)", "is not an expression"),
        ("unique_key (SELECT 1)", "is not an expression"),
        ("unique_key coalesce(a", "never closed"),
        ("unique_key a, when_matched UPDATE SET a = 1", "is not a MERGE clause"),
        ("unique_key a, when_matched WHEN NOT MATCHED THEN DELETE", "not a WHEN MATCHED clause"),
        ("unique_key a, when_matched WHEN MATCHED DELETE", "THEN is missing"),
        ("unique_key a, when_matched WHEN MATCHED THEN INSERT *", "neither updates nor deletes"),
        ("unique_key a, when_matched WHEN MATCHED THEN UPDATE SET", "sets nothing"),
        (
            "unique_key a, when_matched WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *",
            "never reached",
        ),
        (
            "unique_key a, when_matched WHEN MATCHED THEN UPDATE SET b = c",
            "'c' in 'when_matched' is ambiguous between source and target",
        ),
        (
            "unique_key a, when_matched WHEN MATCHED THEN UPDATE SET b = source.b, B = source.c",
            "set twice",
        ),
        ("unique_key a, when_matched WHEN MATCHED THEN UPDATE SET source.b = 1", "sets no column"),
        ("unique_key a, merge_filter c > 1", "'c' in 'merge_filter' is ambiguous"),
        ("unique_key a, merge_filter source.c >", "is not an expression"),
    ],
)
def test_mistakes_are_told_with_their_place(
    write_project: WriteProject, properties: str, message: str
) -> None:
    with pytest.raises(ProjectError, match=message) as caught:
        kind(write_project, properties)
    assert caught.value.location is not None
    assert caught.value.location.line == 1
    assert caught.value.hint


def test_rows_are_identified_by_a_key_of_columns_that_has_one_row_each() -> None:
    assert IncrementalByUniqueKey(("a", "b")).key_of_rows == ("a", "b")
    assert IncrementalByUniqueKey(("a",), key_expressions=("lower(b)",)).key_of_rows == ()
    assert IncrementalByUniqueKey(("a",), strategy="delete+insert").key_of_rows == ()


def test_what_is_made_of_the_tables_own_values_is_not_merged_twice() -> None:
    adds_up = IncrementalByUniqueKey(("id",), when_matched=(("", (("v", "target.v + source.v"),)),))
    replaces = IncrementalByUniqueKey(("id",), when_matched=(("", (("v", "source.v"),)),))

    assert not adds_up.refills
    assert replaces.refills


def test_a_word_that_is_a_value_is_no_column(write_project: WriteProject) -> None:
    clause = "(WHEN MATCHED THEN UPDATE SET target.b = source.true)"
    message = "'true' is not a name; quote a column's name with backticks"
    with pytest.raises(ProjectError, match=message):
        kind(write_project, f"unique_key a, when_matched {clause}")
    found = kind(write_project, f"unique_key a, when_matched {clause.replace('true', '`true`')}")
    assert found.when_matched == (("", (("b", "source.`true`"),)),)
