from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.models import Model, TestTable, UnitTest
from vde_dagster.api.values import ModelName
from vde_dagster.plugins.dbt.manifest import Rows
from vde_dagster.plugins.dbt.manifest import UnitTest as DbtUnitTest
from vde_dagster.plugins.dbt.units import Unit

ResolveName = Callable[[Sequence[str]], ModelName]
TranslateRows = Callable[[Path, str], TestTable]
"""Translates a query that provides a test's rows to Spark SQL."""


def read_unit_tests(
    unit: Unit,
    model: Model,
    incremental: Model | None,
    file: Callable[[str, str], Path],
    resolve_name: ResolveName,
    translate_rows: TranslateRows,
) -> tuple[tuple[UnitTest, ...], tuple[str, ...]]:
    """Convert a model's unit tests, and describe the parts that are ignored.

    Args:
        incremental: The model compiled with a true `is_incremental()`, if known.
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
            made = _convert_test(test, unit, model.name, place, resolve_name, translate_rows)
            found.append(replace(made, tested=incremental) if later else made)
    return tuple(found), tuple(unread)


def _convert_test(
    test: DbtUnitTest,
    unit: Unit,
    model: ModelName,
    place: SourceLocation,
    resolve_name: ResolveName,
    translate_rows: TranslateRows,
) -> UnitTest:
    inputs = []
    for rows in test.given:
        if rows.input not in unit.given:
            raise ProjectError(
                f"the unit test '{test.name}' gives rows of {rows.input}, which does not exist",
                hint="name a model, seed, snapshot or source of the project",
                location=place,
            )
        inputs.append(
            (resolve_name(unit.given[rows.input]), _rows_table(rows, place.path, translate_rows))
        )
    return UnitTest(
        name=test.name,
        model=model,
        location=place,
        inputs=tuple(inputs),
        expected=_rows_table(test.expect, place.path, translate_rows, partial=True),
        description=test.description or None,
    )


def _rows_table(
    rows: Rows, path: Path, translate_rows: TranslateRows, *, partial: bool = False
) -> TestTable:
    """Return a unit test's rows as a table; with `partial`, tests compare only its columns."""
    if isinstance(rows.rows, str):
        return replace(translate_rows(path, rows.rows), partial=partial)
    given = rows.rows or []
    columns = tuple(dict.fromkeys(name for row in given for name in row))
    values = tuple(tuple(row.get(name) for name in columns) for row in given)
    return TestTable(columns, values, partial=partial)
