"""Selection and runs of unit tests on Spark, and comparison of their rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote, string_literal
from vde_dagster.base.times import utc
from vde_dagster.errors import ExecutionError, ProjectError, shortened
from vde_dagster.planning.checks.unit_tests import check_test
from vde_dagster.planning.intervals.cadence import EPOCH, FAR
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.model import Model, TestTable, UnitTest
from vde_dagster.project.selection import Changed, select
from vde_dagster.sql.scanner import SourceText, scan

if TYPE_CHECKING:
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.spark.engine import SparkEngine


def select_tests(
    tests: Sequence[UnitTest],
    models: Mapping[ModelName, Model],
    patterns: Sequence[str],
    changed: Changed | None = None,
) -> list[UnitTest]:
    """Return the unit tests that match one of the patterns, or all tests without patterns.

    Args:
        patterns: Names of tests, and patterns of models, see `project.selection`.

    Raises:
        UsageError: A pattern is not a test's name and selects no model.
    """
    if not patterns:
        return list(tests)
    named = {test.name.lower() for test in tests} & {text.lower() for text in patterns}
    others = [text for text in patterns if text.lower() not in named]
    chosen = select(models, others, changed) if others else set()
    return [test for test in tests if test.name.lower() in named or test.model in chosen]


LONGEST_SUMMARY = 300


@dataclass(frozen=True, slots=True)
class TestResult:
    """Result of a unit test.

    Args:
        differences: Differences by name: `query`, or the name of a common table expression.
        error: Error that prevented the model from running, or None.
    """

    __test__ = False

    test: UnitTest
    differences: tuple[tuple[str, RowDifference], ...] = ()
    error: str | None = None

    @property
    def passed(self) -> bool:
        return not self.differences and self.error is None

    @property
    def summary(self) -> str:
        """The error, or the numbers of wrong rows, such as `rows missing: 1, unexpected: 0`."""
        if self.error is not None:
            return shortened(self.error.partition("\n")[0], LONGEST_SUMMARY)
        missing = sum(len(found.missing) for _, found in self.differences)
        unexpected = sum(len(found.unexpected) for _, found in self.differences)
        return f"rows missing: {missing}, unexpected: {unexpected}"


def run_test(
    test: UnitTest, snapshots: Mapping[ModelName, Snapshot], engine: SparkEngine
) -> TestResult:
    """Run a unit test: compare the model's result on the input rows with the expected rows."""
    snapshot = check_test(test, snapshots)
    differences: list[tuple[str, RowDifference]] = []
    try:
        whole = [(None, test.expected)] if test.expected is not None else []
        for part, expected in (*whole, *test.ctes):
            if part is not None and snapshot.model.python is not None:
                continue
            columns, rows = result_rows(test, snapshots, engine, part)
            differences.append((part or "query", _compare_result(expected, columns, rows, engine)))
    except ExecutionError as error:
        return TestResult(test, error=error.message)
    return TestResult(test, tuple((part, found) for part, found in differences if found))


def result_rows(
    test: UnitTest,
    snapshots: Mapping[ModelName, Snapshot],
    engine: SparkEngine,
    part: str | None = None,
) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[Any, ...]]]:
    """Run a model's query on a unit test's input rows.

    Args:
        part: A common table expression of the query, or None for the whole query.

    Returns:
        (name, Spark SQL type) of the columns, and the rows.

    Raises:
        ProjectError: The query has no such expression.
        ExecutionError: Spark failed.
    """
    snapshot = snapshots[test.model]
    if test.tested is not None:
        snapshot = replace(snapshot, model=test.tested)
    sources = {
        parent: table_query(table, _column_types(snapshots.get(parent)))
        for parent, table in test.inputs
    }
    if snapshot.model.reads_itself and snapshot.columns:
        nothing_yet = table_query(TestTable((), ()), _column_types(snapshot))
        sources.setdefault(test.model, nothing_yet)
    before = _session_statements(test, snapshot.model, sources)
    if snapshot.model.python is not None:
        return engine.run_python(snapshot, sources, *_test_times(test), before)
    return engine.query(_render_test_query(test, snapshot.model, sources, part), before=before)


