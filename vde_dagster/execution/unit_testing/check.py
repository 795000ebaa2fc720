"""What can be said of unit tests without running them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError

if TYPE_CHECKING:
    from vde_dagster.planning.snapshot import Snapshot
    from vde_dagster.project.unit_values import TestTable, UnitTest


def check_tests(tests: Iterable[UnitTest], snapshots: Mapping[ModelName, Snapshot]) -> None:
    """Check all tests of a project.

    Raises:
        ProjectError: See `check_test`; has the mistakes of all.
    """
    mistakes: list[ProjectError] = []
    for test in tests:
        try:
            check_test(test, snapshots)
        except ProjectError as error:
            mistakes.append(error)
    if mistakes:
        raise ProjectError.of(mistakes)


def check_test(test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> Snapshot:
    """Check what can be checked without running the test.

    Args:
        test: The test.
        snapshots: The project's models.

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
    if snapshot.model.query is None and snapshot.model.python is None:
        raise ProjectError(
            f"the test '{test.name}' is of {test.model}, which has neither a query nor code",
            hint="test a SQL or a Python model",
            location=test.location,
        )
    given = dict(test.inputs)
    for parent in snapshot.model.depends_on:
        if parent not in given:
            raise ProjectError(
                f"the test '{test.name}' gives no rows for {parent}, which {test.model} reads",
                hint=f"add '{parent}:' under inputs; 'rows: []' gives none",
                location=test.location,
            )
    for parent, table in test.inputs:
        _check_columns(test, parent, table, snapshots.get(parent))
    return snapshot


def _check_columns(
    test: UnitTest, parent: ModelName, table: TestTable, snapshot: Snapshot | None
) -> None:
    if snapshot is None or not snapshot.columns:
        return
    known = {column.name.lower() for column in snapshot.columns}
    for column in table.columns:
        if column.lower() not in known:
            raise ProjectError(
                f"the test '{test.name}' gives {parent} a column '{column}' that it does not have",
                hint=f"it has {', '.join(sorted(known))}",
                location=test.location,
            )
