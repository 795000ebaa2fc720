"""dbt's unit tests as unit tests of the project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.models import Model, TestTable, UnitTest
from vde_dagster.api.values import ModelName
from vde_dagster.plugins.dbt.manifest import Rows, Unit
from vde_dagster.plugins.dbt.manifest import UnitTest as DbtUnitTest

Named = Callable[[Sequence[str]], ModelName]
Written = Callable[[Path, str], TestTable]
"""Translates a query that provides a test's rows to Spark SQL."""


def read_unit_tests(
    unit: Unit,
    model: Model,
    incremental: Model | None,
    file: Callable[[str, str], Path],
    named: Named,
    written: Written,
) -> tuple[tuple[UnitTest, ...], tuple[str, ...]]:
    """Return a model's unit tests, and descriptions of ignored parts.

    Args:
        incremental: The model as compiled when `is_incremental()` is true, if that is known.
        file: Returns the path of a package's file relative to the root.

    Raises:
        ProjectError: A test provides rows of an unknown table.
    """
    found, unread = [], []
    for test in unit.unit_tests:
        overrides = {key: value for key, value in (test.overrides or {}).items() if value}
        macros = dict(overrides.pop("macros", {}))
        later = bool(macros.pop("is_incremental", False))
        if overrides or macros:
            unread.append("unit tests that override variables or macros")
        elif later and incremental is None:
            unread.append("unit tests of is_incremental()")
        else:
            place = SourceLocation(file(test.package_name, test.original_file_path))
            made = _unit_test(test, unit, model.name, place, named, written)
            found.append(replace(made, tested=incremental) if later else made)
    return tuple(found), tuple(unread)


def _unit_test(
    test: DbtUnitTest,
    unit: Unit,
    model: ModelName,
    place: SourceLocation,
    named: Named,
    written: Written,
) -> UnitTest:
    inputs = []
    for rows in test.given:
        if rows.input not in unit.given:
            raise ProjectError(
                f"the unit test '{test.name}' gives rows of {rows.input}, which does not exist",
                hint="name a model, seed, snapshot or source of the project",
                location=place,
            )
        inputs.append((named(unit.given[rows.input]), _table(rows, place.path, written)))
    return UnitTest(
        name=test.name,
        model=model,
        location=place,
        inputs=tuple(inputs),
        expected=_table(test.expect, place.path, written, partial=True),
        description=test.description or None,
    )


def _table(rows: Rows, path: Path, written: Written, *, partial: bool = False) -> TestTable:
    """Return a unit test's rows as a table.

    Args:
        partial: Whether a test compares only the columns of these rows.
    """
    if isinstance(rows.rows, str):
        return replace(written(path, rows.rows), partial=partial)
    given = rows.rows or []
    columns = tuple(dict.fromkeys(name for row in given for name in row))
    values = tuple(tuple(row.get(name) for name in columns) for row in given)
    return TestTable(columns, values, partial=partial)
