"""Random histories of applies, rollbacks, freezes, crashes, stalls, readers and clean-ups.

Operations run on the fake engine and a clock that the machine moves. At a random side effect of
one operation another one may run, the process may die, or it may stall past its lease. After
every step an independent reader checks that what it sees is possible.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from vde_dagster.errors import VdeError
from vde_dagster_tests.faults import ProcessKilled
from vde_dagster_tests.lakehouse.oracle import look, pinned, query
from vde_dagster_tests.lakehouse.protocol import RETENTION, Job, Process, World, fast_folder
from vde_dagster_tests.lakehouse.test_crash_sweep import check_nothing_is_left
from vde_dagster_tests.state.builders import FakeClock, days

EMPTY: list[Path] = []

MODELS = st.dictionaries(
    st.sampled_from(["orders", "names"]), st.sampled_from(["1", "2"]), min_size=1, max_size=2
)
OPERATIONS = st.one_of(
    st.tuples(st.just("apply"), st.sampled_from(["prod", "dev"]), MODELS, st.integers(1, 3)),
    st.tuples(st.just("rollback"), st.sampled_from(["prod", "dev"]), st.integers(1, 4)),
    st.tuples(st.just("rollback of data"), st.sampled_from(["prod", "dev"]), st.integers(1, 4)),
    st.tuples(st.just("freeze"), st.sampled_from(["prod", "dev"]), st.integers(0, 3)),
    st.tuples(st.just("resume"), st.integers(0, 5)),
    st.tuples(st.just("expire"), st.sampled_from(["dev", "close"])),
    st.tuples(st.just("janitor")),
)


class Interruptions:
    """A port for effects that pauses, stalls or kills at the n-th side effect."""

    def __init__(
        self, pause_at: int, pause: Callable[[], None], kill_at: int | None, after: bool
    ) -> None:
        self._pause_at, self._pause = pause_at, pause
        self._kill_at, self._after = kill_at, after
        self._count = 0
        self._dead = False

    @contextmanager
    def at(self, point: str, detail: str = "") -> Iterator[None]:
        if self._dead:
            raise ProcessKilled(point)
        if " " in point:  # a statement of a transaction, which is whole or not at all
            yield
            return
        self._count += 1
        number = self._count
        # A pause inside a transaction would only make the others wait for the database.
        if number == self._pause_at and not point.endswith(".commit"):
            self._pause()
        if number == self._kill_at and not self._after:
            self._die(point)
        yield
        if number == self._kill_at and self._after:
            self._die(point)

    def _die(self, point: str) -> None:
        self._dead = True
        raise ProcessKilled(point)


@dataclass
class Reading:
    """A reader that looked up a metadata file, and may go on reading for the grace time."""

    path: Path
    until: datetime


class Protocol(RuleBasedStateMachine):
    """The machine."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(fast_folder())
        shutil.copy(EMPTY[0], self.folder / "vde.db")
        self.clock = FakeClock()
        url = f"sqlite:///{self.folder / 'vde.db'}"
        self.world = World(url, self.folder / "warehouse", self.clock)
        self.world.process().lakehouse.catalog.create_namespaces({"vde_physical": {}})
        self.jobs: list[Job] = []
        self.readings: list[Reading] = []
        self.acknowledged: dict[str, int] = {}
        self.kept: dict[tuple[str, int, str], list[str]] = {}

    def teardown(self) -> None:
        self.clock.advance(minutes=20)
        self.readings.clear()
        check_nothing_is_left(self.world)
        look(self.world.url)
        shutil.rmtree(self.folder)

    @rule(
        operation=OPERATIONS,
        pause_at=st.integers(1, 20),
        meanwhile=st.none() | OPERATIONS,
        stalls=st.booleans(),
        kill_at=st.none() | st.integers(1, 40),
        after=st.booleans(),
    )
    def operate(
        self,
        operation: tuple[Any, ...],
        pause_at: int,
        meanwhile: tuple[Any, ...] | None,
        stalls: bool,
        kill_at: int | None,
        after: bool,
    ) -> None:
        """Run an operation; at some point others act, or it stalls, or it dies."""
        work = self._prepare(operation)

        def pause() -> None:
            if stalls:
                self.clock.advance(minutes=10)
            if meanwhile is not None:
                self._attempt(self._prepare(meanwhile), self.world.process(name="ben"))

        effects = Interruptions(pause_at, pause, kill_at, after)
        self._attempt(work, self.world.process(effects, name="anna"))

    @rule(hours=st.sampled_from([0.1, 3, 30, 24 * 40]))
    def wait(self, hours: float) -> None:
        """Time passes."""
        self.clock.advance(hours=hours)

    @rule()
    def read(self) -> None:
        """A reader looks up every view's table, and goes on reading for a while."""
        until = self.clock.now() + RETENTION.grace
        for (location,) in query(
            self.world.url,
            "SELECT metadata_location FROM iceberg_tables WHERE metadata_location IS NOT NULL",
        ):
            self.readings.append(Reading(Path(location.removeprefix("file://")), until))

    @invariant()
    def what_is_seen_is_possible(self) -> None:
        """Views, tables, environments and filled intervals agree; files are there."""
        seen = look(self.world.url)
        for name, version in self.acknowledged.items():
            assert name not in seen.environments or seen.environments[name][0] >= version

    @invariant()
    def what_a_version_pins_stays_what_it_was(self) -> None:
        """Each kept version of a live environment reads the same rows for ever."""
        now = pinned(self.world.url)
        for key, rows in now.items():
            assert self.kept.setdefault(key, rows) == rows, f"{key} reads other rows"
        alive = {name for name, _, _ in now}
        self.kept = {key: rows for key, rows in self.kept.items() if key[0] in alive}

    @invariant()
    def readers_are_not_disturbed(self) -> None:
        """What a reader has looked up stays for the grace time."""
        now = self.clock.now()
        self.readings = [reading for reading in self.readings if reading.until > now]
        for reading in self.readings:
            assert reading.path.exists(), "a file went away under a reader"

    @invariant()
    def no_version_was_made_from_another_than_the_one_before(self) -> None:
        """Nobody undoes what others published without having seen it."""
        rows = query(
            self.world.url,
            "SELECT v.version, p.base_version FROM vde_environment_versions v "
            "JOIN vde_plans p ON p.plan_id = v.plan_id WHERE p.base_version > 0",
        )
        assert all(version == base + 1 for version, base in rows)

    def _prepare(self, operation: tuple[Any, ...]) -> Callable[[Process], Any]:
        kind = operation[0]
        if kind == "apply":
            _, name, models, count = operation
            current = self.world.process().store.environments.get(name)
            job = Job(
                f"p{len(self.jobs)}",
                name,
                current.version if current else 0,
                tuple(sorted(models.items())),
                days(*range(count)),
            )
            self.jobs.append(job)
            return lambda process: process.apply(job)
        if kind == "resume" and self.jobs:
            job = self.jobs[-1 - operation[1] % len(self.jobs)]
            return lambda process: process.apply(job)
        if kind == "rollback":
            _, name, back = operation
            return lambda process: _rollback(process, name, back)
        if kind == "rollback of data":
            _, name, back = operation
            return lambda process: _rollback(process, name, back, data=True)
        if kind == "freeze":
            _, name, back = operation
            return lambda process: _freeze(process, name, back)
        if kind == "expire":
            return lambda process: process.store.environments.invalidate(operation[1])
        return lambda process: process.janitor()

    def _attempt(self, work: Callable[[Process], Any], process: Process) -> None:
        try:
            result = work(process)
        except (VdeError, ProcessKilled):
            return
        version, name = getattr(result, "version", None), getattr(result, "name", None)
        if version is not None and name is not None:
            self.acknowledged[name] = max(version, self.acknowledged.get(name, 0))


