"""Mistakes in unit tests, found without running the tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.model import Model, TestTable, UnitTest
from vde_dagster.sql.other_dialects import SPARKS


def find_test_mistakes(
    tests: Iterable[UnitTest],
    models: Mapping[ModelName, Model],
    snapshots: Mapping[ModelName, Snapshot],
) -> Iterator[ProjectError]:
    """Yield mistakes in the unit tests of the given models, without running the tests."""
    for test in tests:
        if test.model in models:
            yield from _mistakes(test, models[test.model], snapshots)


def check_test(test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> Snapshot:
    """Check a unit test without running it, and return the tested model's snapshot.

    Raises:
        ProjectError: The model does not exist, a parent's rows are missing, or a column is unknown.
    """
    snapshot = snapshots.get(test.model)
    if snapshot is None:
        raise ProjectError(
            f"the test '{test.name}' tests the model '{test.model}', which does not exist",
            hint="correct the model's name",
            location=test.location,
        )
    mistakes = list(_mistakes(test, snapshot.model, snapshots))
    if mistakes:
        raise ProjectError.combine(mistakes)
    return snapshot


def _mistakes(
    test: UnitTest, model: Model, snapshots: Mapping[ModelName, Snapshot]
) -> Iterator[ProjectError]:
    if model.query is None and model.python is None:
        yield ProjectError(
            f"the test '{test.name}' tests {test.model}, which has neither a query nor code",
            hint="test a SQL or a Python model",
            location=test.location,
        )
        return
    given = dict(test.inputs)
    for parent in model.depends_on:
        if parent not in given:
            yield ProjectError(
                f"the test '{test.name}' has no rows for {parent}, which {test.model} reads",
                hint=f"add '{parent}:' under inputs, with 'rows: []' for no rows",
                location=test.location,
            )
    tables = [table for _, table in (*test.inputs, *test.ctes)]
    for table in (*tables, *([test.expected] if test.expected is not None else [])):
        yield from _operators(test, table, model)
    for parent, table in test.inputs:
        what = f"gives {parent} a column '{{}}', which {parent} does not have"
        yield from _unknown_columns(test, table, snapshots.get(parent), what, f"{parent} has")
    if test.expected is not None:
        what = f"expects a column '{{}}' that {test.model} does not return"
        yield from _unknown_columns(
            test, test.expected, snapshots.get(test.model), what, "the model returns"
        )


def _operators(test: UnitTest, table: TestTable, model: Model) -> Iterator[ProjectError]:
    if table.query is None or table.dialect in SPARKS:
        return
    from vde_dagster.semantics.checks.operands import Origin
    from vde_dagster.semantics.translated import find_operators

    origin = Origin(table.dialect, frozenset(table.dialect_trust), model.tool)
    for one in find_operators(table.query, {}, origin):
        yield ProjectError(
            f"a query for rows in the test '{test.name}': {one.message}",
            hint=one.hint,
            location=test.location,
        )


def _unknown_columns(
    test: UnitTest, table: TestTable, snapshot: Snapshot | None, what: str, does: str
) -> Iterator[ProjectError]:
    known = {column.name.lower() for column in snapshot.columns} if snapshot else set()
    for column in table.columns if known else ():
        if column.lower() not in known:
            yield ProjectError(
                f"the test '{test.name}' {what.format(column)}",
                hint=f"{does} {', '.join(sorted(known))}",
                location=test.location,
            )
