"""The results of unit tests, as JSON and for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.cli.output import simple_table
from vde_dagster.cli.plan_view import count
from vde_dagster.cli.values import json_value, text_value
from vde_dagster.execution.unit_testing.compare import RowDifference
from vde_dagster.execution.unit_testing.run import TestResult

if TYPE_CHECKING:
    from rich.console import Console


def results_json(results: Sequence[TestResult]) -> dict[str, Any]:
    """Return the documented JSON form."""
    return {
        "passed": sum(result.passed for result in results),
        "failed": sum(not result.passed for result in results),
        "tests": [
            {
                "name": result.test.name,
                "model": str(result.test.model),
                "file": result.test.location.path.as_posix(),
                "line": result.test.location.line,
                "passed": result.passed,
                "error": result.error,
                "differences": [
                    {"part": part, **_difference_json(found)} for part, found in result.differences
                ],
            }
            for result in results
        ],
    }


def show_results(console: Console, results: Sequence[TestResult]) -> None:
    """Print each test's end, and for failed ones the rows that differ."""
    from rich.markup import escape

    for result in results:
        mark = "[green]passed[/]" if result.passed else "[red]failed[/]"
        console.print(f"{mark} {result.test.model} {result.test.name}")
        if result.error:
            console.print(f"  {escape(result.error)}")
        for part, found in result.differences:
            console.print(f"  rows of {part} that were expected and are not there, or the reverse:")
            console.print(_table(found))
    failed = sum(not result.passed for result in results)
    console.print(f"{count(len(results), 'test')}, {failed} failed")


def _difference_json(found: RowDifference) -> dict[str, Any]:
    return {
        "columns": list(found.columns),
        "missing": [[json_value(value) for value in row] for row in found.missing],
        "unexpected": [[json_value(value) for value in row] for row in found.unexpected],
    }


def _table(found: RowDifference) -> Any:
    rows = [("expected", *map(text_value, row)) for row in found.missing]
    rows += [("returned", *map(text_value, row)) for row in found.unexpected]
    return simple_table(("", *found.columns), rows)
