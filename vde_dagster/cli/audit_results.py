"""What audits of an environment found, as JSON and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vde_dagster.cli.output import simple_table
from vde_dagster.cli.plan_view import count
from vde_dagster.execution.audit_environment import AuditReport

if TYPE_CHECKING:
    from rich.console import Console

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
