"""What Dagster's latest event of a partition says of the model's inputs, beside what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

from vde_dagster.orchestration.events.projection import Combination
from vde_dagster.orchestration.events.provenance import INPUT_DATA_VERSION, Input
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.planning.snapshot import Snapshot


def latest_tags(
    instance: dg.DagsterInstance, catalog: AssetCatalog, snapshot: Snapshot, partition: str
) -> Mapping[str, str] | None:
    """Return the tags of the latest event of a partition, or None when there is none.

    Args:
        instance: The Dagster instance.
        catalog: Asset keys.
        snapshot: The model.
        partition: The partition's key.
    """
    wanted = dg.AssetRecordsFilter(catalog.key(snapshot.name), asset_partitions=[partition])
    for record in instance.fetch_materializations(wanted, limit=1).records:
        return record.event_log_entry.tags or {}
    return None


def moved_inputs(
    catalog: AssetCatalog,
    combination: Combination,
    snapshot: Snapshot,
    inputs: Sequence[Input],
    latest: Mapping[str, str],
) -> bool:
    """Say whether a version now reads other tables than its event says, or other versions.

    Args:
        catalog: Asset keys.
        combination: What the version is combined with now.
        snapshot: The version's definition.
        inputs: Its inputs now.
        latest: The tags of its latest event.
    """
    read = (*snapshot.parents, *combination.behind(snapshot))
    own = {catalog.key(name) for name in read if combination.key(name) is not None}
    said = {f"{INPUT_DATA_VERSION}/{item.key.to_user_string()}": item for item in inputs}
    told = {tag for tag in latest if tag.startswith(f"{INPUT_DATA_VERSION}/")}
    return told != said.keys() or any(
        latest[tag] != item.data_version for tag, item in said.items() if item.key in own
    )
