"""All private names of Dagster that this package uses; a test checks that no other module uses any.

A new release of Dagster may require changes here. Modules that `import dagster` does not load are
imported in functions.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from dagster._check import CheckError
from dagster._config import UserConfigSchema
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.definitions.assets.definition.assets_definition import AssetsDefinition
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    INPUT_DATA_VERSION_TAG_PREFIX,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from dagster._core.definitions.partitions.utils import get_tags_from_multi_partition_key
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.definitions.resource_requirement import merge_resource_defs
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.events import (
    AssetMaterializationPlannedData,
    DagsterEvent,
    DagsterEventType,
    StepMaterializationData,
)
from dagster._core.events.log import EventLogEntry
from dagster._core.launcher import DefaultRunLauncher, LaunchRunContext
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.remote_origin import CodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.tags import (
    AUTO_MATERIALIZE_TAG,
    AUTOMATION_CONDITION_TAG,
    BACKFILL_ID_TAG,
    PARTITION_NAME_TAG,
    REPOSITORY_LABEL_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
    TICK_ID_TAG,
    USER_TAG,
)
from dagster._core.utils import make_new_run_id
from dagster._serdes import ConfigurableClassData
from dagster._time import get_current_timestamp

if TYPE_CHECKING:
    import dagster as dg
    from dagster._core.definitions.assets.job.asset_layer import AssetLayer
    from dagster._core.storage.event_log import SqliteEventLogStorage
    from dagster._core.storage.sqlite_storage import DagsterSqliteStorage


class ModelAssets(AssetsDefinition):
    """Asset definition that merges resources only once for all assets with the same needs."""

    def with_resources(self, resource_defs: Mapping[str, dg.ResourceDefinition]) -> ModelAssets:
        # Dagster's own method builds and checks each asset again, and looks up the same resources
        # for each asset, which takes a tenth of the time to load thousands of models.
        found = copy(self)
        found._resource_defs = _required_resources(self, resource_defs)
        return found


_Resources = Mapping[str, "dg.ResourceDefinition"]
_LAST_MERGED: list[tuple[_Resources, dict[frozenset[str], _Resources]]] = []


def _required_resources(asset: ModelAssets, resources: _Resources) -> _Resources:
    if asset.resource_defs:
        return merge_resource_defs(asset.resource_defs, resources, asset)
    if not _LAST_MERGED or _LAST_MERGED[0][0] is not resources:
        _LAST_MERGED[:] = [(resources, {})]
    # Assets with equal needs share one result.
    known, needed = _LAST_MERGED[0][1], frozenset(asset.required_resource_keys)
    if needed not in known:
        known[needed] = merge_resource_defs({}, resources, asset)
    return known[needed]


RUN_MODULES = (
    "dagster._cli",
    "dagster._core.executor.in_process",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._core.storage.sqlite_storage",
)
"""Modules that every run needs; a process that waits for runs imports them in advance."""


def __getattr__(name: str) -> Any:
    # The modules take 0.9 seconds.
    from dagster._core.storage import sqlite_storage

    if name in ("DagsterSqliteStorage", "SqliteEventLogStorage"):
        return getattr(sqlite_storage, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def location_origins(workspace_file: str) -> list[CodeLocationOrigin]:
    """Return the code locations that a `workspace.yaml` names."""
    from dagster._core.workspace.load import location_origins_from_yaml_paths

    return list(location_origins_from_yaml_paths([workspace_file]))


def run_arguments(run: dg.DagsterRun, instance: dg.DagsterInstance) -> list[str]:
    """Return the arguments of a run's process. Raises ValueError without a code location."""
    from dagster._grpc.types import ExecuteRunArgs

    if run.job_code_origin is None:
        raise ValueError(f"the run {run.run_id} has no code location")
    origin, reference = run.job_code_origin, instance.get_ref()
    return list(ExecuteRunArgs(origin, run.run_id, reference).get_command_args())


def run_command(arguments: Sequence[str]) -> int:
    """Run the command `dagster` in this process, and return its exit code."""
    from dagster._cli import cli

    return int(cli(list(arguments), prog_name="dagster", standalone_mode=False) or 0)


