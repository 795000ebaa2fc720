"""Page of a cleanup: dropped and kept objects with their reasons, and figures for plots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dagster as dg

from vde_dagster.base.texts import size
from vde_dagster.lakehouse.maintenance.janitor import JanitorReport
from vde_dagster.lakehouse.maintenance.sweep import Decision
from vde_dagster.orchestration.names import Names
from vde_dagster.reports.markdown import MAX_ROWS, literal, more_rows, plain_table, short_name

_COLUMNS = ("outcome", "subject", "reason", "size")


def janitor_metadata(report: JanitorReport) -> dict[str, Any]:
    """Return the figures and tables of a cleanup, failures and the largest objects first."""
    acted = sorted(report.acted, key=lambda one: (one.outcome != "failed", -(one.bytes or 0)))
    kept = sorted(
        (one for one in report.decisions if one.outcome == "kept"),
        key=lambda one: -(one.bytes or 0),
    )
    metadata: dict[str, Any] = {
        "vde/bytes": report.bytes,
        "vde/steps": len(acted),
        "vde/kept": len(kept),
        "vde/failures": len(report.failures),
        "vde/dry_run": report.dry_run,
    }
    for name, decisions in (("vde/report", acted), ("vde/kept_objects", kept)):
        if decisions:
            metadata[name] = dg.MetadataValue.md(_table(decisions))
    metadata["vde/decisions"] = dg.MetadataValue.json(report.to_json()["decisions"])
    return metadata


def janitor_event(
    metadata: dict[str, Any], names: Names, *, dry_run: bool
) -> dg.AssetMaterialization | dg.AssetObservation:
    """Return the event of `vde/janitor`, an observation for a dry run."""
    # Plots leave observations out.
    kind = dg.AssetObservation if dry_run else dg.AssetMaterialization
    return kind(asset_key=names.janitor_key, metadata=metadata)


def _table(decisions: Iterable[Decision]) -> str:
    rows = [
        (
            f"**{one.outcome}**" if one.outcome == "failed" else _outcome(one),
            f"`{short_name(one.subject)}`",
            literal(one.error or one.reason),
            size(one.bytes) or "",
        )
        for one in decisions
    ]
    table = plain_table(_COLUMNS, rows[:MAX_ROWS], narrow=True)
    return "\n".join([table, *more_rows(len(rows))])


def _outcome(decision: Decision) -> str:
    action = decision.action.replace("_", " ")
    return {"done": action, "planned": f"would {action}"}.get(decision.outcome, decision.outcome)
