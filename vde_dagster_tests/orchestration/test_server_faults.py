"""Dead daemons, two daemons, a restarted webserver and a reload, with real processes of Dagster.

`python -m benchmarks.dagster_faults` repeats them with PostgreSQL as Dagster's storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.orchestration.events.sync import sync
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.servers import Dagster, open_home, running_dagster, wait_for
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.server, pytest.mark.dagster]

FILES = {
    "models/days.sql": """
        MODEL (name db.days, start '2024-01-01', end '2024-01-20', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1));
        SELECT 'one' AS n, CAST('2024-01-01' AS DATE) AS day
    """,
    "pyproject.toml": """
        [tool.vde]
        concurrency = 1
        [tool.vde.dagster]
        sensor_interval_seconds = 2
        check_queries = false
    """,
}
DAYS = 20
ASSET = dg.AssetKey(["db", "days"])


@dataclass
class Place:
    """A published project with a webserver and two daemons."""

    folder: ProjectFolder
    dagster: Dagster

    def version(self) -> int:
        """Return production's version."""
        with open_fake(self.folder.root) as workspace:
            found = workspace.store.environments.get("prod")
            assert found is not None
            return found.version

    def fills(self) -> Counter[Interval]:
        """Count the fills of each day of the published table."""
        with open_fake(self.folder.root) as workspace:
            found = workspace.store.environments.get("prod")
            assert found is not None
            (table,) = found.tables
            return Counter(fill.interval for fill in workspace.store.fills.log(table))

    def events(self) -> Counter[str]:
        """Count the materializations of each partition of the published version."""
        with open_home(self.dagster.home) as instance:
            records = instance.fetch_materializations(ASSET, limit=1000).records
            found = Counter(str(record.partition_key) for record in records)
        shown = set(self.dagster.asset("db/days")["partitionKeys"])
        return Counter({key: number for key, number in found.items() if key in shown})

    def writers(self, asset: str, partition: str) -> list[str]:
        """Return the runs that wrote the events of a partition; empty for the sensors."""
        wanted = dg.AssetRecordsFilter(dg.AssetKey(asset.split("/")), asset_partitions=[partition])
        with open_home(self.dagster.home) as instance:
            return [one.run_id for one in instance.fetch_materializations(wanted, 99).records]

    def check_pages(self) -> None:
        """Check that Dagster shows the state: nothing is missing, failed or to be written."""
        # The webserver counts materializations anew some time after a location is loaded again.
        stats = {"numMaterialized": DAYS, "numPartitions": DAYS, "numFailed": 0}
        wait_for(lambda: self.dagster.asset("db/days")["partitionStats"] == stats, "the counts")
        with open_fake(self.folder.root) as workspace, open_home(self.dagster.home) as instance:
            assert sync(workspace, instance).is_empty


@contextmanager
def open_place(root: Path, config: str = "") -> Iterator[Place]:
    """Publish the project and start Dagster.

    Args:
        config: Text of `dagster.yaml`; the package's by default.
    """
    folder = ProjectFolder(root / "project", FILES)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    location = "vde_dagster_tests.orchestration.slow_location"
    home = root / "home"
    with running_dagster(folder.root, home, module=location, config=config, daemons=2) as dagster:
        found = Place(folder, dagster)
        wait_for(lambda: len(found.events()) == DAYS, "the events of the first apply")
        wait_for(dagster.plans, "the page of the first plan, which is recorded after its fills")
        yield found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with open_place(tmp_path_factory.mktemp("faults")) as found:
        yield found


@pytest.mark.turns(3, "faults of Dagster's servers")
def test_an_apply_continues_while_its_location_is_reloaded(place: Place) -> None:
    dagster, before = place.dagster, place.version()
    known = set(dagster.plans())
    place.folder.edit("models/days.sql", "'one'", "'two'")
    (plan,) = wait_for(lambda: set(dagster.plans()) - known, "the plan of one of two daemons")
    wait_for(lambda: plan in dagster.filled("vde/plan"), "the plan's page")
    run = dagster.launch("vde_apply_job", plan)
    wait_for(lambda: dagster.lines(run, "filled in"), "the first fill")
    dagster.reload()
    dagster.reload()
    dagster.succeed(run)
    assert place.version() == before + 1
    assert set(place.fills().values()) == {1}
    assert set(dagster.plans()) - known == {plan}, "two daemons planned the same files twice"
    wait_for(lambda: set(place.events().values()) == {1}, "one event of each day")
    assert place.writers("vde/apply", plan) == [run]
    pages = place.writers("vde/plan", plan)
    assert len(pages) == 2, "the plan's page, and the page after its publication"
    place.check_pages()


@pytest.mark.turns(3, "faults of Dagster's servers")
def test_a_backfill_ends_although_a_daemon_is_killed_and_the_webserver_restarts(
    place: Place,
) -> None:
    dagster = place.dagster
    assert dagster.programs is not None
    before = place.fills()
    keys = sorted(place.events())
    while place.fills() == before:  # a daemon knows a new version within a minute
        dagster.backfill("db/days", keys[0], keys[-1])
        wait_for(lambda: place.fills() != before or has_failed(dagster), "the first fill")
    dagster.programs.kill("daemon")
    dagster.programs.kill("webserver")
    dagster.programs.start("webserver")
    wait_for(dagster.backfills, "the webserver")
    wait_for(lambda: dagster.backfills()[0] == "COMPLETED_SUCCESS", "the backfill's end")
    again = place.fills() - before
    assert len(again) == DAYS
    assert set(again.values()) == {1}
    assert set(place.events().values()) == {2}
    place.check_pages()
    dagster.programs.start("daemon")


@pytest.mark.turns(3, "faults of Dagster's servers")
def test_a_run_that_no_daemon_takes_runs_once_when_two_start(place: Place) -> None:
    dagster = place.dagster
    assert dagster.programs is not None
    for name in ("daemon", "daemon_1"):
        dagster.programs.kill(name)
    before, key = place.fills(), max(place.events())
    run = dagster.materialize("db/days", key)
    for name in ("daemon", "daemon_1"):
        dagster.programs.start(name)
    dagster.succeed(run)
    assert sum((place.fills() - before).values()) == 1
    place.check_pages()


def has_failed(dagster: Dagster) -> bool:
    """Check whether the latest backfill has failed."""
    return any(status.endswith("FAILED") for status in dagster.backfills()[:1])


FAULTS = (
    test_an_apply_continues_while_its_location_is_reloaded,
    test_a_backfill_ends_although_a_daemon_is_killed_and_the_webserver_restarts,
    test_a_run_that_no_daemon_takes_runs_once_when_two_start,
)