def cte_names(test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> tuple[str, ...]:
    """Return the names of the common table expressions of a test's model, in order."""
    model = test.tested or snapshots[test.model].model
    return _cte_names(model.query) if model.query else ()


def _column_types(snapshot: Snapshot | None) -> dict[str, str | None]:
    return {column.name: column.type for column in snapshot.columns} if snapshot else {}


def _render_test_query(
    test: UnitTest, model: Model, sources: Mapping[ModelName, str], part: str | None
) -> str:
    from vde_dagster.planning.rendering.render import replace_tables
    from vde_dagster.project.macros.variables import substitute_time_variables, time_variable_values

    assert model.query is not None
    sql = replace_tables(model.query, sources.get)
    if part is not None:
        sql = _select_cte(test, sql, part)
    interval, now = _test_times(test)
    values = time_variable_values(interval.start, interval.end, now)
    sql = substitute_time_variables(sql, values)
    return sql if test.execution_time is None else with_frozen_time(sql, now)


def _select_cte(test: UnitTest, sql: str, name: str) -> str:
    from vde_dagster.sql.outline import with_clause

    clause = with_clause(sql)
    if clause is None or name not in _cte_names(sql):
        raise ProjectError(
            f"the test '{test.name}' expects rows of the common table expression '{name}', but the "
            f"query of {test.model} has none of that name",
            hint="name a common table expression of the query",
            location=test.location,
        )
    return f"{clause} SELECT * FROM {quote(name)}"


def _cte_names(sql: str) -> tuple[str, ...]:
    from vde_dagster.sql.reading import read_query

    with_ = read_query(sql).tree.args.get("with_")
    return tuple(cte.alias for cte in with_.expressions) if with_ is not None else ()


def _test_times(test: UnitTest) -> tuple[Interval, datetime]:
    start = test.start or EPOCH
    end = test.end or (start + timedelta(days=1) if test.start else FAR)
    return Interval(start, end), test.execution_time or end


def _session_statements(
    test: UnitTest, model: Model, sources: Mapping[ModelName, str]
) -> tuple[str, ...]:
    from vde_dagster.planning.rendering.render import render_statements
    from vde_dagster.project.reading.temporary_views import SESSION_VIEW

    statements = [one for one in model.pre_statements if model.is_for_session(one)]
    if model.query is not None:  # It contains the temporary views that it reads.
        statements = [one for one in statements if not one.startswith(SESSION_VIEW)]
    return render_statements(tuple(statements), sources.get, "this_model", *_test_times(test))


def _compare_result(
    expected: TestTable,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[tuple[Any, ...]],
    engine: SparkEngine,
) -> RowDifference:
    from vde_dagster.sql.casts import cast_by_name

    types = {name.lower(): type_ for name, type_ in columns}
    _check_columns(expected.columns, types)
    partial = expected.partial or expected.query is not None
    mentioned = {column.lower() for column in expected.columns}
    names = [name for name, _ in columns if not partial or name.lower() in mentioned]
    if expected.query is not None:
        got, wanted = engine.query(expected.query)
        names = [name for name, _ in got]
        _check_columns(names, types)
        if any(type_ != types[name.lower()] for name, type_ in got):  # 3 for a DECIMAL's 3.00.
            cast = ", ".join(
                f"{cast_by_name(quote(name), has, types[name.lower()], strict=False)} "
                f"AS {quote(name)}"
                for name, has in got
            )
            query = expected.query.rstrip().rstrip(";")
            _, wanted = engine.query(f"SELECT {cast} FROM (\n{query}\n) AS expected")
    else:
        ordered = TestTable(
            expected.columns, expected.rows, tuple((c, types[c.lower()]) for c in expected.columns)
        )
        rest = {name: type_ for name, type_ in columns if name.lower() not in mentioned}
        query = table_query(ordered, rest if not partial else {})
        listed = ", ".join(quote(name) for name in names)
        _, wanted = engine.query(f"SELECT {listed} FROM ({query}) AS expected")
    positions = [[name.lower() for name, _ in columns].index(name.lower()) for name in names]
    actual = [tuple(row[position] for position in positions) for row in rows]
    return compare_rows(names, wanted, actual)


def _check_columns(names: Sequence[str], types: Mapping[str, str]) -> None:
    unknown = [name for name in names if name.lower() not in types]
    if unknown:
        raise ExecutionError(
            f"the model returns no column {', '.join(unknown)}; it returns {', '.join(types)}"
        )


SIGNIFICANT_DIGITS = 9
"""Number of digits to which floats are compared, because sums depend on Spark's order of rows."""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowDifference:
    """Rows that a unit test expects but the model does not return, and vice versa."""

    columns: tuple[str, ...]
    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)


def compare_rows(
    columns: Sequence[str], expected: Iterable[Row], actual: Iterable[Row]
) -> RowDifference:
    """Compare expected with actual rows. The order of rows does not count, but duplicates do."""
    wanted = [(_comparable_text(row), row) for row in expected]
    found = [(_comparable_text(row), row) for row in actual]
    return RowDifference(
        tuple(columns),
        _subtract_rows(wanted, Counter(key for key, _ in found)),
        _subtract_rows(found, Counter(key for key, _ in wanted)),
    )


