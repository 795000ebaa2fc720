"""Projects with parents and children of the same days, and Dagster instances for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import parse_instant
from vde_dagster.cli.main_job import QUIET
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.orchestration.events.fills import FilledPartition, ServedModel, filled_event
from vde_dagster.orchestration.events.provenance import ProjectionContext, input_tags
from vde_dagster.orchestration.models.catalog import AssetCatalog, build_catalog
from vde_dagster.orchestration.models.live import load_live
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster_tests.execution.fake_workspace import FakeSpark
from vde_dagster_tests.projects import SHOP, ProjectFolder, copied_project

if TYPE_CHECKING:
    from playwright.sync_api import Page

NOW = datetime(2024, 2, 1, tzinfo=timezone.utc)

DAYS = {
    **SHOP,
    "models/marts/running.sql": """
        MODEL (name marts.running, start '2024-01-01', end '2024-01-05', cron '@daily',
          owner 'analysts', tags (money), kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT day, revenue / orders AS basket
        FROM marts.daily WHERE day BETWEEN @start_date AND @end_date
    """,
    "models/marts/rates.sql": """
        MODEL (name marts.rates, kind FULL);
        SELECT day, rate FROM finance.rates
    """,
    "external_models.yaml": """
        - name: finance.rates
          description: Rates as the bank publishes them
          columns:
            day: date
            rate: double
    """,
}


@pytest.fixture(autouse=True)
def _no_jvm_in_fast_tests(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Give what would start Spark in a test that is not marked so an engine without a JVM."""
    if any(request.node.get_closest_marker(name) for name in ("spark", "server")):
        yield
        return

    class Started:
        def __new__(cls, _: object, __: object, lakehouse: Lakehouse, **___: object) -> Any:
            engine = FakeSpark()
            engine.attach(lakehouse)
            return engine

    monkeypatch.setattr("vde_dagster.spark.engine.SparkEngine", Started)
    # Edits of a test rest at once.
    monkeypatch.setattr("vde_dagster.orchestration.jobs.sensors.QUIET_SECONDS", 0.01)
    yield


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both projects, read once: their copies find their caches warm, as a second start does."""
    root = tmp_path_factory.mktemp("loaded")
    left_out = ("models/marts/rates.sql", "external_models.yaml")
    built = {path: text for path, text in DAYS.items() if path not in left_out}
    for name, files in (("days", DAYS), ("built", built)):
        load_catalog(ProjectFolder(root / name, files))
        (root / name / ".vde" / "vde.db").unlink()
    return root


@pytest.fixture
def days(loaded: Path, tmp_path: Path) -> ProjectFolder:
    """A project of two daily models in a row, views, full tables and an external table."""
    return ProjectFolder(copied_project(loaded / "days", tmp_path / "days"))


@pytest.fixture
def built(loaded: Path, tmp_path: Path) -> ProjectFolder:
    """The same without the external table, so that it can be built."""
    return ProjectFolder(copied_project(loaded / "built", tmp_path / "built"))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A Dagster instance that forgets."""
    with dg.DagsterInstance.ephemeral() as found:
        yield found


_IN_THIS_PROCESS = {
    "run_launcher": {
        "module": "dagster._core.launcher.sync_in_memory_run_launcher",
        "class": "SyncInMemoryRunLauncher",
    },
    "run_coordinator": {
        "module": "dagster._core.run_coordinator.default_run_coordinator",
        "class": "DefaultRunCoordinator",
    },
}


@pytest.fixture
def synchronous(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """A Dagster instance in a folder that runs what is launched at once, in this process."""
    home = tmp_path / "synchronous"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home), overrides=_IN_THIS_PROCESS) as found:
        yield found


@pytest.fixture
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Page]:
    """A page of a fresh browser; what it showed last is kept too."""
    from playwright.sync_api import sync_playwright

    from vde_dagster_tests.orchestration.browser import keep, open_page

    with sync_playwright() as playwright:
        found = open_page(playwright, tmp_path / "profile")
        yield found
        keep(found, f"last-of-{request.node.name[:40]}")
        found.context.close()


