"""Examples of SQL as text and trees."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.api.sql import (
    SQL,
    Edit,
    Expanded,
    MacroEvaluator,
    SourceText,
    Token,
    apply_edits,
    in_spark,
    placeholder,
    read_expression,
    read_query,
)


def test_Edit() -> None:
    assert apply_edits("SELECT 1", [Edit(7, 8, "2")]) == "SELECT 2"


def test_Expanded() -> None:
    query = Expanded.build([("SELECT ", 0), ("3", ~7)])  # The 3 is a macro's, written at 7.
    assert (query.text, query.origin(7)) == ("SELECT 3", 7)


def test_MacroEvaluator() -> None:
    def columns(evaluator: MacroEvaluator, table: SQL) -> list[str]:
        return [f"{table}.{name}" for name in evaluator.columns_to_types(str(table))]

    assert columns.__name__ == "columns"


def test_SQL() -> None:
    def cents(evaluator: MacroEvaluator, amount: SQL, rate: float = 1.0) -> str:
        return f"CAST(ROUND(({amount}) * {rate} * 100) AS BIGINT)"

    assert cents.__name__ == "cents"


def test_SourceText() -> None:
    source = SourceText(Path("models/daily.sql"), "SELECT 1\nFROM t")
    assert str(source.location(9)) == "models/daily.sql:2:1"


def test_Token() -> None:
    source = SourceText(Path("models/daily.sql"), "SELECT 1 -- one")
    tokens: list[Token] = Token.split(source)
    assert [source.text[token.start : token.end] for token in tokens] == ["SELECT", "1"]


def test_apply_edits() -> None:
    assert apply_edits("a + b", [Edit(0, 1, "x"), Edit(4, 5, "y")]) == "x + y"


def test_in_spark() -> None:
    assert in_spark("day::date", "duckdb") == "CAST(day AS DATE)"


def test_placeholder() -> None:
    assert placeholder("start_ds").isidentifier()  # Stands for `@start_ds` in other dialects.


def test_read_expression() -> None:
    assert read_expression("price * n").functions == ()


def test_read_query() -> None:
    reading = read_query("WITH d AS (SELECT 1 AS day) SELECT day FROM d")
    assert reading.with_clause == "WITH d AS (SELECT 1 AS day)"
