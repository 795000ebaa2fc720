"""Every private name of Dagster that this package uses, so that a new release touches one file.

Dagster exports none of them. Imports that `import dagster` does not pay for are in functions. The
test `test_private_names.py` lists who may import `dagster._…`: this module alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagster._check import CheckError
from dagster._config import UserConfigSchema
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
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
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent, DagsterEventType
from dagster._core.launcher import DefaultRunLauncher, LaunchRunContext
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.remote_origin import (
    CodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
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

if TYPE_CHECKING:
    import dagster as dg

__all__ = [
    "AUTOMATION_CONDITION_TAG",
    "AUTO_MATERIALIZE_TAG",
    "BACKFILL_ID_TAG",
    "CODE_VERSION_TAG",
    "DATA_VERSION_IS_USER_PROVIDED_TAG",
    "DATA_VERSION_TAG",
    "DEFAULT_DATA_VERSION",
    "INPUT_DATA_VERSION_TAG_PREFIX",
    "NULL_EVENT_POINTER",
    "PARTITION_NAME_TAG",
    "REPOSITORY_LABEL_TAG",
    "RUN_MODULES",
    "SCHEDULE_NAME_TAG",
    "SENSOR_NAME_TAG",
    "SINGLETON_REPOSITORY_NAME",
    "TICK_ID_TAG",
    "USER_TAG",
    "AssetCheckEvaluationTargetMaterializationData",
    "AssetMaterializationPlannedData",
    "CheckError",
    "CheckRunHealthResult",
    "CodeLocationOrigin",
    "ConfigurableClassData",
    "DagsterEvent",
    "DagsterEventType",
    "DefaultRunLauncher",
    "LaunchRunContext",
    "RemoteJobOrigin",
    "RemoteRepositoryOrigin",
    "UserConfigSchema",
    "WorkerStatus",
    "get_input_data_version_tag",
    "get_input_event_pointer_tag",
    "get_tags_from_multi_partition_key",
    "location_origins",
    "make_new_run_id",
    "run_arguments",
    "run_command",
]

RUN_MODULES = (
    "dagster._cli",
    "dagster._core.executor.in_process",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._core.storage.sqlite_storage",
)
"""Modules that a run imports, which a process that waits for runs imports before."""


def location_origins(workspace_file: str) -> list[CodeLocationOrigin]:
    """Return the code locations that a `workspace.yaml` names."""
    from dagster._core.workspace.load import location_origins_from_yaml_paths

    return list(location_origins_from_yaml_paths([workspace_file]))


def run_arguments(run: dg.DagsterRun, instance: dg.DagsterInstance) -> list[str]:
    """Return the command line by which Dagster starts the process of a run.

    Raises:
        ValueError: The run has no code location.
    """
    from dagster._grpc.types import ExecuteRunArgs

    if run.job_code_origin is None:
        raise ValueError(f"the run {run.run_id} has no code location")
    origin, reference = run.job_code_origin, instance.get_ref()
    return list(ExecuteRunArgs(origin, run.run_id, reference).get_command_args())


def run_command(arguments: Sequence[str]) -> int:
    """Run the command `dagster` in this process; return its exit code."""
    from dagster._cli import cli

    return int(cli(list(arguments), prog_name="dagster", standalone_mode=False) or 0)
