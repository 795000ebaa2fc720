"""The tags that make Dagster's staleness exact: code, data and input versions of an event.

An event with a code version but without its inputs' tags marks everything below it stale
(`dagster._core.definitions.data_version.CachingStaleStatusResolver`), so an event carries all
of them or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import dagster as dg

CODE_VERSION = "dagster/code_version"
DATA_VERSION = "dagster/data_version"
USER_PROVIDED = "dagster/data_version_is_user_provided"
INPUT_DATA_VERSION = "dagster/input_data_version"
INPUT_POINTER = "dagster/input_event_pointer"

UNTRACKED = "INITIAL"
"""The data version that Dagster gives to an external table of which it has no event."""
NO_POINTER = "NULL"


@dataclass(frozen=True, slots=True)
class Input:
    """A parent as it was when a model read it.

    Args:
        key: The parent's asset key.
        data_version: Its version.
        pointer: The newest record of the event log then; None never compares as changed, which
            is right for views: they show their parents' changes at once.
    """

    key: dg.AssetKey
    data_version: str
    pointer: int | None


def provenance_tags(
    code_version: str, data_version: str, inputs: Iterable[Input]
) -> dict[str, str]:
    """Return the tags of an event.

    Args:
        code_version: The version of the model, its partition key.
        data_version: What the partition holds.
        inputs: Every parent of the asset.
    """
    tags = {CODE_VERSION: code_version, DATA_VERSION: data_version, USER_PROVIDED: "true"}
    for item in inputs:
        name = item.key.to_user_string()
        tags[f"{INPUT_DATA_VERSION}/{name}"] = item.data_version
        tags[f"{INPUT_POINTER}/{name}"] = NO_POINTER if item.pointer is None else str(item.pointer)
    return tags


def data_version(key: str, iceberg_snapshot_id: int | None) -> str:
    """Return what a filled interval holds: its version and the Iceberg commit of its rows."""
    return key if iceberg_snapshot_id is None else f"{key}@{iceberg_snapshot_id}"


def newest_record(instance: dg.DagsterInstance) -> int | None:
    """Return the id of the newest record in the event log."""
    return instance.event_log_storage.get_maximum_record_id()


def external_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> str:
    """Return the data version that Dagster knows of an unpartitioned external asset."""
    record = instance.get_latest_data_version_record(key, True)
    if record is None:
        return UNTRACKED
    tags = record.event_log_entry.tags or {}
    return tags.get(DATA_VERSION, UNTRACKED)
