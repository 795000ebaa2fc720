"""Statements of models and projects, such as a model's statements before its query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.errors import shortened
from vde_dagster.spark.session.failures import translated_errors
from vde_dagster.sql.scanner import SourceText, scan
from vde_dagster.sql.trees import QUERY_WORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_statements(session: SparkSession, statements: Sequence[str]) -> None:
    for statement in statements:
        with translated_errors(f"the statement {shortened(statement, 80)}"):
            run_statement(session, statement)


def run_statement(session: SparkSession, statement: str) -> None:
    frame = session.sql(statement)
    # Spark only analyzes a query, and calls no function, until its rows are read.
    tokens = scan(SourceText(Path("statement"), statement))
    if next(token for token in tokens if token.kind != "comment").text.upper() in QUERY_WORDS:
        numbered = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
        numbered.write.format("noop").mode("overwrite").save()