def _subtract_rows(rows: list[tuple[str, Row]], others: Counter[str]) -> tuple[Row, ...]:
    left = []
    for key, row in rows:
        if others[key]:
            others[key] -= 1
        else:
            left.append(row)
    return tuple(left)


def _comparable_text(value: Any) -> str:
    """Write a value so that equal values have equal texts, including nested values."""
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        return f"{value:.{SIGNIFICANT_DIGITS}g}" if value else "0"
    if isinstance(value, Decimal):
        return str(value.normalize()) if value else "0"
    if isinstance(value, dict):
        items = sorted(
            (_comparable_text(key), _comparable_text(item)) for key, item in value.items()
        )
        return f"{{{items}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_comparable_text(item) for item in value)}]"
    return f"{type(value).__name__}:{value!r}"


_WITHOUT_BRACKETS = ("current_date", "current_timestamp", "localtimestamp")
_TIME_FUNCTIONS = (*_WITHOUT_BRACKETS, "now", "curdate", "unix_timestamp")


def with_frozen_time(sql: str, now: datetime) -> str:
    """Replace CURRENT_DATE, `now()` and similar functions in a query with a fixed instant (UTC)."""
    lowered = sql.lower()
    if not any(word in lowered for word in _TIME_FUNCTIONS):
        return sql
    values = _time_literals(now.astimezone(timezone.utc))
    tokens = list(scan(SourceText(Path("query"), sql)))
    pieces: list[str] = []
    done = 0
    for index, token in enumerate(tokens):
        word = token.text.lower()
        if token.kind != "word" or word not in _TIME_FUNCTIONS:
            continue
        before = tokens[index - 1].text.upper() if index else ""
        behind = [one.text for one in tokens[index + 1 : index + 3]]
        is_call = behind == ["(", ")"]
        is_name = before in (".", "AS", "@") or behind[:1] in (["."], ["("])
        if is_call or (word in _WITHOUT_BRACKETS and not is_name):
            if before in (".", "@"):
                continue
            pieces += [sql[done : token.start], values[word]]
            done = tokens[index + 2].end if is_call else token.end
    return "".join([*pieces, sql[done:]])


def _time_literals(now: datetime) -> dict[str, str]:
    day = f"DATE '{now.date().isoformat()}'"
    wall = now.replace(tzinfo=None).isoformat(sep=" ")
    instant = f"TIMESTAMP '{wall}+00:00'"
    return {
        "current_date": day,
        "curdate": day,
        "current_timestamp": instant,
        "now": instant,
        "localtimestamp": f"TIMESTAMP_NTZ '{wall}'",
        "unix_timestamp": f"{int(now.timestamp())}L",
    }


def table_query(table: TestTable, types: Mapping[str, str | None]) -> str:
    """Build a Spark SQL query that returns the rows of a unit test's table.

    Args:
        types: Spark SQL types of all columns of the query. Types declared in the test take
            precedence. Columns that the test does not mention are NULL.
    """
    if table.query is not None:
        return table.query
    declared = dict(table.types)
    columns = list(dict.fromkeys([*table.columns, *types]))
    rows = table.rows or ((None,) * len(table.columns),)
    selects = []
    for row in rows:
        values = dict(zip(table.columns, row, strict=True))
        selects.append(
            "SELECT "
            + ", ".join(
                f"{literal(values.get(column), declared.get(column, types.get(column)))}"
                f" AS {quote(column)}"
                for column in columns
            )
        )
    query = " UNION ALL ".join(selects)
    return query if table.rows else f"{query} WHERE FALSE"


def literal(value: Any, type_: str | None) -> str:
    """Write a YAML value as a Spark SQL expression, cast to a type if given. Times are in UTC."""
    text = _untyped_literal(value, type_)
    return f"CAST({text} AS {type_})" if type_ and not isinstance(value, Mapping) else text


def _untyped_literal(value: Any, type_: str | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, datetime):
        return f"TIMESTAMP '{utc(value).replace(tzinfo=None).isoformat(sep=' ')}+00:00'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Mapping):
        return _struct_or_map(value, type_)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"ARRAY({', '.join(_untyped_literal(item, None) for item in value)})"
    return string_literal(str(value))


def _struct_or_map(value: Mapping[Any, Any], type_: str | None) -> str:
    pairs = ", ".join(
        f"{_untyped_literal(str(k), None)}, {_untyped_literal(v, None)}" for k, v in value.items()
    )
    if type_ and type_.upper().startswith("MAP"):
        return f"CAST(MAP({pairs}) AS {type_})"
    struct = f"NAMED_STRUCT({pairs})"
    return f"CAST({struct} AS {type_})" if type_ else struct
