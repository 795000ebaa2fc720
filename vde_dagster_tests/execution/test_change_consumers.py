"""Consumers that die at any point, with a cursor in the state and a copy in their own database."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, StoreError, UnknownOutcomeError
from vde_dagster.state.store import StateStore
from vde_dagster_tests.execution.changes_world import World, migrated
from vde_dagster_tests.faults import Fault, FaultInjector, Mode, ProcessKilled
from vde_dagster_tests.state.builders import FakeClock

pytestmark = pytest.mark.proof

NAME, CURSOR = ModelName("shop", "orders"), "billing"
OWN_POINTS = ("asked", "begun", "half", "applied", "acknowledged")
MODES: tuple[Mode, ...] = ("kill_before", "kill_after", "lose_answer", "fail_once")
GONE, COME = ("delete", "update_before"), ("insert", "update_after")


class Copy:
    """A copy of the view, with the number of the version that it is, in one row of a database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE copy (has INTEGER, columns TEXT, rows TEXT)")
            db.execute("INSERT INTO copy VALUES (0, '[]', '[]')")
        db.close()

    def read(
        self, db: sqlite3.Connection | None = None
    ) -> tuple[int, list[str], Counter[tuple[object, ...]]]:
        own = db or sqlite3.connect(self.path)
        has, columns, rows = own.execute("SELECT has, columns, rows FROM copy").fetchone()
        if db is None:
            own.close()
        return has, json.loads(columns), Counter(tuple(row) for row in json.loads(rows))


class Consumer:
    """A process that follows the changes as docs/changes.md says.

    Args:
        world: What is published.
        store: Where its cursor is.
        copy: Its copy.
        dies_at: A point of its own at which it dies.
    """

    def __init__(self, world: World, store: StateStore, copy: Copy, dies_at: str = "") -> None:
        self.world, self.store, self.copy, self.dies_at = world, store, copy, dies_at

    def at(self, point: str) -> None:
        if point == self.dies_at:
            raise ProcessKilled(point)

    def follow(self) -> None:
        """Take what is new, once."""
        cursors, current = self.store.change_cursors, len(self.world.versions)
        since = cursors.version("prod", NAME, CURSOR)
        has = self.copy.read()[0]
        if since != has:  # It was applied, and not acknowledged.
            cursors.move("prod", NAME, CURSOR, since, has, "me")
            since = has
        before = self.world.versions.get(since)
        if since == current or (before is None and self.world.versions[current] is None):
            return
        world = self.world
        changes = world.changes(since, current) if since else world.steps(0, current)
        found = self.world.read(changes)
        self.at("asked")
        names = [name for name, _ in changes.columns][5:]
        db = sqlite3.connect(self.copy.path)
        try:
            db.execute("BEGIN IMMEDIATE")
            has, columns, rows = self.copy.read(db)
            if has != since:
                return  # Another process of this consumer was faster.
            kept = migrated(columns, rows, changes.events, names) if before else Counter()
            self.at("begun")
            for ordinal in range(max(1, len(changes.steps))):
                step = [row for row in found if row[1] == ordinal]
                gone = Counter(row[5:] for row in step if row[0] in GONE)
                come = Counter(row[5:] for row in step if row[0] in COME)
                assert gone <= kept, "taken away twice, or never given"
                kept = kept - gone + come
                db.execute("UPDATE copy SET rows = ?", (json.dumps([*kept.elements()]),))
                self.at("half")
            db.execute("UPDATE copy SET has = ?, columns = ?", (current, json.dumps(names)))
            db.commit()
        finally:
            db.close()
        self.at("applied")
        cursors.move("prod", NAME, CURSOR, since, current, "me")
        self.at("acknowledged")


def check(world: World, copy: Copy) -> None:
    """The copy is what the view showed at the version that it says it is."""
    has, columns, rows = copy.read()
    shown = world.versions[has] if has else None
    assert rows == (shown.rows() if shown else Counter()), f"seed {world.seed} at {has}"
    if shown is not None:
        assert columns == [name for name, _, _ in shown.columns]


@pytest.mark.turns(4)
@pytest.mark.parametrize("seed", range(12))
def test_who_dies_at_any_point_loses_nothing_and_applies_nothing_twice(
    seed: int, tmp_path: Path
) -> None:
    world, copy = World(500 + seed), Copy(tmp_path / "copy.db")
    url = f"sqlite:///{tmp_path / 'state.db'}"
    deaths: Counter[str] = Counter()
    ways: list[tuple[str, Fault]] = [(point, Fault()) for point in OWN_POINTS]
    ways += [("", Fault("state.cursor_moved.commit", mode)) for mode in MODES]
    world.dice.shuffle(ways)
    for point, fault in ways:
        for _ in range(world.dice.choice([1, 1, 2])):
            world.publish()
        clock = FakeClock()
        injector = FaultInjector(fault, clock=clock, in_process=True)
        store = StateStore.open(url, clock=clock, effects=injector)
        try:
            Consumer(world, store, copy, point).follow()
        except (ProcessKilled, StoreError, UnknownOutcomeError) as error:
            deaths[type(error).__name__] += 1
            assert not fault.point or injector.fired
        finally:
            store.close()
        deaths["struck"] += injector.fired
        check(world, copy)
    store = StateStore.open(url)
    Consumer(world, store, copy).follow()
    check(world, copy)
    has = copy.read()[0]
    assert store.change_cursors.version("prod", NAME, CURSOR) == has
    assert min(deaths["ProcessKilled"], deaths["struck"]) >= 3
    store.close()
    world.close()


class Slow(Consumer):
    """A consumer that somebody else overtakes between asking and applying.

    Args:
        other: The copy of the faster one.
    """

    def __init__(self, world: World, store: StateStore, copy: Copy, other: Copy) -> None:
        super().__init__(world, store, copy)
        self.other = other

    def at(self, point: str) -> None:
        if point == "asked":
            if self.other is not self.copy:
                self.world.publish()
            Consumer(self.world, self.store, self.other).follow()


def test_of_two_consumers_with_one_cursor_the_slower_one_is_told(tmp_path: Path) -> None:
    world, store = World(7, hows=("v3cow",)), StateStore.open(f"sqlite:///{tmp_path / 'vde.db'}")
    for _ in range(3):
        world.publish()
    copy = Copy(tmp_path / "copy.db")
    with pytest.raises(ConflictError, match="is at version 4, not at 0"):
        Slow(world, store, copy, Copy(tmp_path / "other.db")).follow()
    check(world, copy)
    assert store.change_cursors.version("prod", NAME, CURSOR) == 4
    store.close()
    world.close()


def test_two_processes_of_one_consumer_apply_the_same_changes_once(tmp_path: Path) -> None:
    world, store = World(7, hows=("v3cow",)), StateStore.open(f"sqlite:///{tmp_path / 'vde.db'}")
    copy = Copy(tmp_path / "copy.db")
    for _ in range(3):
        world.publish()
        Slow(world, store, copy, copy).follow()
        check(world, copy)
    assert copy.read()[0] == store.change_cursors.version("prod", NAME, CURSOR) == 3
    store.close()
    world.close()
