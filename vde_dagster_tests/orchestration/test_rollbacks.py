"""What Dagster shows after a rollback of data: what the tables hold then, and nothing else."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events import consumer
from vde_dagster.orchestration.events.consumer import OutboxCursor, OutboxForwarder, forward_outbox
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.resource import lend
from vde_dagster.state.db.effects import NoEffects
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.execution.test_rollback_of_data import at, restate, run
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.orchestration.conftest import load_catalog, run_job
from vde_dagster_tests.projects import Prepared, ProjectFolder

FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1),
          start '2024-01-01', end '2024-01-08', audits (not_null(columns := (n))));
        SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n
    """,
    "models/totals.sql": """
        MODEL (name db.totals, kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1),
          start '2024-01-01', end '2024-01-08');
        SELECT day, sum(n) AS n FROM db.daily
        WHERE day BETWEEN @start_date AND @end_date GROUP BY day
    """,
    "models/week.sql": "MODEL (name db.week, kind FULL); SELECT sum(n) AS n FROM db.totals",
}
CHECK = dg.AssetCheckKey(dg.AssetKey(["db", "daily"]), "not_null_columns_n")
ASSETS = ("db/daily", "db/totals", "db/week")
LOG = logging.getLogger("vde")
RollBack = Callable[[int], None]
"""Takes production back to a version, and lets Dagster hear of it."""


def published(root: Path) -> None:
    with open_fake(ProjectFolder(root, FILES).root) as workspace:
        workspace.apply(workspace.plan("prod", now=at(4)))


@pytest.fixture
def folder(prepared: Prepared) -> ProjectFolder:
    """The project with its first three days."""
    return prepared(published)


@pytest.fixture
def engine() -> FakeSpark:
    return FakeSpark()


@pytest.fixture
def outside(folder: ProjectFolder, engine: FakeSpark) -> Iterator[Workspace]:
    """The project as the command line has it open."""
    with open_fake(folder.root, engine) as workspace:
        yield workspace


class Told:
    """A Dagster instance whose sensor looks.

    Args:
        folder: The project.
        instance: The instance.
    """

    def __init__(self, folder: ProjectFolder, instance: dg.DagsterInstance) -> None:
        self.folder, self.instance = folder, instance
        self.cursor: str | None = None

    def tick(self) -> bool:
        """Let the sensor look; say whether something was new."""
        looks = VdeTranslator(self.folder.root)
        found = forward_outbox(self.folder.root, self.instance, self.cursor, looks, LOG)
        if not isinstance(found, str):
            return False
        self.cursor = found
        return True

    def shown(self) -> dict[str, dict[str, str]]:
        """What Dagster shows: by asset and partition the data version."""
        return shown(self.instance)


def shown(instance: dg.DagsterInstance) -> dict[str, dict[str, str]]:
    """Return by asset and partition the data version of the latest event."""
    found: dict[str, dict[str, str]] = {}
    for asset in ASSETS:
        key = dg.AssetKey(asset.split("/"))
        filled = instance.get_materialized_partitions(key)
        events = instance.fetch_materializations(key, limit=999).records
        known = found[asset] = {}
        for record in events:
            event = record.asset_materialization
            assert event is not None
            assert event.partition in filled
            known.setdefault(event.partition or "", (event.tags or {})["dagster/data_version"])
    return found


def checks(instance: dg.DagsterInstance) -> list[dg.AssetCheckEvaluation]:
    history = instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=99)
    found = [record.evaluation for record in history]
    return [event for event in found if isinstance(event, dg.AssetCheckEvaluation)]


@pytest.fixture
def told(folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance) -> Told:
    made = Told(folder, instance)
    assert made.tick()
    return made


@pytest.fixture(params=["vde rollback and the sensor", "vde_rollback"])
def roll_back(
    request: pytest.FixtureRequest, folder: ProjectFolder, outside: Workspace, told: Told
) -> RollBack:
    def by_command(version: int) -> None:
        outside.environments.rollback("prod", version)
        assert told.tick()

    def by_job(version: int) -> None:
        config = {"environment": "prod", "version": version}
        with lend(outside):
            run_job(folder, told.instance, "vde_rollback", config, op="rollback")
        told.tick()

    return by_job if request.param == "vde_rollback" else by_command


