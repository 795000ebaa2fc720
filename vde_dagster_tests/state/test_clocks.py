"""Clocks that are ahead or behind: what they let be filled early, and in which order versions lie.

A search runs a project by clocks that are wrong now and then. Its engine notes with every range the
time at which it was really computed; nothing that counts as filled was computed before its end,
once a right clock has looked before the wrong one's time came. Seeds are in the tests' names.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.planning.intervals.cadence import ALWAYS
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state import StateStore
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.effects import ServersClock
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import T0, FakeClock, environment

BEGUN = T0 + timedelta(days=3, hours=2, minutes=25)
WHERE = "WHERE ts BETWEEN @start_ts AND @end_ts"
FILES = {
    "models/hour.sql": "MODEL (name m.hour, start '2024-01-01', cron '@hourly', kind "
    "INCREMENTAL_BY_TIME_RANGE (time_column ts)); SELECT @start_dt AS ts, 1 AS n",
    "models/day.sql": "MODEL (name m.day, start '2024-01-01', kind INCREMENTAL_BY_UNIQUE_KEY "
    f"(unique_key n)); SELECT ts, n FROM m.hour {WHERE}",
    "models/part.sql": "MODEL (name m.part, start '2024-01-01', cron '@hourly', interval_unit day, "
    "allow_partials true, kind INCREMENTAL_BY_TIME_RANGE (time_column ts)); "
    f"SELECT ts, n FROM m.hour {WHERE}",
    "models/whole.sql": "MODEL (name m.whole, kind FULL); SELECT now() AS ts, 1 AS n",
}


class Timed(FakeSpark):
    """An engine that notes with what it fills the minute in which it really did."""

    def __init__(self, right: FakeClock) -> None:
        super().__init__()
        self.right = right

    @property
    def sources(self) -> int:
        """Minutes that have passed."""
        return (self.right.now() - T0) // timedelta(minutes=1)

    @sources.setter
    def sources(self, value: int) -> None: ...


class Machine(FakeClock):
    """A machine's clock that is wrong by `off`."""

    def __init__(self, right: FakeClock) -> None:
        self.right, self.off = right, timedelta()

    def now(self) -> datetime:
        return self.right.now() + self.off

    def sleep(self, seconds: float) -> None:
        self.right.sleep(seconds)


class Simulated(ServersClock):
    """A server's clock that is right, and compared with the machine's time and again."""

    def now(self) -> datetime:
        self._compare(self._ask)
        return super().now()

    def require_right(self, ask: Callable[[], datetime], *, anew: bool = False) -> None:
        super().require_right(self._ask, anew=True)


class World:
    """A project whose machine's clock is set wrong now and then; PostgreSQL's never is."""

    def __init__(self, root: Path, url: str) -> None:
        self.right = FakeClock(BEGUN)
        self.machine = Machine(self.right)
        clock = Simulated(self.right.now, self.machine) if "postgres" in url else self.machine
        folder = ProjectFolder(root / "project", FILES)
        engine = Timed(self.right)
        self.workspace: Workspace = open_fake(folder.root, engine, clock=clock, state_url=url)
        self.said: list[str] = []
        self.planned = BEGUN
        self.workspace.apply(self.workspace.plan("prod"))

    def run(self, off: timedelta) -> None:
        """Run what a clock says is due, some time after which it is later."""
        self.machine.off, self.planned = off, self.right.now()
        plan = self.workspace.plans.due("prod")
        self.said.append(f"{self.right.now():%d %H:%M} {off} {[str(m.name) for m in plan.builds]}")
        self.right.advance(minutes=2)
        self.workspace.apply(plan)

    def check(self, *, due: bool) -> None:
        """Look whether anything that ended, or all of it, was computed afterwards."""
        prod = self.workspace.store.environments.get("prod")
        assert prod is not None
        tables = self.workspace.store.tables.load(prod.tables)
        snapshots = self.workspace.store.snapshots.load(
            entry.snapshot_id for entry in prod.entries.values()
        )
        for entry in prod.entries.values():
            table = tables[entry.table_id or ""]
            cadence = snapshots[entry.snapshot_id].cadence
            whole = cadence.whole(table.intervals, ALWAYS)
            told = "\n".join([str(entry.name), *self.said])
            for interval, minutes in self.held(table):
                for one in IntervalSet((interval,)) & whole:
                    made = T0 + timedelta(minutes=minutes)
                    assert made >= one.end, f"{told}\n{one} made at {made}"
            if due:
                assert whole.ranges[-1].end == cadence.due_until(self.planned), told

    def held(self, table: PhysicalTable) -> list[tuple[Interval, int]]:
        """Return what a table's rows were made of, and when (minutes)."""
        lakehouse = self.workspace.lakehouse
        location = lakehouse.metadata_location(table.ref)
        assert location is not None
        metadata = read_metadata(lakehouse.files, location, str(table.ref))
        head = head_of(metadata, None)
        (found,) = [item for item in metadata["snapshots"] if item["snapshot-id"] == head]
        content = json.loads(found["summary"]["fake.content"])
        return [(Interval.parse(text), minutes) for text, minutes in content]


