"""Newest rows of a fill, for its event's page."""

from __future__ import annotations

import logging
import time
from typing import Any

import dagster as dg

from vde_dagster.base.names import quote
from vde_dagster.errors import shortened
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.environments.resolver import column_map
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.markdown import markdown_table

MAX_CHARACTERS = 100
VIEW_SECONDS = 20.0
"""Time after which no further view of a publication is read."""


def preview(
    workspace: Workspace,
    log: logging.Logger | dg.DagsterLogManager,
    snapshot: Snapshot,
    table: PhysicalTable,
    iceberg_snapshot_id: int | None,
    interval: Interval,
) -> dict[str, Any]:
    """Return sample rows of a fill as metadata; empty if they cannot be read.

    Args:
        iceberg_snapshot_id: Commit of the fill on any branch, if there was a commit.
        interval: Range of the rows, for a model with a time column.
    """
    limit = workspace.settings.dagster.preview_rows
    if limit <= 0 or iceberg_snapshot_id is None:
        return {}
    from vde_dagster.lakehouse.commit_rows import some_rows

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
            intervals=[interval],
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


class ViewPreviews:
    """Reads sample rows of newly published views, as metadata of their events."""

    def __init__(self, workspace: Workspace, log: logging.Logger | dg.DagsterLogManager) -> None:
        self._workspace = workspace
        self._log = log
        self._limit = workspace.settings.dagster.preview_rows
        self._until: float | None = None

    def sample_rows(self, environment: str, snapshot: Snapshot) -> dict[str, Any]:
        """Return rows of an environment's view, or the reason why there are none."""
        if self._limit <= 0:
            return {}
        # A preview must neither start Spark nor delay the publication for long.
        if self._workspace.started_engine is None:
            return _none("Spark was not running for this publication")
        if self._until is None:
            self._until = time.monotonic() + VIEW_SECONDS
        if time.monotonic() > self._until:
            return _none(f"the time limit of {VIEW_SECONDS:.0f} seconds was used up by other views")
        name = f"{quote(snapshot.name.namespace)}.{quote(snapshot.name.name)}"
        try:
            result = self._workspace.query(environment, f"SELECT * FROM {name}", self._limit)
        except Exception as error:
            # What is shown beside the data must never stop the work on the data.
            self._log.warning(f"{snapshot.name}: no rows to show: {type(error).__name__}: {error}")
            return {}
        names = [column for column, _ in result.columns]
        shown = [dict(zip(names, map(_cell, row), strict=True)) for row in result.rows]
        return {"vde/preview": dg.MetadataValue.md(markdown_table(shown))} if shown else {}


def _none(why: str) -> dict[str, Any]:
    return {"vde/preview": dg.MetadataValue.md(f"No rows are shown: {why}.")}


def _cell(value: object) -> str | None:
    if value is None:
        return None
    return shortened(" ".join(str(value).split()), MAX_CHARACTERS)
