"""Random histories by clocks that are wrong now and then, each machine's by its own.

The engine notes with every range the time at which it was really computed; nothing that counts as
filled was computed before its end, once a right clock has looked before the wrong one's time came.
What a version showed when it was published it shows for ever, as does what is frozen of it, and
instants of versions never go back.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.planning.intervals.cadence import ALWAYS
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.db.effects import ServersClock
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import T0, FakeClock

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

    def require_agreement(self, ask: Callable[[], datetime], *, anew: bool = False) -> None:
        super().require_agreement(self._ask, anew=True)


class World:
    """A project on machines whose clocks are set wrong now and then; PostgreSQL's never is."""

    def __init__(self, root: Path, url: str, machines: int = 3) -> None:
        self.right = FakeClock(BEGUN)
        self.machines = [Machine(self.right) for _ in range(machines)]
        folder = ProjectFolder(root / "project", FILES)
        self.workspaces = [
            open_fake(
                folder.root,
                Timed(self.right),
                clock=Simulated(self.right.now, one) if "postgres" in url else one,
                state_url=url,
            )
            for one in self.machines
        ]
        self.machine, self.workspace = self.machines[0], self.workspaces[0]
        self.said: list[str] = []
        self.shown: dict[int, tuple[datetime, dict[str, Any]]] = {}
        self.planned = BEGUN
        self._apply(self.workspace, self.workspace.plan("prod"))

    def close(self) -> None:
        """Close what every machine has opened."""
        for workspace in self.workspaces:
            workspace.close()

    def run(self, off: timedelta, machine: int = 0, *, restate: Interval | None = None) -> None:
        """Run what a machine's clock says is due, or restate, some time after which it is later."""
        workspace, self.machines[machine].off = self.workspaces[machine], off
        self.planned = self.right.now()
        if restate is None:
            plan = workspace.plans.due("prod")
        else:
            span = {"start": restate.start, "end": restate.end}
            plan = workspace.plan("prod", restate=("m.hour",), **span)
        what = f"{off} on {machine} {restate or ''} {[str(m.name) for m in plan.builds]}"
        self.said.append(f"{self.right.now():%d %H:%M} {what}")
        self.right.advance(minutes=2)
        self._apply(workspace, plan)

    def _apply(self, workspace: Workspace, plan: Plan) -> None:
        """Apply a plan, and note what the version shows that it has published."""
        done = workspace.apply(plan)
        if not done.published or done.environment is None:
            return
        version, at = done.environment.version, done.environment.published_at
        told = "\n".join(self.said)
        assert not self.shown or at > max(said for said, _ in self.shown.values()), told
        self.shown[version] = at, self.pinned(version)

    def pinned(self, version: int) -> dict[str, Any]:
        """Return what the tables of a version of production hold."""
        pins = self.workspace.store.pins.at("prod", version)
        tables = self.workspace.store.tables.load(pins)
        return {one: self.content(tables[one], pin.snapshot_id) for one, pin in pins.items()}

    def freeze(self, chance: random.Random) -> None:
        """Freeze production as of a time, by a clock that is right."""
        self.machine.off = timedelta()
        version, (at, shown) = chance.choice(list(self.shown.items()))
        until = min(
            self.shown[version + 1][0] if version + 1 in self.shown else at, self.right.now()
        )
        moment = (at + chance.uniform(0, 1) * (until - at)).replace(microsecond=0)
        if moment <= at:
            return
        name = f"close{len(self.said)}"
        self.said.append(f"{self.right.now():%d %H:%M} freeze of {moment} as {name}")
        found = self.workspace.environments.freeze(f"prod@{moment:%Y-%m-%dT%H:%M:%S}", name)
        told = "\n".join(self.said)
        assert found.environment.frozen == f"prod@{version}", told
        held = {e.table_id: e.held for e in found.environment.entries.values() if e.held}
        tables = self.workspace.store.tables.load(held)
        assert {
            one: self.content(tables[one], pin.snapshot_id) for one, pin in held.items()
        } == shown, told

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
            whole = cadence.fully_filled(table.intervals, ALWAYS)
            told = "\n".join([str(entry.name), *self.said])
            for interval, minutes in self.held(table):
                for one in IntervalSet((interval,)) & whole:
                    made = T0 + timedelta(minutes=minutes)
                    assert made >= one.end, f"{told}\n{one} made at {made}"
            if due:
                assert whole.ranges[-1].end == cadence.due_until(self.planned), told

    def held(self, table: PhysicalTable) -> list[tuple[Interval, int]]:
        """Return what a table's rows were made of, and when (minutes)."""
        return [(Interval.parse(text), minutes) for text, minutes in self.content(table, None)]

    def content(self, table: PhysicalTable, snapshot: int | None) -> Any:
        """Return what an Iceberg snapshot of a table holds, by default the newest."""
        metadata = self.workspace.lakehouse.table_metadata(table.ref)
        head = head_of(metadata, None) if snapshot is None else snapshot
        (found,) = [item for item in metadata["snapshots"] if item["snapshot-id"] == head]
        return json.loads(found["summary"]["fake.content"])


def search(world: World, seed: int, steps: int) -> Counter[str]:
    """Run by clocks that are wrong now and then, and right again before those times come.

    Returns:
        How often what was done.

    Raises:
        AssertionError: A version shows something else than it has to; says all that was done.
    """
    counts = Counter[str]()
    rng, postgres = random.Random(seed), not world.workspace.store.database.is_sqlite
    for _ in range(steps):
        before = world.right.now()
        if postgres:  # What is more than some seconds is refused.
            off = timedelta(seconds=rng.choice((0, -29, 29, rng.uniform(-29, 29))))
        else:
            hours = rng.choice((0, 24, 3, -1, -0.2, 0.7, rng.uniform(-30, 30)))
            off = timedelta(hours=hours)
        restate = None
        if rng.random() < 0.3:
            day = T0 + timedelta(days=rng.randrange(0, 3))
            restate = Interval(day, day + timedelta(days=1))
        world.run(off, rng.randrange(len(world.machines)), restate=restate)
        counts["restatements" if restate else "runs by wrong clocks" if off else "runs"] += 1
        if off > timedelta() and not postgres:
            soon = rng.uniform(0, 1) * off - (world.right.now() - before)
            world.right.time += max(soon, timedelta(minutes=1))
            if world.right.now() < before + off:
                world.run(timedelta(), rng.randrange(len(world.machines)))
        world.right.advance(minutes=rng.choice((7, 31, 60, 61, 333, 1440, 1507)))
        world.run(timedelta())
        world.check(due=True)
        if rng.random() < 0.4:
            world.freeze(rng)
    for version, (_, shown) in world.shown.items():
        assert world.pinned(version) == shown, "\n".join([f"version {version}", *world.said])
    counts["versions"] = len(world.shown)
    return counts


def attack(root: Path, seed: int) -> Counter[str]:
    """Let a long history happen on a state in a file; see `search`."""
    world = World(root, f"sqlite:///{root / 'vde.db'}")
    try:
        return search(world, seed, 15)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}\n{error}") from error
    finally:
        world.close()
