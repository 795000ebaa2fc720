"""The janitor's report, as a run's page shows it."""

from __future__ import annotations

from typing import Any

import dagster as dg

from vde_dagster.lakehouse.janitor import JanitorReport
from vde_dagster.orchestration.pages.markdown_table import markdown_table

_MOST = 200


def report_metadata(report: JanitorReport) -> dict[str, Any]:
    """Return counts, bytes, and a table of what was done with its reasons; the JSON holds all."""
    acted = report.acted
    facts: dict[str, Any] = {
        "vde/dry_run": report.dry_run,
        "vde/steps": len(acted),
        "vde/kept": len(report.decisions) - len(acted),
        "vde/failures": len(report.failures),
        "vde/bytes": report.bytes,
        "vde/decisions": dg.MetadataValue.json(report.to_json()["decisions"]),
    }
    if acted:
        rows = [
            {
                "action": decision.action.replace("_", " "),
                "subject": decision.subject,
                "reason": decision.error or decision.reason,
                "outcome": decision.outcome,
                "bytes": "" if decision.bytes is None else decision.bytes,
            }
            for decision in acted[:_MOST]
        ]
        facts["vde/report"] = dg.MetadataValue.md(markdown_table(rows))
    return facts
