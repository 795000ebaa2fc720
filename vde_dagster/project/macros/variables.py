"""Variables of queries: the interval's times (`@start_ds`), and `@this_model`.

Names and meaning are SQLMesh's (docs/concepts/macros/macro_variables.md there): `start_*` is the
interval's first instant, `end_*` its last instant, one microsecond before the exclusive end, and
`execution_*` the time of the run. All are UTC.

| ending | value | type in Spark SQL |
|---|---|---|
| `_date` | the day | DATE |
| `_ds` | the day as `2013-01-01` | STRING |
| `_dt` | the instant | TIMESTAMP |
| `_dtntz` | the instant's UTC wall clock | TIMESTAMP_NTZ |
| `_ts` | the instant as `2013-01-01 23:59:59.999999` | STRING |
| `_tstz` | the same with `+00:00` | STRING |
| `_epoch` | seconds since 1970, with a fraction | DOUBLE |
| `_millis` | whole milliseconds since 1970 | BIGINT |
| `_hour` | hour of the day, 0 to 23 | INT |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import utc
from vde_dagster.sql.edits import Edit, apply_edits
from vde_dagster.sql.scanner import BACKSLASH_DIALECTS, SourceText, Token, find_at_sign, scan

TIME_VARIABLES = frozenset(
    f"{prefix}_{suffix}"
    for prefix in ("start", "end", "execution", "latest")
    for suffix in ("date", "ds", "dt", "dtntz", "ts", "tstz", "epoch", "millis", "hour")
)

NUMBERS = ("epoch", "millis", "hour")
AS_TEXT = {"date": "ds", "dt": "tstz", "dtntz": "ts"}
"""Endings of variables, each with the ending of the variable that has the same value as text."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def time_variable_values(
    start: datetime, end: datetime, execution_time: datetime
) -> dict[str, str]:
    """Return the Spark SQL text of every time variable, such as `start_ds`, for one interval.

    Args:
        start: First instant of the interval (UTC; a value without a zone is read as UTC).
        end: End of the interval (UTC, exclusive).
        execution_time: Time of the run (UTC).
    """
    inclusive_end = utc(end) - timedelta(microseconds=1)
    now = utc(execution_time)
    instants = {"start": utc(start), "end": inclusive_end, "execution": now, "latest": now}
    return {
        f"{prefix}_{suffix}": text
        for prefix, instant in instants.items()
        for suffix, text in _literals(instant).items()
    }


def _literals(instant: datetime) -> dict[str, str]:
    day = instant.date().isoformat()
    wall = instant.replace(tzinfo=None).isoformat(sep=" ")
    micros = (instant - _EPOCH) // timedelta(microseconds=1)
    seconds, fraction = divmod(micros, 1_000_000)
    return {
        "date": f"CAST('{day}' AS DATE)",
        "ds": f"'{day}'",
        "dt": f"CAST('{wall}+00:00' AS TIMESTAMP)",
        "dtntz": f"CAST('{wall}' AS TIMESTAMP_NTZ)",
        "ts": f"'{wall}'",
        "tstz": f"'{wall}+00:00'",
        "epoch": f"CAST('{seconds}.{fraction:06d}' AS DOUBLE)",
        "millis": f"CAST({micros // 1000} AS BIGINT)",
        "hour": str(instant.hour),
    }


def substitute_time_variables(sql: str, values: Mapping[str, str]) -> str:
    """Replace time variables in Spark SQL by their values, except in strings and comments.

    Finds `@start_ds`, `@{start_ds}` and `${start_ds}`. See `time_variable_values` for `values`.
    """
    found = ((values.get(name), start, end) for name, start, end in find_variables(sql))
    edits = [Edit(start, end, value) for value, start, end in found if value is not None]
    return apply_edits(sql, edits)


def find_time_variable(sql: str) -> tuple[int, int] | None:
    """Return (start, end) of the first time variable outside of strings and comments, or None.

    >>> find_time_variable("SELECT '@start_ds', @start_ds")
    (20, 29)
    """
    variables = find_variables(sql)
    return next(((at, end) for name, at, end in variables if name in TIME_VARIABLES), None)


def find_variables(sql: str) -> Iterator[tuple[str, int, int]]:
    """Yield the lower-case name, start and end of each `@x`, `@{x}` and `${x}`."""
    if "@" not in sql and "$" not in sql:
        return
    source = SourceText(Path("query"), sql)
    first = 0 if "$" in sql else find_at_sign(source, 0, len(sql))
    tokens = [] if first is None else list(scan(source, first))
    for index, token in enumerate(tokens):
        name, last = _read_variable(tokens, index)
        if name:
            yield name.lower(), token.start, tokens[last].end


def _read_variable(tokens: list[Token], index: int) -> tuple[str, int]:
    token = tokens[index]
    if token.text == "@" and index + 1 < len(tokens):
        word = tokens[index + 1]
        if word.kind == "word" and word.start == token.end:
            return word.text, index + 1
    if token.text in ("$", "@") and index + 3 < len(tokens):
        opening, word, closing = tokens[index + 1 : index + 4]
        if (opening.text, word.kind, closing.text) == ("{", "word", "}"):
            return word.text, index + 3
    return "", index


TABLE_PARTS = {
    "catalog_name": "this_model_catalog",
    "schema_name": "this_model_schema",
    "table_name": "this_model_table",
}
"""Variables that replace names such as `@{table_name}` in a template of `@RESOLVE_TEMPLATE`."""
KIND_NAME = "model_kind_name"
STAGE = "runtime_stage"
EVALUATING, PROMOTING, AUDITING, TESTING = "evaluating", "promoting", "auditing", "testing"


def this_model_values(table: str) -> dict[str, str]:
    """Return `this_model` and the variables for its parts, such as `this_model_schema`.

    If `table` names a branch as a fourth part, only `this_model` contains the branch.
    """
    parts = ModelName.split(table)[:3]
    padded = [""] * (3 - len(parts)) + list(parts)
    return {"this_model": table} | {
        variable: f"'{part}'" for variable, part in zip(TABLE_PARTS.values(), padded, strict=True)
    }


IN_TEXT = re.compile(r"@\{\s*(\w+)\s*\}|@(\w+)")


def with_values(text: str, variables: Mapping[str, str]) -> str:
    """Replace `@{customer}` and `@customer` in a text by the variables' values."""

    def value(found: re.Match[str]) -> str:
        own = variables.get((found[1] or found[2]).lower())
        return found[0] if own is None else bare(own)

    return IN_TEXT.sub(value, text)


def bare(value: str) -> str:
    """Remove the quotes around a value, if it has any."""
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'`\"":
        return value[1:-1]
    return value


def quoted_text(text: str) -> str:
    """Write a text as a SQL string, in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def sql_literal(value: Any, dialect: str = "spark") -> str:
    """Write a value of YAML, TOML or Python in SQL: a list as `(a, b)`, a table as a `MAP`."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        if dialect in BACKSLASH_DIALECTS:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return quoted_text(value)
    if isinstance(value, list | tuple):
        return f"({', '.join(sql_literal(one, dialect) for one in value)})"
    if not isinstance(value, Mapping):
        return repr(value)
    if dialect == "spark":
        return f"MAP({', '.join(sql_literal(one) for pair in value.items() for one in pair)})"
    from sqlglot import exp
    from sqlglot.errors import ErrorLevel

    # MySQL has no maps; a query that reads the variable is refused later.
    return exp.convert(dict(value)).sql(dialect=dialect, unsupported_level=ErrorLevel.IGNORE)
