"""What the linter found, as JSON and for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.cli.plan_view import count

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.linting.lint import Finding


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
