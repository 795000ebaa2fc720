"""Whatever Dagster stores passes the port; a sync that dies anywhere is finished by the next."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

import vde_dagster.orchestration
from vde_dagster.base.times import parse_instant
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.records import passing_events
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.names import SHORT
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.state.db.effects import NoEffects
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.faults import Fault, FaultInjector, Mode, ProcessKilled
from vde_dagster_tests.orchestration.conftest import partitions_of
from vde_dagster_tests.projects import ProjectFolder

ASSETS = ("db/daily", "db/last", "db/shown", "vde/environment")
FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day),
          start '2024-01-01', end '2024-01-03');
        SELECT 1 AS n, CAST('2024-01-01' AS DATE) AS day
    """,
    "models/last.sql": "MODEL (name db.last, kind FULL); SELECT max(n) AS n FROM db.daily",
    "models/shown.sql": "MODEL (name db.shown, kind VIEW); SELECT n FROM db.last",
}
WRITES = re.compile(
    r"\.(report_runless_asset_event|report_dagster_event|add_dynamic_partitions"
    r"|delete_dynamic_partition|wipe_assets|handle_new_event|store_event)\("
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A project with two environments and a plan that waits."""
    folder = ProjectFolder(tmp_path_factory.mktemp("records") / "project", FILES)
    opened = open_fake(folder.root)
    opened.apply(opened.plan("prod"))
    opened.apply(opened.plan("dev"))
    folder.edit("models/last.sql", "max(n)", "min(n)")
    opened.reload()
    assert not opened.plan("prod", author="anna").is_empty
    yield opened
    opened.close()


def seen(instance: dg.DagsterInstance) -> dict[str, object]:
    """What Dagster shows: partitions with how often they were written, environments and plans."""
    return {
        **{asset: partitions_of(instance, asset) for asset in ASSETS},
        "versions": len(instance.fetch_materializations(SHORT.environment_key, limit=99).records),
        "environments": set(instance.get_dynamic_partitions(str(SHORT.environments.name))),
        "plans": set(instance.get_dynamic_partitions(str(SHORT.plans.name))),
    }


def interrupted(workspace: Workspace, instance: dg.DagsterInstance, fault: Fault) -> FaultInjector:
    """Sync with a fault."""
    injector = FaultInjector(fault, in_process=True)
    workspace.store.database.effects = injector
    try:
        sync(workspace, instance)
    except (ProcessKilled, OSError):
        assert injector.fired
    finally:
        workspace.store.database.effects = NoEffects()
    return injector


def test_nothing_is_stored_in_dagster_beside_the_port() -> None:
    folder = Path(vde_dagster.orchestration.__file__).parent
    found = {path.name for path in folder.rglob("*.py") if WRITES.search(path.read_text())}
    assert found == {"records.py"}


@pytest.mark.turns(4)
@pytest.mark.parametrize("mode", ["kill_before", "kill_after", "fail_once", "lose_answer"])
def test_sync_that_dies_anywhere_is_finished_by_the_next(workspace: Workspace, mode: Mode) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        points = interrupted(workspace, instance, Fault()).passed
        whole = seen(instance)
    counts = Counter(point for point in points if point.startswith("dagster."))
    assert counts == {"dagster.event": 13, "dagster.partitions.add": 6}
    for point, number in [(p, n) for p, count in counts.items() for n in range(1, count + 1)]:
        with dg.DagsterInstance.ephemeral() as instance:
            assert interrupted(workspace, instance, Fault(point, mode, number)).fired
            sync(workspace, instance)
            assert seen(instance) == whole, (point, number)
            assert sync(workspace, instance).is_empty


@pytest.mark.parametrize("mode", ["kill_before", "kill_after"])
def test_sync_that_dies_after_it_forgot_an_asset_writes_it_again(
    tmp_path: Path, mode: Mode
) -> None:
    opened = open_fake(ProjectFolder(tmp_path / "project", FILES).root)
    opened.apply(opened.plan("prod"))
    with dg.DagsterInstance.ephemeral() as instance:
        sync(opened, instance)
        environment = opened.store.environments.get("prod")
        assert environment is not None
        entry = next(e for e in environment.entries.values() if str(e.name) == "db.daily")
        day = Interval(parse_instant("2024-01-02"), parse_instant("2024-01-03"))
        opened.store.fills.remove(entry.table_id or "", day)
        assert interrupted(opened, instance, Fault("dagster.wipe", mode)).fired
        sync(opened, instance)
        left = {key.split("|")[1] for key in partitions_of(instance, "db/daily")}
        assert left == {"2024-01-01", "2024-01-03"}
        assert sync(opened, instance).is_empty
    opened.close()


def test_a_steps_event_is_stored_inside_the_port() -> None:
    injector = FaultInjector(Fault("dagster.event", "kill_after", 2), in_process=True)
    stored: list[str] = []
    with pytest.raises(ProcessKilled):
        stored.extend(passing_events(injector, ["first", "second", "third"]))
    assert stored == ["first", "second"]
