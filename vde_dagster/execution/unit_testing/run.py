"""Running one unit test: rows for the parents in, the model's rows out, compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import ExecutionError, ProjectError, shortened
from vde_dagster.execution.unit_testing.check import check_test
from vde_dagster.execution.unit_testing.compare import RowDifference, compare_rows
from vde_dagster.execution.unit_testing.frozen_time import with_frozen_time
from vde_dagster.execution.unit_testing.relations import as_query
from vde_dagster.planning.interval import Interval
from vde_dagster.project.model import Model
from vde_dagster.project.unit_values import TestTable, UnitTest

if TYPE_CHECKING:
    from vde_dagster.execution.engine import Engine
    from vde_dagster.planning.snapshot import Snapshot

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
NEVER = datetime(9999, 12, 31, tzinfo=timezone.utc)
LONGEST_SUMMARY = 300


@dataclass(frozen=True, slots=True)
class TestResult:
    """How a unit test ended.

    Args:
        test: The test.
        differences: What differs, by the query (`query`) or common table expression.
        error: Why the model could not be run at all, or None.
    """

    __test__ = False

    test: UnitTest
    differences: tuple[tuple[str, RowDifference], ...] = ()
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the model returned what was expected."""
        return not self.differences and self.error is None

    @property
    def summary(self) -> str:
        """What went wrong, in a few words."""
        if self.error is not None:
            return shortened(self.error.partition("\n")[0], LONGEST_SUMMARY)
        missing = sum(len(found.missing) for _, found in self.differences)
        unexpected = sum(len(found.unexpected) for _, found in self.differences)
        return f"rows missing: {missing}, unexpected: {unexpected}"


def run_test(test: UnitTest, snapshots: Mapping[ModelName, Snapshot], engine: Engine) -> TestResult:
    """Run a test on Spark; nothing is written.

    Args:
        test: The test.
        snapshots: The project's models.
        engine: The engine.

    Raises:
        ProjectError: See `check_test`.
    """
    snapshot = check_test(test, snapshots)
    differences: list[tuple[str, RowDifference]] = []
    try:
        for part, expected in _expectations(test):
            if part is not None and snapshot.model.python is not None:
                continue
            columns, rows = rows_of(test, snapshots, engine, part)
            differences.append((part or "query", _difference(expected, columns, rows, engine)))
    except ExecutionError as error:
        return TestResult(test, error=error.message)
    return TestResult(test, tuple((part, found) for part, found in differences if found))


def rows_of(
    test: UnitTest,
    snapshots: Mapping[ModelName, Snapshot],
    engine: Engine,
    part: str | None = None,
) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[Any, ...]]]:
    """Return the columns, with their types, and rows that a test's model makes of its inputs.

    Args:
        test: The test.
        snapshots: The project's models.
        engine: The engine.
        part: A common table expression of the query, or None for the whole.

    Raises:
        ProjectError: The query has no such expression.
        ExecutionError: Spark failed.
    """
    snapshot = snapshots[test.model]
    if test.tested is not None:
        snapshot = replace(snapshot, model=test.tested)
    sources = {
        parent: as_query(table, _types(snapshots.get(parent))) for parent, table in test.inputs
    }
    if snapshot.model.python is not None:
        return _run_python(test, snapshot, sources, engine)
    return engine.query(_query(test, snapshot.model, sources, part))


def ctes_of(test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> tuple[str, ...]:
    """Return the names of the common table expressions of a test's model, in order."""
    model = test.tested or snapshots[test.model].model
    return _ctes(model.query) if model.query else ()


def _expectations(test: UnitTest) -> list[tuple[str | None, TestTable]]:
    """List (common table expression, or None for the whole query; its expected rows)."""
    whole = [(None, test.expected)] if test.expected is not None else []
    return [*whole, *test.ctes]


def _types(snapshot: Snapshot | None) -> dict[str, str | None]:
    if snapshot is None:
        return {}
    return {column.name: column.type for column in snapshot.columns}


def _query(test: UnitTest, model: Model, sources: Mapping[ModelName, str], part: str | None) -> str:
    """Render the model's query, or one of its common table expressions, over the test's rows."""
    from vde_dagster.planning.render import replace_tables
    from vde_dagster.project.macros.time_variables import (
        substitute_time_variables,
        time_variable_values,
    )

    assert model.query is not None
    sql = replace_tables(model.query, sources.get)
    if part is not None:
        sql = _select_cte(test, sql, part)
    interval, now = _times(test)
    values = time_variable_values(interval.start, interval.end, now)
    sql = substitute_time_variables(sql, values)
    return sql if test.execution_time is None else with_frozen_time(sql, now)


def _select_cte(test: UnitTest, sql: str, name: str) -> str:
    from vde_dagster.sql.shape import with_clause

    clause = with_clause(sql)
    if clause is None or name not in _ctes(sql):
        raise ProjectError(
            f"the test '{test.name}' expects rows of '{name}', which {test.model} does not define",
            hint="name a common table expression of the query",
            location=test.location,
        )
    return f"{clause} SELECT * FROM {quote(name)}"


def _ctes(sql: str) -> tuple[str, ...]:
    from vde_dagster.sql.trees import parse_query

    with_ = parse_query(sql).args.get("with_")
    return tuple(cte.alias for cte in with_.expressions) if with_ is not None else ()


def _times(test: UnitTest) -> tuple[Interval, datetime]:
    start = test.start or EPOCH
    end = test.end or (start + timedelta(days=1) if test.start else NEVER)
    return Interval(start, end), test.execution_time or end


def _run_python(
    test: UnitTest, snapshot: Snapshot, sources: Mapping[ModelName, str], engine: Engine
) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[Any, ...]]]:
    from vde_dagster.planning.statements import only_of_session, render_statements

    interval, now = _times(test)
    statements = tuple(filter(only_of_session, snapshot.model.pre_statements))
    before = render_statements(statements, sources.get, "this_model", interval, now)
    return engine.run_python(snapshot, sources, interval, now, before)


def _difference(
    expected: TestTable,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[tuple[Any, ...]],
    engine: Engine,
) -> RowDifference:
    """Compare rows after Spark has cast the expected ones to the types that the model has."""
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
                f"CAST({quote(name)} AS {types[name.lower()]}) AS {quote(name)}" for name in names
            )
            query = expected.query.rstrip().rstrip(";")
            _, wanted = engine.query(f"SELECT {cast} FROM (\n{query}\n) AS expected")
    else:
        ordered = TestTable(
            expected.columns, expected.rows, tuple((c, types[c.lower()]) for c in expected.columns)
        )
        rest = {name: type_ for name, type_ in columns if name.lower() not in mentioned}
        query = as_query(ordered, rest if not partial else {})
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