@pytest.fixture
def world(tmp_path: Path, url: str) -> Iterator[World]:
    made = World(tmp_path, url)
    yield made
    made.workspace.close()


def search(world: World, seed: int, steps: int) -> None:
    """Run by clocks that are wrong now and then, and right again before those times come."""
    rng, postgres = random.Random(seed), not world.workspace.store.database.is_sqlite
    for _ in range(steps):
        before = world.right.now()
        if postgres:  # What is more than some seconds is refused.
            off = timedelta(seconds=rng.choice((0, -29, 29, rng.uniform(-29, 29))))
        else:
            hours = rng.choice((0, 24, 3, -1, -0.2, 0.7, rng.uniform(-30, 30)))
            off = timedelta(hours=hours)
        world.run(off)
        if off > timedelta() and not postgres:
            soon = rng.uniform(0, 1) * off - (world.right.now() - before)
            world.right.time += max(soon, timedelta(minutes=1))
            if world.right.now() < before + off:
                world.run(timedelta())
        world.right.advance(minutes=rng.choice((7, 31, 60, 61, 333, 1440, 1507)))
        world.run(timedelta())
        world.check(due=True)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_ended_stays_as_it_was_computed_before_its_end(
    world: World, seed: int
) -> None:
    search(world, seed, 4)


@pytest.mark.turns(10)
@pytest.mark.proof
@pytest.mark.parametrize("seed", range(1000, 1030))
def test_nothing_stays_so_in_long_histories(tmp_path: Path, seed: int) -> None:
    made = World(tmp_path, f"sqlite:///{tmp_path / 'vde.db'}")
    search(made, seed, 20)
    made.workspace.close()


def test_a_run_one_day_ahead_is_said_and_a_plan_that_only_looks_changes_nothing(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, f"sqlite:///{tmp_path / 'vde.db'}")
    world.run(timedelta(days=1))
    world.machine.off = timedelta()
    seen = world.workspace.plans.due("prod", save=False)
    again = world.workspace.plans.due("prod", save=False)
    assert [model.intervals for model in again.builds] == [m.intervals for m in seen.builds]
    assert ["ahead of this one" in text for text in seen.warnings] == [True, False]
    assert "version 2 of 'prod' was published" in seen.warnings[1]
    assert world.workspace.plans.due("prod", save=False).warnings == seen.warnings
    world.workspace.close()


SCD = "SCD_TYPE_2_BY_COLUMN (unique_key n, columns ts"