def job_assets(keys: Iterable[dg.AssetKey]) -> AssetLayer:
    """Return the assets that an op job materializes."""
    # The pages of these assets list the job.
    from dagster._core.definitions.assets.job.asset_layer import AssetLayer

    return AssetLayer.for_external_job(keys)


def output_without_events(name: str) -> dg.Output[None]:
    """Return an output for which Dagster writes no event."""
    # The step has written its events: Dagster would copy one event's metadata and tags to every
    # partition of the run. Without an output, it would skip the assets downstream.
    from dagster import Output

    return Output(None, name, metadata={SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True})


def store_materializations(
    instance: dg.DagsterInstance,
    events: Sequence[dg.AssetMaterialization],
    step: dg.OpExecutionContext | dg.AssetExecutionContext | None = None,
) -> None:
    """Store materializations of one asset in one batch, in order.

    Args:
        step: The step that the events belong to. By default, they belong to no run.
    """
    from dagster._core.storage.event_log import SqliteEventLogStorage

    entries = [_log_entry(event, step) for event in events]
    storage = instance.event_log_storage
    # Dagster itself uses a transaction per event, unless its storage has a method for batches.
    if isinstance(storage, SqliteEventLogStorage):
        store_in_sqlite(storage, entries)
    else:
        storage.store_event_batch(entries)


def _log_entry(
    event: dg.AssetMaterialization, step: dg.OpExecutionContext | dg.AssetExecutionContext | None
) -> EventLogEntry:
    kind, data = DagsterEventType.ASSET_MATERIALIZATION.value, StepMaterializationData(event)
    stored = DagsterEvent(event_type_value=kind, job_name="", event_specific_data=data)
    if step is not None:
        own = step.get_step_execution_context()
        stored = DagsterEvent(
            event_type_value=kind,
            job_name=own.job_name,
            step_handle=own.step.handle,
            node_handle=own.step.node_handle,
            step_kind_value=own.step.kind.value,
            logging_tags=own.event_tags,
            event_specific_data=data,
            message=event.description or f"Materialized value {event.label}.",
            pid=os.getpid(),
        )
    return EventLogEntry(  # type: ignore[no-untyped-call]
        error_info=None,
        level=logging.INFO if step is None else logging.DEBUG,
        user_message="",
        run_id="" if step is None else step.run_id,
        timestamp=get_current_timestamp(),
        step_key=stored.step_key,
        job_name=stored.job_name,
        dagster_event=stored,
    )


def store_in_sqlite(storage: Any, entries: Sequence[EventLogEntry]) -> None:
    """Store records of one run in the run's database, and then in the index of all assets."""
    from dagster._core.storage.event_log import SqlEventLogStorageTable

    # Dagster's own method opens both databases for each record.
    rows = [storage._event_to_row(entry) for entry in entries]
    with storage.run_connection(entries[0].run_id) as connection:
        connection.execute(SqlEventLogStorageTable.insert(), rows)
    store_in_index(storage, entries)


def store_in_index(storage: Any, entries: Sequence[EventLogEntry]) -> None:
    """Store records in the database of all runs, in one transaction and in order."""
    from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
    from dagster._core.storage.event_log import SqlEventLogStorageTable

    column = SqlEventLogStorageTable.c.id
    insertion = SqlEventLogStorageTable.insert().returning(column, sort_by_parameter_order=True)
    rows = [storage._event_to_row(entry) for entry in entries]
    # Dagster's storages would open a connection for each planned materialization.
    with storage.index_transaction() as connection:
        ids = connection.scalars(insertion, rows).all()
        found = list(zip(entries, ids, strict=True))
        events = [(one, id_) for one, id_ in found if one.dagster_event_type in ASSET_EVENTS]
        storage._store_asset_event_tags(
            connection, [one for one, _ in events], [id_ for _, id_ in events]
        )
        # The index has one row per asset, with the latest event of each type.
        latest = {(one.dagster_event_type, _asset_key(one)): (one, id_) for one, id_ in events}
        for entry, id_ in latest.values():
            storage._store_asset_event(connection, entry, id_)
    for entry, id_ in found:
        if entry.dagster_event_type in ASSET_CHECK_EVENTS:
            storage.store_asset_check_event(entry, id_)


def _asset_key(entry: EventLogEntry) -> dg.AssetKey | None:
    return entry.dagster_event and entry.dagster_event.asset_key
