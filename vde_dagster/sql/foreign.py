"""Queries of other dialects in Spark SQL, as SQLGlot writes them, if that can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.sql.bounded_text import with_cut_texts
from vde_dagster.sql.foreign_calls import with_spark_calls
from vde_dagster.sql.foreign_relations import with_spark_relations
from vde_dagster.sql.intervals import with_made_intervals
from vde_dagster.sql.trees import query_sql

if TYPE_CHECKING:
    from sqlglot import exp

_WRONG = {
    "ToChar": "to_char(…, format)",
    "PercentileCont": "PERCENTILE_CONT",
    "PercentileDisc": "PERCENTILE_DISC",
    "ParseJSON": "parse_json",
    "Localtime": "LOCALTIME",
    "Localtimestamp": "LOCALTIMESTAMP",
    "SafeFunc": "SAFE.",
}
"""Classes of SQLGlot's whose Spark spelling (30.30) is a function of another meaning, or none."""


def spark_text(tree: exp.Expr, dialect: str = "") -> tuple[str, str | None]:
    """Write a tree of another dialect as Spark SQL.

    Args:
        tree: The query or statement, with its time variables as parameters; it may be changed.
        dialect: SQLGlot dialect that it was written in.

    Returns:
        The text, and None; or what it is in the query that cannot be written. A text that is read
        again has to be written the same way, or SQLGlot has read something else than it wrote.
    """
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    for node in tree.walk():
        what = _WRONG.get(node.__class__.__name__)
        if what is not None:
            return "", what
        if isinstance(node, exp.DataType) and node.this in (exp.DType.TIME, exp.DType.TIMETZ):
            return "", "the type TIME"
        if isinstance(
            node, exp.StrToTime | exp.StrToDate | exp.TsOrDsToDate | exp.TimeToStr
        ) and not _told(node, dialect):
            return "", "a time format that is computed"
    problem = with_spark_relations(tree)
    if problem is not None:
        return "", problem
    tree, problem = with_spark_calls(tree, dialect)
    if problem is not None:
        return "", problem
    text = query_sql(with_cut_texts(with_made_intervals(tree), dialect))
    try:
        again = query_sql(parse_one(text, dialect="spark"), copy=False)
    except SqlglotError as error:
        return "", str(error).splitlines()[0]
    if again != text:
        begin = next(
            (i for i, (a, b) in enumerate(zip(text, again, strict=False)) if a != b), len(again)
        )
        return "", f"'{text[max(begin - 20, 0) : begin + 20]}' would not be read as it was meant"
    return text, None


def _told(node: exp.Expr, dialect: str) -> bool:
    """Say whether a format is one that could be written in Spark's letters."""
    from sqlglot import exp

    form = node.args.get("format")
    if dialect == "duckdb" and isinstance(node, exp.TimeToStr) and node.this.is_string:
        return True  # Its strftime takes the format first, too.
    return form is None or form.is_string or dialect in ("", "databricks", "spark2")