def _rollback(process: Process, name: str, back: int, *, data: bool = False) -> Any:
    version = _restorable(process, name, back)
    if version is None:
        return None
    return process.roll_back_data(name, version) if data else process.rollback(name, version)


def _freeze(process: Process, name: str, back: int) -> Any:
    version = _restorable(process, name, back)
    return None if version is None else process.freeze(name, version, "close")


def _restorable(process: Process, name: str, back: int) -> int | None:
    """Return the number of a version that is kept with its tables."""
    current = process.store.environments.get(name)
    if current is None:
        return None
    old = process.store.versions.at(name, current.version - back)
    if old is None:
        return None
    ids = [entry.table_id for entry in old.entries.values() if entry.table_id]
    if not old.entries or len(process.store.tables.load(ids)) < len(set(ids)):
        return None
    return old.version


@pytest.mark.parametrize("examples", [6, pytest.param(30, marks=pytest.mark.server)])
def test_no_history_leads_to_an_impossible_state(examples: int, empty_database: Path) -> None:
    EMPTY[:] = [empty_database]
    run_state_machine_as_test(
        Protocol,
        settings=settings(
            max_examples=examples,
            stateful_step_count=14,
            deadline=None,
            # Shrinking a history takes minutes; what fails is printed step by step all the same.
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
