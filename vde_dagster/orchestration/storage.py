"""Dagster's SQLite storage with batches: many events in two transactions.

Before a backfill, Dagster writes one event for each partition that it plans to fill: two
transactions each, about 100 ms on a busy machine. If `DAGSTER_EVENT_BATCH_SIZE` is set, Dagster
passes batches to the storage. This storage stores each batch in two transactions, and sets the
variable for the webserver, the daemon and the runs.

Configuration in `dagster.yaml`:

    storage:
      custom:
        module: vde_dagster.orchestration.storage
        class: BatchedSqliteStorage
        config: {}
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from vde_dagster.errors import UsageError
from vde_dagster.orchestration.dagster_private import (
    ConfigurableClassData,
    DagsterSqliteStorage,
    SqliteEventLogStorage,
    UserConfigSchema,
    store_in_sqlite,
)
from vde_dagster.orchestration.instance import HOME_VARIABLE

BATCH_VARIABLE = "DAGSTER_EVENT_BATCH_SIZE"
BATCH = 1000
"""Default number of events in a batch."""


class BatchedEventLogStorage(SqliteEventLogStorage):
    """Event log in SQLite that stores a batch of one run's events in two transactions."""

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        if events:
            store_in_sqlite(self, events)


class BatchedSqliteStorage(DagsterSqliteStorage):
    """Dagster's SQLite storage, with an event log that stores batches."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = BatchedEventLogStorage(
            str(Path(base_dir, "history", "runs")), inst_data
        )
        os.environ.setdefault(BATCH_VARIABLE, str(BATCH))

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        return {"base_dir": dg.Field(dg.StringSource, is_required=False)}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]
    ) -> BatchedSqliteStorage:
        """Create the storage from an instance's configuration.

        The default folder is `DAGSTER_HOME`.

        Raises:
            UsageError: Neither the configuration nor the environment names a folder.
        """
        folder = config_value.get("base_dir") or os.environ.get(HOME_VARIABLE)
        if not folder:
            raise UsageError(
                f"Dagster's storage has no folder: {HOME_VARIABLE} is not set",
                hint=f"set {HOME_VARIABLE}, or `base_dir` in the config of the storage",
            )
        return cls.from_local(folder, inst_data=inst_data)
