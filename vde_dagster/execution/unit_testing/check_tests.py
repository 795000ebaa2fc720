"""Selecting unit tests, and the mistakes in them that show without running them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.model import Model, UnitTest
from vde_dagster.project.selection import Changed, select

if TYPE_CHECKING:
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.project.model import TestTable


def mistakes_in_tests(
    tests: Iterable[UnitTest],
    models: Mapping[ModelName, Model],
    snapshots: Mapping[ModelName, Snapshot],
) -> Iterator[ProjectError]:
    """Yield the mistakes in tests, as far as their models and inputs are known.

    Args:
        tests: Tests of these models; others are left out.
        snapshots: Those of them that could be understood.
    """
    for test in tests:
        if test.model in models:
            yield from _mistakes(test, models[test.model], snapshots)


def check_test(test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> Snapshot:
    """Check what can be checked without running the test.

    Returns:
        The tested model's snapshot.

    Raises:
        ProjectError: There is no such model, a parent has no rows, or a column is unknown.
    """
    snapshot = snapshots.get(test.model)
    if snapshot is None:
        raise ProjectError(
            f"the test '{test.name}' is of the model '{test.model}', which does not exist",
            hint="correct the model's name",
            location=test.location,
        )
    mistakes = list(_mistakes(test, snapshot.model, snapshots))
    if mistakes:
        raise ProjectError.of(mistakes)
    return snapshot


def _mistakes(
    test: UnitTest, model: Model, snapshots: Mapping[ModelName, Snapshot]
) -> Iterator[ProjectError]:
    if model.query is None and model.python is None:
        yield ProjectError(
            f"the test '{test.name}' is of {test.model}, which has neither a query nor code",
            hint="test a SQL or a Python model",
            location=test.location,
        )
        return
    given = dict(test.inputs)
    for parent in model.depends_on:
        if parent not in given:
            yield ProjectError(
                f"the test '{test.name}' gives no rows for {parent}, which {test.model} reads",
                hint=f"add '{parent}:' under inputs; 'rows: []' gives none",
                location=test.location,
            )
    for parent, table in test.inputs:
        yield from _unknown_columns(test, parent, table, snapshots.get(parent))
    if test.expected is not None:
        yield from _unreturned_columns(test, test.expected, snapshots.get(test.model))


def _unknown_columns(
    test: UnitTest, parent: ModelName, table: TestTable, snapshot: Snapshot | None
) -> Iterator[ProjectError]:
    known = _columns(snapshot)
    for column in table.columns if known else ():
        if column.lower() not in known:
            yield ProjectError(
                f"the test '{test.name}' gives {parent} a column '{column}' that it does not have",
                hint=f"it has {', '.join(sorted(known))}",
                location=test.location,
            )


def _unreturned_columns(
    test: UnitTest, expected: TestTable, snapshot: Snapshot | None
) -> Iterator[ProjectError]:
    known = _columns(snapshot)
    for column in expected.columns if known else ():
        if column.lower() not in known:
            yield ProjectError(
                f"the test '{test.name}' expects a column '{column}' that {test.model} does not "
                "return",
                hint=f"it returns {', '.join(sorted(known))}",
                location=test.location,
            )


def _columns(snapshot: Snapshot | None) -> set[str]:
    """Return the columns of a model in lower case; none where they are not known."""
    return {column.name.lower() for column in snapshot.columns} if snapshot else set()


def select_tests(
    tests: Sequence[UnitTest],
    models: Mapping[ModelName, Model],
    patterns: Sequence[str],
    changed: Changed | None = None,
) -> list[UnitTest]:
    """Return the tests that patterns name, in order; all where there are none.

    Args:
        patterns: Names of tests, and patterns of models, see `project.selection`.
        changed: Returns which files differ from a branch.

    Raises:
        UsageError: A pattern is no test's name and selects no model.
    """
    if not patterns:
        return list(tests)
    named = {test.name.lower() for test in tests} & {text.lower() for text in patterns}
    others = [text for text in patterns if text.lower() not in named]
    chosen = select(models, others, changed) if others else set()
    return [test for test in tests if test.name.lower() in named or test.model in chosen]