def load_catalog(folder: ProjectFolder, translator: VdeTranslator | None = None) -> AssetCatalog:
    """Load what a code location shows of a project."""
    with Workspace.open(folder.root) as workspace:
        live = load_live(workspace, NOW)
    return build_catalog(live, translator or VdeTranslator(folder.root), NOW)


def told_of(workspace: Workspace, instance: dg.DagsterInstance) -> ProjectionContext:
    """Return what events are made in, for a project as it is now."""
    catalog = build_catalog(load_live(workspace, NOW), VdeTranslator(workspace.root), NOW)
    return ProjectionContext(workspace, instance, catalog, logging.getLogger("vde"))


def fill_by_itself(
    folder: ProjectFolder, instance: dg.DagsterInstance, model: str, day: str = "", commit: int = 42
) -> None:
    """Record that a table, or one day of it, was written again, and nothing that is made of it."""
    start = parse_instant(day or "2024-01-01")
    key = version_of(folder, model)
    partition = dg.MultiPartitionKey({"snapshot": key, "time": day}) if day else key
    interval = Interval(start, start.replace(day=start.day + 1))
    filled = FilledPartition(partition, interval, FillRecord("", interval, "", commit), 1)
    with Workspace.open(folder.root) as workspace:
        context = told_of(workspace, instance)
        environment = workspace.store.environments.get("prod")
        assert environment is not None
        combination, name = context.combination(environment), ModelName.parse(model)
        snapshot, table = combination.snapshot(name), combination.table(name)
        assert snapshot is not None
        assert table is not None
        served = ServedModel(snapshot, table, combination, ("prod",))
        inputs = input_tags(context, combination, snapshot, None)
        event = filled_event(context, served, filled, inputs)
    instance.report_runless_asset_event(event)


def run_job(
    folder: ProjectFolder,
    instance: dg.DagsterInstance,
    name: str,
    config: dict[str, object] | None = None,
    *,
    op: str | None = None,
    partition: str | None = None,
    raise_on_error: bool = True,
) -> dg.ExecuteInProcessResult:
    """Run a job of a project as a new process would: its definitions are loaded anew."""
    from vde_dagster.orchestration import vde_definitions

    job = vde_definitions(folder.root).resolve_job_def(name)
    return job.execute_in_process(
        instance=instance,
        run_config={**QUIET, **({"ops": {op: {"config": config}}} if op and config else {})},
        partition_key=partition,
        raise_on_error=raise_on_error,
    )


def apply_all(
    folder: ProjectFolder, instance: dg.DagsterInstance, environment: str = "prod"
) -> dg.ExecuteInProcessResult:
    """Plan and apply a project."""
    return run_job(
        folder,
        instance,
        "vde_plan_and_apply",
        {"environment": environment, "accept_breaks": True},
        op="plan_and_apply",
    )


def partitions_of(instance: dg.DagsterInstance, asset: str) -> set[str]:
    """Return the partitions of an asset that Dagster shows as filled."""
    return set(instance.get_materialized_partitions(dg.AssetKey(asset.split("/"))))


def reds(instance: dg.DagsterInstance, asset: str, among: Sequence[str]) -> set[str]:
    """Return those of the partitions that an asset's page shows as failed."""
    from dagster._core.storage.partition_status_cache import (
        build_failed_and_in_progress_partition_subset,
        get_last_planned_storage_id,
    )

    key = dg.AssetKey(asset.split("/"))
    (record,) = instance.get_asset_records([key])
    failed, _, _ = build_failed_and_in_progress_partition_subset(
        instance,
        key,
        dg.StaticPartitionsDefinition(list(among)),
        get_last_planned_storage_id(instance, key, record),
    )
    return set(failed.get_partition_keys())


def version_of(folder: ProjectFolder, name: str) -> str:
    """Return the partition key of a model's current version."""
    from vde_dagster.base.names import ModelName

    current = load_catalog(folder).live.models[ModelName.parse(name)].current
    assert current is not None
    return current.key
