"""Unit tests of models as asset checks: their names, what they say, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from vde_dagster.base.hashing import digest
from vde_dagster.execution.events import UnitTestFinished
from vde_dagster.execution.unit_testing.compare import RowDifference
from vde_dagster.orchestration.models.catalog import AssetCatalog, check_names
from vde_dagster.orchestration.models.translator import safe_name
from vde_dagster.orchestration.pages.markdown_table import markdown_table
from vde_dagster.project.model import Model
from vde_dagster.project.unit_values import UnitTest

MAX_ROWS = 20
"""Of the missing and of the unexpected rows: what goes beyond is counted and not shown."""


def unit_test_checks(
    model: Model, tests: Sequence[UnitTest], asset: dg.AssetKey
) -> Iterator[dg.AssetCheckSpec]:
    """Yield the check of each unit test of a model.

    Args:
        model: The model.
        tests: Its unit tests.
        asset: Its asset.
    """
    names = unit_test_names(model, tests)
    for test in tests:
        said = f": {test.description}" if test.description else ""
        yield dg.AssetCheckSpec(
            names[_place(test)],
            asset=asset,
            description=f"Unit test `{test.name}`{said}. It runs with a plan that changes the "
            "model; when it fails nothing is computed or published.",
        )


def unit_test_names(model: Model, tests: Sequence[UnitTest]) -> dict[tuple[str, str], str]:
    """Return the check's name of each unit test of a model, by its name and file.

    Names begin with `test_`; no two are equal, and none is that of an audit.
    """
    taken = set(check_names(model.audits).values())
    names: dict[tuple[str, str], str] = {}
    for test in tests:
        name = safe_name(test.name)[:80]
        name = name if name.startswith("test_") else f"test_{name}"
        if name in taken:
            name = f"{name}_{digest(*_place(test))[:6]}"
        taken.add(name)
        names[_place(test)] = name
    return names


def unit_test_event(catalog: AssetCatalog, event: UnitTestFinished) -> dg.AssetCheckEvaluation:
    """Return the evaluation of a unit test, with the rows that differ."""
    snapshot, result = event.snapshot, event.result
    test = result.test
    known = catalog.live.tests.get(snapshot.name, ())
    # The code location may have been loaded before the test was written.
    tests = known if _place(test) in map(_place, known) else (*known, test)
    metadata: dict[str, Any] = {
        "vde/test": test.name,
        "vde/file": f"{test.location}",
        "vde/missing_rows": sum(len(found.missing) for _, found in result.differences),
        "vde/unexpected_rows": sum(len(found.unexpected) for _, found in result.differences),
    }
    if event.remembered:
        metadata["vde/remembered"] = "passed before; neither it nor the model changed since"
    if result.error is not None:
        metadata["vde/error"] = result.error
    for part, found in result.differences:
        what = "rows" if part == "query" else f"rows_of_{safe_name(part)}"
        metadata[f"vde/{what}"] = dg.MetadataValue.md(_difference(found))
    return dg.AssetCheckEvaluation(
        asset_key=catalog.key(snapshot.name),
        check_name=unit_test_names(snapshot.model, tests)[_place(test)],
        passed=result.passed,
        metadata=metadata,
        severity=dg.AssetCheckSeverity.ERROR,
        description=None if result.passed else result.summary,
    )


def _difference(found: RowDifference) -> str:
    """Write both kinds of rows under one header; a first column says which is which."""
    rows = [
        {"": word, **dict(zip(found.columns, row, strict=True))}
        for word, some in (("expected", found.missing), ("returned", found.unexpected))
        for row in some[:MAX_ROWS]
    ]
    left = sum(max(0, len(some) - MAX_ROWS) for some in (found.missing, found.unexpected))
    return markdown_table(rows) + (f"\n\nand {left:,} more rows" if left else "")


def _place(test: UnitTest) -> tuple[str, str]:
    return test.name, test.location.path.as_posix()
