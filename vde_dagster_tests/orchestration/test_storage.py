"""Batches of events in SQLite: the same facts as Dagster's own storage, in few transactions."""

# Dagster reads the annotations of decorated functions, so they are not postponed here.
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.base import EventLogStorage
from dagster._core.storage.event_log.sqlite.consolidated_sqlite_event_log import (
    ConsolidatedSqliteEventLogStorage,
)
from dagster._serdes import ConfigurableClassData

from vde_dagster.errors import UsageError
from vde_dagster.orchestration.dagster_private import store_in_index
from vde_dagster.orchestration.storage import BATCH_VARIABLE, BatchedSqliteStorage

pytestmark = pytest.mark.dagster
KEYS = [f"k{number:02d}" for number in range(5)]
ASSET = dg.AssetKey("many")
BATCHED = """
storage:
  custom: {module: vde_dagster.orchestration.storage, class: BatchedSqliteStorage, config: {}}
"""
RANGE = {
    "dagster/asset_partition_range_start": KEYS[0],
    "dagster/asset_partition_range_end": KEYS[-1],
}


@dg.asset(
    key=ASSET,
    partitions_def=dg.StaticPartitionsDefinition(KEYS),
    backfill_policy=dg.BackfillPolicy.single_run(),
    check_specs=[dg.AssetCheckSpec("right", asset=ASSET)],
)
def many(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    passed = not context.has_tag("fail")
    if not passed:
        raise ValueError("as the tag requests")
    result = dg.AssetCheckResult(check_name="right", passed=True)
    return dg.MaterializeResult(metadata={"n": 1}, check_results=[result])


def run_twice(
    home: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, object], dict[str, object]]:
    """Fill all partitions in a run that fails, then in one that succeeds."""
    home.mkdir()
    (home / "dagster.yaml").write_text(f"telemetry: {{enabled: false}}\n{text}")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.from_config(str(home)) as instance:
        job = dg.Definitions(assets=[many]).resolve_implicit_global_asset_job_def()
        run = partial(job.execute_in_process, instance=instance, raise_on_error=False)
        failed = seen(instance, run(tags={**RANGE, "fail": "yes"}).run_id)
        return failed, seen(instance, run(tags=RANGE).run_id)


def seen(instance: dg.DagsterInstance, run_id: str) -> dict[str, object]:
    """What the pages of the run and of the asset read."""
    storage: EventLogStorage = instance.event_log_storage
    events = [entry.dagster_event for entry in instance.all_logs(run_id)]
    named = [(event.event_type_value, event.partition) for event in events if event]
    (record,) = instance.get_asset_records([ASSET])
    last = record.asset_entry.last_materialization
    tried = storage.get_latest_asset_partition_materialization_attempts_without_materializations
    checks = storage.get_asset_check_execution_history(dg.AssetCheckKey(ASSET, "right"), limit=9)
    return {
        "log": named,
        "filled": sorted(instance.get_materialized_partitions(ASSET)),
        "failed": sorted(tried(ASSET)),
        "last run": record.asset_entry.last_run_id == run_id,
        "last event": last.dagster_event.partition if last and last.dagster_event else None,
        "checks": [(check.status, check.run_id == run_id) for check in checks],
    }


def test_a_backfill_is_recorded_as_by_dagsters_own_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BATCH_VARIABLE, "0")  # the storage changes it only if it is not set
    own = run_twice(tmp_path / "own", "", monkeypatch)
    monkeypatch.delenv(BATCH_VARIABLE)
    single: list[str] = []
    store = SqliteEventLogStorage.store_event

    def counted(storage: SqliteEventLogStorage, event: dg.EventLogEntry) -> None:
        single.append(str(event.dagster_event and event.dagster_event.event_type_value))
        store(storage, event)

    monkeypatch.setattr(SqliteEventLogStorage, "store_event", counted)
    assert run_twice(tmp_path / "batched", BATCHED, monkeypatch) == own
    failed, filled = own
    assert (failed["failed"], filled["filled"], filled["failed"]) == (KEYS, KEYS, [])
    assert not any("MATERIALIZATION" in name or "PLANNED" in name for name in single)


class OneDatabase(ConsolidatedSqliteEventLogStorage):
    """A log whose runs share a database, as in PostgreSQL, with batches."""

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        store_in_index(self, events)


ONE_DATABASE = """
event_log_storage: {{module: {}, class: {}, config: {{base_dir: {}}}}}
"""


def test_a_log_of_one_database_records_batches_as_single_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for storage, size in ((ConsolidatedSqliteEventLogStorage, "0"), (OneDatabase, "1000")):
        monkeypatch.setenv(BATCH_VARIABLE, size)
        home = tmp_path / storage.__name__
        text = ONE_DATABASE.format(storage.__module__, storage.__name__, home)
        found.append(run_twice(home, text, monkeypatch))
    assert found[1] == found[0]
    failed, filled = found[1]
    assert (failed["failed"], filled["filled"], filled["failed"]) == (KEYS, KEYS, [])


def test_a_storage_without_a_folder_is_refused_with_the_variable_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    data = ConfigurableClassData("m", "c", "{}")
    with pytest.raises(UsageError, match="DAGSTER_HOME is not set"):
        BatchedSqliteStorage.from_config_value(data, {})
