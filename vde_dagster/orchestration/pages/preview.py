"""The newest rows of a fill, for its event's page."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.orchestration.pages.markdown_table import markdown_table
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.resolver import column_map
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

MAX_CHARACTERS = 100


def preview(
    workspace: Workspace,
    log: logging.Logger | dg.DagsterLogManager,
    snapshot: Snapshot,
    table: PhysicalTable,
    iceberg_snapshot_id: int | None,
    intervals: Sequence[Interval],
) -> dict[str, Any]:
    """Return the metadata that shows some rows; nothing when they cannot be read.

    A commit waits on its branch until the publication: it is read by its id, wherever it is.

    Args:
        workspace: The project; its settings say how many rows.
        log: The run's log.
        snapshot: Names the columns.
        table: The table.
        iceberg_snapshot_id: The commit of the fill, if there was one.
        intervals: The newest partition, and the whole range that was filled.
    """
    limit = workspace.settings.dagster.preview_rows
    if limit <= 0 or iceberg_snapshot_id is None:
        return {}
    from vde_dagster.lakehouse.preview import some_rows

    try:
        columns = column_map(snapshot, table)
        apart = snapshot.model.kind.interval_column
        named = {name.lower(): physical for name, physical in columns}
        time_column = named[apart.name.lower()] if apart is not None else None
        rows = some_rows(
            workspace.lakehouse,
            table,
            iceberg_snapshot_id,
            columns,
            time_column=time_column,
            intervals=intervals,
            limit=limit,
        )
    except Exception as error:
        # What is shown beside the data must never stop the work on the data.
        log.warning(f"{snapshot.name}: no rows to show: {type(error).__name__}: {error}")
        return {}
    if not rows:
        return {}
    shown = [{name: _cell(value) for name, value in row.items()} for row in rows]
    return {"vde/preview": dg.MetadataValue.md(markdown_table(shown))}


def _cell(value: object) -> str | None:
    if value is None:
        return None
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"
