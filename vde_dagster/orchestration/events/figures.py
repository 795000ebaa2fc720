"""The partitions that a fill filled, each with figures of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.orchestration.events.projection import Filled
from vde_dagster.orchestration.models.partitions import touched_keys
from vde_dagster.planning.contents import Skipped
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.resolver import column_map
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.time_column import TimeColumn
from vde_dagster.planning.work import FillResult

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

Log = logging.Logger | dg.DagsterLogManager


def filled_by(
    workspace: Workspace,
    log: Log,
    snapshot: Snapshot,
    table: PhysicalTable,
    partitions: dg.PartitionsDefinition | None,
    interval: Interval,
    result: FillResult,
    holds: Callable[[], IntervalSet],
) -> list[Filled]:
    """Return the partitions that a fill filled or completed, with the rows and bytes of each.

    A fill of one partition has its commit's figures. Those of one that filled several are counted
    from the commit's files, without an engine; what cannot be told apart is left out.

    Args:
        workspace: The project.
        log: Takes why nothing could be counted.
        snapshot: The model.
        table: Its table.
        partitions: The model's partitions.
        interval: What was filled (UTC).
        result: The fill.
        holds: Returns what the table holds with the fill.
    """
    commit = result.iceberg_snapshot_id
    found = [
        Filled(partition, covered, commit, None)
        for partition, covered in touched_keys(partitions, table.version, interval, holds)
    ]
    if len(found) == 1 and (found[0].interval == interval or not snapshot.is_incremental):
        return [replace(found[0], rows=result.rows, bytes=result.bytes)]
    column = _time_column(snapshot, table)
    if not found or commit is None or column is None:
        return found
    from vde_dagster.lakehouse.interval_figures import interval_figures

    # Of a partition that several fills filled, the commit has a part of the rows only.
    own = [
        f for f in found if interval.start <= f.interval.start and f.interval.end <= interval.end
    ]
    ranges = [filled.interval for filled in own]
    try:
        figures = interval_figures(workspace.lakehouse, table.ref, commit, column, ranges)
    except Exception as error:
        # What is shown beside the data must never stop the work on the data.
        log.warning(f"{snapshot.name}: rows were not counted: {type(error).__name__}: {error}")
        return found
    if figures is None:
        return found
    counted = {
        filled.partition: replace(filled, rows=known.rows, bytes=known.bytes)
        for filled, known in zip(own, figures, strict=True)
    }
    return [counted.get(filled.partition, filled) for filled in found]


def fill_facts(
    snapshot: Snapshot,
    interval: Interval,
    result: FillResult,
    found: Sequence[Filled],
    filled: Filled,
) -> dict[str, Any]:
    """Return what is to be said of the fill itself on one partition's event.

    Its own figures stand at its newest partition alone, so that a sum over partitions is true.

    Args:
        snapshot: The model.
        interval: What was filled (UTC).
        result: The fill.
        found: The partitions that it filled, in order of time.
        filled: The one of them that the event is about.
    """
    count = snapshot.cadence.unit.count(interval) if snapshot.is_incremental else 1
    facts: dict[str, Any] = {"vde/fill_intervals": count}
    if filled != found[-1]:
        return facts
    if result.seconds is not None:
        facts["vde/fill_seconds"] = result.seconds
    if len(found) > 1:
        if result.rows is not None:
            facts["vde/fill_rows"] = result.rows
        if result.bytes is not None:
            facts["vde/fill_bytes"] = result.bytes
    return facts


def skipped_facts(skipped: Skipped) -> dict[str, Any]:
    """Return what is to be said of a slot that was skipped: why, and what that saved."""
    facts: dict[str, Any] = {"vde/skipped": skipped.why}
    if skipped.seconds is not None:
        facts["vde/saved_seconds"] = skipped.seconds
    if skipped.bytes is not None:
        facts["vde/saved_bytes"] = skipped.bytes
    return facts


def _time_column(snapshot: Snapshot, table: PhysicalTable) -> TimeColumn | None:
    apart = snapshot.model.kind.interval_column
    if apart is None:
        return None
    named = {name.lower(): physical for name, physical in column_map(snapshot, table)}
    physical = named[apart.name.lower()]
    type_ = next(column.type for column in table.columns if column.name == physical)
    if type_ is None:
        return None
    return TimeColumn(physical, type_, apart.format, snapshot.model.allow_partials)
