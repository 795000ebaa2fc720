"""A sample of the crash sweep with the catalog and the state in PostgreSQL."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster_tests.faults import MODES, Fault
from vde_dagster_tests.lakehouse.oracle import Seen, look
from vde_dagster_tests.lakehouse.protocol import World, close_connections, fast_folder
from vde_dagster_tests.lakehouse.test_crash_sweep import (
    OPERATIONS,
    Operation,
    check_nothing_is_left,
    interrupt,
    occurrences,
    points_of,
    recover,
    shape,
)
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = pytest.mark.server


class Copies:
    """A prepared database and warehouse, and copies of them to break."""

    def __init__(self, server: PostgresServer, empty: str, operation: Operation) -> None:
        self.server = server
        self.folder = Path(fast_folder())
        self._template = server.create_database(empty)
        clock = FakeClock()
        world = World(server.url(self._template), self.folder / "warehouse", clock)
        world.process().lakehouse.catalog.create_namespaces({"vde_physical": {}})
        operation.before(world)
        self.old: Seen = look(world.url)
        self._time = clock.time
        close_connections(world.url)
        self._kept = self.folder / "kept"
        if world.warehouse.exists():
            shutil.copytree(world.warehouse, self._kept)
        else:
            self._kept.mkdir()
        self._current: str | None = None

    def fresh(self) -> World:
        """Throw the last copy away and make another; files lie where their pointers say."""
        name = self._current
        self._drop()
        shutil.rmtree(self.folder / "warehouse", ignore_errors=True)
        shutil.copytree(self._kept, self.folder / "warehouse")
        # The same name, so that what SQLAlchemy has compiled for it is of use again.
        self._current = self.server.create_database(self._template, name)
        clock = FakeClock(self._time)
        return World(self.server.url(self._current), self.folder / "warehouse", clock)

    def close(self) -> None:
        """Remove everything."""
        self._drop()
        self.server.drop_database(self._template)
        shutil.rmtree(self.folder)

    def _drop(self) -> None:
        if self._current is not None:
            close_connections(self.server.url(self._current))
            self.server.drop_database(self._current)
            self._current = None


@pytest.fixture(params=OPERATIONS, ids=lambda operation: operation.name)
def operation(request: pytest.FixtureRequest) -> Operation:
    chosen: Operation = request.param
    return chosen


@pytest.fixture
def copies(postgres: PostgresServer, empty_postgres: str, operation: Operation) -> Iterator[Copies]:
    made = Copies(postgres, empty_postgres, operation)
    yield made
    made.close()


@pytest.mark.turns(4)
def test_old_or_new_and_a_retry_finishes(copies: Copies, operation: Operation) -> None:
    world = copies.fresh()
    points = occurrences(points_of(operation, world))
    new = look(world.url)
    chance = random.Random(f"postgres {operation.name}")
    for _ in range(15):
        world = copies.fresh()
        (point, occurrence), mode = chance.choice(points), chance.choice(MODES)
        acknowledged = interrupt(operation, world, Fault(point, mode, occurrence, 600))
        seen = look(world.url)
        where = f"{operation.name}: {mode} at {point} ({occurrence})"
        assert shape(seen) in (shape(copies.old), shape(new)), where
        if acknowledged and mode != "stall":
            assert shape(seen) == shape(new), where
        recover(operation, world)
        assert shape(look(world.url)) == shape(new), where
        check_nothing_is_left(world)
