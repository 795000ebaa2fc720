"""Statements end where the scanner says, also where they are found in one go."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.errors import ProjectError
from vde_dagster.project.reading import statements
from vde_dagster.project.reading.statements import Block, split_blocks
from vde_dagster.sql.scanner import SourceText, find_at_sign, find_statement_end, scan
from vde_dagster_tests.project.conftest import LoadModel

PIECES = [
    *(
        "SELECT a",
        " FROM t",
        "b1",
        " ",
        "\n",
        "\t",
        ",",
        ";",
        "-",
        "--",
        "-- it's; so\n",
        "/",
        "/*",
    ),
    *("/* a; 'b */", "/*+ x */", "'", '"', "`", "''", "'a;b'", "'it''s'", r"'\'; '", r"'\\'", "r'"),
    *(
        r"r'\'",
        "R'a;'",
        "bar'x'",
        '"a;"',
        "`a;b`",
        "(",
        ")",
        "@start_ds",
        "é",
        "\\",
        "1.5e3r",
        "MODEL",
    ),
    *("AUDIT", "::", ":=", "->", "[0]", "{", "}", "?", "#"),
]


def split(text: str, dialect: str) -> list[Block] | str:
    source = SourceText(Path("models/a.sql"), text)
    try:
        return split_blocks(source, dialect)
    except ProjectError as error:
        return f"{error.location} {error.message}"


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_statements_end_where_the_scanner_says(dialect: str) -> None:
    @given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
    def check(body: str) -> None:
        text = f"MODEL (name a.b); {body}"
        quick = split(text, dialect)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(statements, "find_statement_end", lambda *args, **options: None)
            assert quick == split(text, dialect)

    check()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1", True),
        ("SELECT ';', `;`, \";\" FROM t -- no end\nWHERE a; SELECT 2", True),
        ("SELECT a,, b", False),
        ("SELECT a, -- one\n, b", False),
        ("SELECT 'a", False),
        ("SELECT 1 -- why\n;", False),
    ],
)
def test_only_what_needs_no_closer_look_is_found_in_one_go(text: str, found: bool) -> None:
    end = find_statement_end(SourceText(Path("a.sql"), text), 0)
    assert (end is not None) == found
    if found:
        assert end == (text.index("; SELECT") if "; SELECT" in text else len(text))


@pytest.mark.parametrize("backslash", [True, False])
def test_calls_are_found_where_the_scanner_finds_them(backslash: bool) -> None:
    @given(st.lists(st.sampled_from([*PIECES, "@", "@a(", "'@'", "/* @ */"]), max_size=12))
    def check(pieces: list[str]) -> None:
        source = SourceText(Path("a.sql"), "".join(pieces))
        end = len(source.text)
        try:
            scanned = [t.start for t in scan(source, backslash=backslash) if t.text == "@"]
        except ProjectError as error:
            scanned = [str(error)]
        found: list[int | str] = []
        try:
            at = find_at_sign(source, 0, end, backslash=backslash)
            while at is not None:
                found.append(at)
                at = find_at_sign(source, at + 1, end, backslash=backslash)
        except ProjectError as error:
            found = [str(error)]
        assert found == scanned

    check()


@pytest.mark.parametrize("dialect", ["spark", "duckdb", "bigquery"])
def test_resources_of_spark_are_loaded_in_every_dialect(
    load_model: LoadModel, dialect: str
) -> None:
    model = load_model(
        f"MODEL (name a.m, kind FULL, dialect {dialect});\nADD JAR s3://lake/own-1.0.jar;\n"
        "SELECT 1 AS a"
    )

    assert model.pre_statements == ("ADD JAR s3://lake/own-1.0.jar",)
