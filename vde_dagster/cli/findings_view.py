"""Findings of audits, unit tests and the linter, as JSON and for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.base.texts import count
from vde_dagster.cli.output import simple_table
from vde_dagster.cli.shapes import json_value, text_value

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.environments.audit_environment import AuditReport
    from vde_dagster.execution.linting.linter import Finding
    from vde_dagster.execution.unit_testing.run_test import TestResult


SHOWN_ROWS = 5


def audits_json(report: AuditReport) -> dict[str, Any]:
    """Return the documented JSON form."""
    return {
        "id": report.run.id,
        "environment": report.run.environment,
        "version": report.run.version,
        "passed": len(report.results) - len(report.failed),
        "failed": len(report.failed),
        "blocked": report.is_blocked,
        "audits": [
            {
                "model": str(found.model),
                "audit": found.audit.label,
                "blocking": found.audit.blocking,
                **found.interval.to_json(),
                "failed_rows": found.result.failed_rows,
                "sample": list(found.result.sample),
                "seconds": found.result.seconds,
            }
            for found in report.results
        ],
        "unbuilt": [str(name) for name in report.unbuilt],
    }


def show_audits(console: Console, report: AuditReport) -> None:
    """Print a line an audit and range, and some of the rows that fail."""
    rows = [
        (
            "failed" if found.result.failed_rows else "passed",
            found.model,
            found.audit.label,
            "blocks" if found.audit.blocking else "warns",
            found.interval,
            f"{found.result.failed_rows:,}",
        )
        for found in report.results
    ]
    if rows:
        headers = ("", "model", "audit", "", "range (UTC)", "failed rows")
        console.print(simple_table(headers, rows))
    for found in report.failed:
        sample = found.result.sample[:SHOWN_ROWS]
        if sample:
            console.print(f"\n{found.model} {found.audit.label}:", markup=False)
            columns = list(sample[0])
            console.print(
                simple_table(
                    columns,
                    [["NULL" if row[c] is None else row[c] for c in columns] for row in sample],
                )
            )
    for name in report.unbuilt:
        console.print(f"{name} holds no rows yet", markup=False)
    where = f"{report.run.environment} (version {report.run.version})"
    console.print(f"{where}: {count(len(report.results), 'audit')}, {len(report.failed)} failed")


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
                    {
                        "part": part,
                        "columns": list(found.columns),
                        "missing": [list(map(json_value, row)) for row in found.missing],
                        "unexpected": [list(map(json_value, row)) for row in found.unexpected],
                    }
                    for part, found in result.differences
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
            rows = [("expected", *map(text_value, row)) for row in found.missing]
            rows += [("returned", *map(text_value, row)) for row in found.unexpected]
            console.print(simple_table(("", *found.columns), rows))
    failed = sum(not result.passed for result in results)
    console.print(f"{count(len(results), 'test')}, {failed} failed")


def lint_json(findings: Sequence[Finding], models: int) -> dict[str, Any]:
    """Return the documented JSON form."""
    errors = sum(finding.certain for finding in findings)
    return {
        "models": models,
        "errors": errors,
        "warnings": len(findings) - errors,
        "findings": [
            {
                "model": str(finding.model),
                "rule": finding.rule,
                "severity": "error" if finding.certain else "warning",
                "message": finding.violation.message,
                "file": finding.violation.location.path.as_posix(),
                "line": finding.violation.location.line,
                "column": finding.violation.location.column,
            }
            for finding in findings
        ],
    }


def show_lint(console: Console, findings: Sequence[Finding], models: int, *, idle: bool) -> None:
    """Print a line a finding, and how many there are."""
    if idle:
        console.print(
            "no rules are looked at: name them under \\[tool.vde.linter] (rules, warn_rules), or "
            "try them all with: vde lint --rule all"
        )
        return
    for finding in findings:
        word = "[red]error[/]" if finding.certain else "[yellow]warning[/]"
        violation = finding.violation
        console.print(f"{violation.location}: {word}: ", end="")
        console.print(f"{violation.message} (rule {finding.rule})", markup=False)
    errors = sum(finding.certain for finding in findings)
    warnings = len(findings) - errors
    said = f"{count(errors, 'error')}, {count(warnings, 'warning')}" if findings else "no findings"
    console.print(f"{count(models, 'model')}: {said}")
