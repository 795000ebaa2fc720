"""Storage of dagster-postgres with batches of planned materializations.

dagster-postgres writes materializations and observations in batches, but each planned event alone,
with two connections to the server. Configuration in `dagster.yaml`:

    storage:
      custom:
        module: vde_dagster.orchestration.postgres_storage
        class: BatchedPostgresStorage
        config:
          postgres_url: {env: DAGSTER_POSTGRES_URL}
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import dagster as dg

from vde_dagster.base.installing import how_to_install
from vde_dagster.errors import UsageError
from vde_dagster.orchestration.dagster_private import ConfigurableClassData, store_in_index
from vde_dagster.orchestration.storage import BATCH, BATCH_VARIABLE

try:
    from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage
    from dagster_postgres.utils import get_token_provider_from_config
except ModuleNotFoundError as error:
    raise UsageError(
        "Dagster's storage in PostgreSQL needs the package dagster-postgres",
        hint=how_to_install("dagster-postgres"),
    ) from error


class BatchedPostgresEventLogStorage(PostgresEventLogStorage):  # type: ignore[misc]
    """Event log in PostgreSQL that stores a batch of events in one transaction."""

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        if events:
            store_in_index(self, events)


class BatchedPostgresStorage(DagsterPostgresStorage):  # type: ignore[misc]
    """Dagster's PostgreSQL storage with the same `config`, and an event log that stores batches."""

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> Any:
        found = super().from_config_value(inst_data, config_value)
        found._event_log_storage = BatchedPostgresEventLogStorage(
            found.postgres_url,
            found.should_autocreate_tables,
            token_provider=get_token_provider_from_config(config_value),
        )
        os.environ.setdefault(BATCH_VARIABLE, str(BATCH))
        return found