@pytest.mark.parametrize(
    ("kind", "query", "filled", "named"),
    [
        (f"{SCD})", "'a'", 0, []),
        (f"{SCD}, disable_restatement false)", "'a'", 0, []),
        (f"{SCD})", "@end_ts", 0, ["m.m was filled"]),
        ("INCREMENTAL_BY_UNIQUE_KEY (unique_key n, disable_restatement true)", "'a'", 0, ["m.m"]),
        ("INCREMENTAL_UNMANAGED", "'a'", 0, ["m.m was filled"]),
        ("INCREMENTAL_BY_UNIQUE_KEY (unique_key n)", "'a'", 2, ["1 table be filled"]),
    ],
)
def test_what_cannot_be_made_again_stays_as_a_process_ten_minutes_ahead_has_filled_it(
    tmp_path: Path, kind: str, query: str, filled: int, named: list[str]
) -> None:
    model = f"MODEL (name m.m, start '2024-01-02', kind {kind}); SELECT {query} AS ts, 1 AS n"
    folder = ProjectFolder(tmp_path / "project", {"models/m.sql": model})
    machine = Machine(FakeClock(BEGUN))
    with open_fake(folder.root, Timed(machine.right), clock=machine) as workspace:
        machine.off = timedelta(minutes=10)
        workspace.apply(workspace.plan("prod"))
        machine.off = timedelta()
        plan = workspace.plans.due("prod")
    assert sum((r.end - r.start).days for m in plan.builds for r in m.intervals) == filled
    said = [text for text in plan.warnings if "ahead of this one" in text]
    assert len(said) == len(named)
    assert all(part in text for part, text in zip(named, said, strict=True))


def test_a_plan_made_by_a_clock_ahead_is_refused_by_one_that_is_right(tmp_path: Path) -> None:
    world = World(tmp_path, f"sqlite:///{tmp_path / 'vde.db'}")
    world.machine.off = timedelta(days=1)
    plan = world.workspace.plans.due("prod")
    world.machine.off = timedelta()
    with pytest.raises(UsageError, match="made for 2024-01-05 02:25 UTC, and it is 2024-01-04"):
        world.workspace.apply(plan)
    world.workspace.close()


def publish(store: StateStore, base: int, at: datetime) -> datetime:
    """Publish an environment without models; return when that is said to have been."""
    made = environment(at=at)
    with store.database.transaction() as conn:
        return store.environments.write_version(conn, made, base).published_at


@pytest.mark.parametrize("hours", [-1, 0, 24])
def test_instants_of_versions_never_go_back(
    store: StateStore, clock: FakeClock, hours: int
) -> None:
    first = publish(store, 0, clock.now())
    between = clock.now() + timedelta(minutes=20)
    clock.advance(minutes=40)
    second = publish(store, 1, clock.now())
    clock.advance(hours=hours)
    third = publish(store, 2, clock.now())
    assert first < second < third
    assert store.versions.number_at("prod", between) == 1
    assert [store.versions.number_at("prod", at) for at in (first, second, third)] == [1, 2, 3]


def test_versions_whose_instants_went_back_are_told_apart_by_their_order(store: StateStore) -> None:
    version = schema.environment_versions
    for number in range(4):
        publish(store, number, T0)
    with store.database.transaction() as conn:
        for number, minutes in enumerate((20, 40, 10, 50), 1):
            at = T0 + timedelta(minutes=minutes)
            conn.execute(
                version.update().where(version.c.version == number).values(published_at=at)
            )
    named = [store.versions.number_at("prod", T0 + timedelta(minutes=m)) for m in (15, 25, 45, 55)]
    assert named == [None, 1, 3, 4]


@pytest.mark.server
@pytest.mark.parametrize(
    ("off", "said"),
    [
        (timedelta(days=1), "86,400 seconds ahead of"),
        (timedelta(hours=-1), "3,600 seconds behind"),
        (timedelta(seconds=-29), None),
    ],
)
@pytest.mark.parametrize("backend", ["postgresql"])
def test_postgresql_refuses_clocks_that_are_wrong(
    url: str, off: timedelta, said: str | None
) -> None:
    class Off(FakeClock):
        def now(self) -> datetime:
            return datetime.now(T0.tzinfo) + off

    store = StateStore.open(url)
    assert isinstance(store.database.clock, ServersClock)
    right = Database(store.database.engine).clock.now()
    store.database.clock.machine = Off()
    if said is None:
        store.leases.acquire("environment/prod", "me")
        assert abs(store.database.clock.now() - right) < timedelta(seconds=5)
    else:
        with pytest.raises(UsageError, match=said) as error:
            store.leases.acquire("environment/prod", "me")
        assert error.value.exit_code == 2
        with store.database.reading() as conn:
            assert store.leases.held(conn) == set()
    store.close()
