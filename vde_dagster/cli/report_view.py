"""Terminal and JSON output of differences, and of results of audits, tests and the linter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.base.failures import SHOWN_ROWS
from vde_dagster.base.json_values import json_value, text_value
from vde_dagster.base.texts import count
from vde_dagster.planning.plan.plan import Change
from vde_dagster.reports.document import diff_lines, format_range
from vde_dagster.reports.plan import definition_text
from vde_dagster.terminal.reports import color_diff
from vde_dagster.terminal.tables import simple_table

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.environments.audit_environment import AuditReport
    from vde_dagster.execution.environments.compare import DataDifference, Difference
    from vde_dagster.execution.linting.linter import Finding
    from vde_dagster.execution.project_files.fixing import FixResult
    from vde_dagster.execution.unit_testing.run_test import TestResult


def diff_json(environment: str, diffs: Sequence[Difference]) -> dict[str, Any]:
    return {
        "environment": environment,
        "models": [
            {
                "name": str(diff.name),
                "change": diff.change.value,
                "category": diff.category.value if diff.category else None,
                "diff": _lines(diff),
                "columns": diff.columns,
            }
            for diff in diffs
        ],
    }


def show_diffs(
    console: Console, environment: str, diffs: Sequence[Difference], *, same: str = ""
) -> None:
    """Print differences, or `same` if there are none."""
    if not diffs:
        console.print(same or f"the project equals [bold]{environment}[/]")
    for diff in diffs:
        change, category = diff.change.value, diff.category.value if diff.category else None
        category = f", {category}" if category not in (None, change) else ""
        console.print(f"[bold]{diff.name}[/]  {change}{category}")
        for what, names in diff.columns.items():
            if names and diff.change not in (Change.ADDED, Change.REMOVED):
                console.print(f"  columns {what}: {', '.join(names)}", markup=False)
        if diff.change is not Change.ADDED and (lines := _lines(diff)):
            console.print(color_diff(lines))


def _lines(diff: Difference) -> list[str]:
    """Return a unified diff of a model's file; empty if only the model's parents changed."""
    texts = (definition_text(snapshot) if snapshot else "" for snapshot in (diff.old, diff.new))
    return diff_lines(*texts)


def show_data(console: Console, data: Iterable[DataDifference]) -> None:
    """Print the models whose tables differ between two versions."""
    for one in data:
        after = "? rows" if one.after is None else count(one.after, "row")
        rows = f"{after}, {'?' if one.before is None else f'{one.before:,}'} before"
        if one.added is not None:
            rows += f": {one.added} added, {one.removed} removed"
        table = "" if one.same_table else ", in another table"
        console.print(f"[bold]{one.name}[/]  data: {rows}{table}")


def audits_json(report: AuditReport) -> dict[str, Any]:
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
    rows = [
        (
            "failed" if found.result.failed_rows else "passed",
            found.model,
            found.audit.label,
            "blocks" if found.audit.blocking else "warns",
            format_range(found.interval),
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
            cells = [list(map(text_value, row.values())) for row in sample]
            console.print(simple_table(list(sample[0]), cells))
    for name in report.unbuilt:
        console.print(f"{name} has no rows yet", markup=False)
    where = f"{report.run.environment} (version {report.run.version})"
    console.print(f"{where}: {count(len(report.results), 'audit')}, {len(report.failed)} failed")


def results_json(results: Sequence[TestResult]) -> dict[str, Any]:
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
    from rich.markup import escape

    for result in results:
        mark = "[green]passed[/]" if result.passed else "[red]failed[/]"
        console.print(f"{mark} {result.test.model} {escape(result.test.name)}")
        if result.error:
            console.print(f"  {escape(result.error)}")
        for part, found in result.differences:
            console.print(f"  missing or unexpected rows of {part}:")
            rows = [("expected", *map(text_value, row)) for row in found.missing]
            rows += [("returned", *map(text_value, row)) for row in found.unexpected]
            console.print(simple_table(("", *found.columns), rows))
    failed = sum(not result.passed for result in results)
    console.print(f"{count(len(results), 'test')}, {failed} failed")


def lint_json(
    findings: Sequence[Finding], models: int, mended: FixResult | None = None
) -> dict[str, Any]:
    errors = sum(finding.certain for finding in findings)
    parts = {} if mended is None else {"fixed": mended.done, "not_fixed": mended.left}
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
        **{
            part: [
                {"file": place.path.as_posix(), "line": place.line, "fix": fix.title}
                for place, fix in fixes
            ]
            for part, fixes in parts.items()
        },
    }


def show_lint(console: Console, findings: Sequence[Finding], models: int, *, idle: bool) -> None:
    if idle and not findings:
        console.print(
            "no rules are enabled: set `rules`, `warn_rules` or `enabled` in "
            "\\[tool.vde.linter], or try all rules: vde lint --rule all"
        )
        return
    from rich.markup import escape

    for finding in findings:
        word = "[red]error[/]" if finding.certain else "[yellow]warning[/]"
        violation = finding.violation
        console.print(f"{escape(str(violation.location))}: {word}: ", end="")
        console.print(f"{violation.message} (rule {finding.rule})", markup=False)
    errors = sum(finding.certain for finding in findings)
    warnings = len(findings) - errors
    summary = (
        f"{count(errors, 'error')}, {count(warnings, 'warning')}" if findings else "no findings"
    )
    console.print(f"{count(models, 'model')}: {summary}")
