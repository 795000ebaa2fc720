"""What Dagster misses of a table, as events with the figures of the fills that wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.orchestration.events.figures import Log, fill_facts, filled_by, skipped_facts
from vde_dagster.orchestration.events.latest import latest_tags, moved_inputs
from vde_dagster.orchestration.events.projection import (
    Combination,
    Filled,
    filled_event,
    filled_partitions,
)
from vde_dagster.orchestration.events.provenance import data_version, newest_record
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.models.live import LiveVersion
from vde_dagster.orchestration.names import PLAN_TAG
from vde_dagster.orchestration.pages.preview import preview
from vde_dagster.planning.contents_codec import load_skipped
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.work import FillResult

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


def missing_events(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    catalog: AssetCatalog,
    log: Log,
    version: LiveVersion,
    combination: Combination,
    known: Mapping[str, str | None],
    busy: Set[str],
) -> Iterator[dg.AssetMaterialization]:
    """Yield the events of the partitions of a version that Dagster does not show as they are.

    Args:
        workspace: The project.
        instance: The Dagster instance.
        catalog: The code location's models.
        log: Takes what could not be shown.
        version: The version, which has a table.
        combination: What it is combined with.
        known: The data version that Dagster has, by partition.
        busy: Plans whose runs write their events themselves.
    """
    table, snapshot = version.table, version.snapshot
    assert table is not None
    partitions = catalog.partitions_of(snapshot)
    held = filled_partitions(workspace.store, table, version.key, partitions)
    missing = {
        item.partition: item
        for item in held
        if known.get(item.partition) != data_version(version.key, item.iceberg_snapshot_id)
    }
    inputs = combination.inputs(instance, catalog, snapshot, newest_record(instance))
    if held and not missing:
        latest = latest_tags(instance, catalog, snapshot, held[-1].partition)
        if latest is not None and moved_inputs(catalog, combination, snapshot, inputs, latest):
            missing = {item.partition: item for item in held}
    if not missing:
        return
    found: dict[str, tuple[Filled, dict[str, Any], dict[str, str]]] = {}
    for row in workspace.store.fills.log(table.id):
        interval = Interval(row.start_at, row.end_at)
        result = FillResult(row.row_count, row.iceberg_snapshot_id, row.seconds, row.byte_count)
        own = {
            key: item
            for key, item in missing.items()
            if key not in found and item.iceberg_snapshot_id == result.iceberg_snapshot_id
        }
        if not own:
            continue
        if row.plan_id in busy:
            for key in own:
                del missing[key]
            continue
        counted = filled_by(
            workspace, log, snapshot, table, partitions, interval, result, lambda: table.intervals
        )
        skipped = load_skipped(row.skipped)
        for item in counted:
            if item.partition not in own:
                continue
            facts = fill_facts(snapshot, interval, result, counted, item)
            if skipped is not None:
                facts |= skipped_facts(skipped)
            facts["vde/plan"] = row.plan_id
            found[item.partition] = (item, facts, {PLAN_TAG: row.plan_id})
    newest = held[-1]
    for key, item in missing.items():
        filled, facts, tags = found.get(key, (replace(item), {}, {}))
        facts = {**facts, "vde/table": str(table.ref), "vde/synced": True}
        if version.environments:
            facts["vde/environments"] = ", ".join(version.environments)
        if item == newest:
            commit = item.iceberg_snapshot_id
            facts |= preview(workspace, log, snapshot, table, commit, [item.interval])
        yield filled_event(
            catalog, snapshot, version.key, filled, inputs, metadata=facts, tags=tags
        )