def test_partitions_that_go_with_a_rollback_are_shown_as_missing(
    outside: Workspace, told: Told, roll_back: RollBack
) -> None:
    before = told.shown()
    assert len(before["db/daily"]) == 3
    run(outside, 6)
    told.tick()
    assert len(told.shown()["db/daily"]) == 5
    roll_back(1)
    assert told.shown() == before
    assert not told.tick()
    with lend(outside):
        assert sync(outside, told.instance).is_empty


def test_partitions_that_hold_other_rows_again_say_so(
    outside: Workspace, told: Told, roll_back: RollBack, engine: FakeSpark
) -> None:
    before = told.shown()
    engine.sources = 1
    restate(outside, 2, 4)
    told.tick()
    assert told.shown() != before
    roll_back(1)
    assert told.shown() == before


def test_going_forward_again_fills_the_partitions_again(
    outside: Workspace, told: Told, roll_back: RollBack
) -> None:
    run(outside, 6)
    told.tick()
    newer = told.shown()
    roll_back(1)
    assert told.shown() != newer
    roll_back(2)
    assert told.shown() == newer


def test_what_others_made_of_rows_that_went_is_shown_as_missing(
    folder: ProjectFolder, outside: Workspace, told: Told, roll_back: RollBack
) -> None:
    run(outside, 6)
    folder.edit("models/totals.sql", "sum(n)", "max(n)")
    outside.reload()
    outside.apply(outside.plan("dev", now=at(6)))
    told.tick()
    assert sizes(told)["db/totals"] == [5, 5]
    roll_back(1)
    assert sizes(told)["db/totals"] == [3, 3]
    with lend(outside):
        assert sync(outside, told.instance).is_empty


def sizes(told: Told) -> dict[str, list[int]]:
    """Return how many partitions Dagster shows of each version, by asset."""
    return {
        asset: sorted(Counter(key.partition("|")[0] for key in shown).values())
        for asset, shown in told.shown().items()
    }


def test_what_checks_found_stays_when_partitions_go(
    outside: Workspace, told: Told, roll_back: RollBack
) -> None:
    run(outside, 6)
    told.tick()
    (before, *_) = checks(told.instance)
    roll_back(1)
    (now, *_) = checks(told.instance)
    assert now.passed
    assert now.metadata["vde/environment"] == before.metadata["vde/environment"]


def test_a_tick_that_dies_between_taking_away_and_showing_is_finished_by_the_next(
    folder: ProjectFolder, outside: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = outside.store.outbox.number()
    run(outside, 6)
    between = outside.store.outbox.number()
    outside.environments.rollback("prod", 1)
    outside.store.outbox.number()
    catalog, looks = load_catalog(folder), VdeTranslator(folder.root)
    monkeypatch.setattr(consumer, "recent_catalog", lambda *_: catalog)

    def tell(instance: dg.DagsterInstance, since: int, fault: Fault | None = None) -> list[str]:
        injector = FaultInjector(fault or Fault(), in_process=True)
        outside.store.database.effects = injector
        try:
            OutboxForwarder(outside, instance, looks, LOG).forward_since(
                OutboxCursor(start.store, since)
            )
        except ProcessKilled:
            assert injector.fired
        finally:
            outside.store.database.effects = NoEffects()
        return injector.passed

    def told_before(instance: dg.DagsterInstance) -> None:
        with lend(outside):
            assert not sync(outside, instance).is_empty
        key = dg.AssetKey(["db", "daily"])
        version = next(iter(instance.get_materialized_partitions(key))).split("|")[0]
        for day in ("2024-01-04", "2024-01-05"):
            instance.report_runless_asset_event(
                dg.AssetMaterialization(
                    key, partition=f"{version}|{day}", tags={"dagster/data_version": "gone"}
                )
            )

    with dg.DagsterInstance.ephemeral() as instance:
        told_before(instance)
        assert len(shown(instance)["db/daily"]) == 5
        points = tell(instance, between.newest)
        whole = shown(instance)
    assert len(whole["db/daily"]) == 3
    assert "dagster.wipe" in points
    for number in range(1, points.count("dagster.event") + 1):
        with dg.DagsterInstance.ephemeral() as instance:
            told_before(instance)
            tell(instance, between.newest, Fault("dagster.event", "kill_before", number))
            tell(instance, between.newest)
            assert shown(instance) == whole, number
            assert checks(instance)
