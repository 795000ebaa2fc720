"""A failed plan as a failure's metadata: a table of models, failing rows, the file of stacks."""

from __future__ import annotations

from typing import Any

import dagster as dg

from vde_dagster.errors import ExecutionError
from vde_dagster.orchestration.pages.markdown_table import markdown_table


def failure_metadata(error: ExecutionError) -> dict[str, Any]:
    """Return what is shown of a failed plan, model by model; nothing of other failures."""
    shown: dict[str, Any] = {}
    if error.failures:
        rows = [
            {
                "model": f"`{failure.model}`",
                "where": f"`{failure.location}`" if failure.location else "",
                "what": failure.message,
                "skipped for it": ", ".join(map(str, failure.skipped)),
            }
            for failure in error.failures
        ]
        shown["vde/failures"] = dg.MetadataValue.md(markdown_table(rows))
    audits = [
        f"**{failure.model}**: {audit.audit}, {audit.rows} rows\n\n{markdown_table(audit.sample)}"
        for failure in error.failures
        for audit in failure.audits
        if audit.sample
    ]
    if audits:
        shown["vde/failing_rows"] = dg.MetadataValue.md("\n\n".join(audits))
    if error.log is not None:
        shown["vde/log"] = dg.MetadataValue.path(str(error.log))
    return shown
