"""Batches at the same time: killed at any side effect, failing, stalled; another finishes."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from vde_dagster.errors import VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster_tests.execution.crash_world import World, check_nothing_is_left
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.execution.look import look
from vde_dagster_tests.execution.test_batch_concurrency import DAYS, MODEL, NOW, time_range
from vde_dagster_tests.faults import Fault, FaultInjector, Mode, ProcessKilled
from vde_dagster_tests.lakehouse.protocol import fast_folder
from vde_dagster_tests.projects import ProjectFolder

SAMPLES = int(os.environ.get("VDE_SWEEP_SAMPLES", "5"))
SEED = os.environ.get("VDE_SWEEP_SEED", "1")
DYING: tuple[Mode, ...] = ("kill_before", "kill_after", "fail_once", "lose_answer")
KILLED = {
    "models/m.sql": MODEL.format("m", time_range(3)),
    "models/n.sql": """
        MODEL (name db.n, kind FULL);
        SELECT day, n FROM db.m
    """,
}


def go(workspace: Workspace) -> object:
    """Fill what is due: `vde apply prod`, and once there is production `vde run prod`."""
    shown = workspace.store.environments.get("prod") is not None
    plan = workspace.plans.due("prod") if shown else workspace.plan("prod")
    return workspace.apply(plan, concurrency=3, who="me")


@contextmanager
def fresh_world(empty_database: Path, *, first: bool) -> Iterator[World]:
    """A world in which twelve days are to be filled, or five more of seven."""
    root = Path(fast_folder())
    try:
        ProjectFolder(root / "project", KILLED)
        (root / "project" / ".vde").mkdir()
        shutil.copy(empty_database, root / "project" / ".vde" / "vde.db")
        world = World(root)
        world.clock.time = NOW
        if not first:
            world.clock.time = NOW.replace(day=8)
            go(world.process())
            world.clock.advance(days=5)
        yield world
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize("first", [True, False], ids=["first apply", "run"])
def test_whatever_a_batch_dies_of_and_when_nothing_is_lost_or_done_twice(
    first: bool, empty_database: Path
) -> None:
    print(f"VDE_SWEEP_SEED={SEED}")
    chance = random.Random(f"{SEED} {first}")
    with fresh_world(empty_database, first=first) as world:
        injector = FaultInjector(clock=world.clock, in_process=True)
        go(world.process(injector))
        points = injector.passed
    assert {"fill.drop_scratch.file", "engine.fill.file"} <= set(points)
    for number in range(SAMPLES):
        # Which batch is where at that time is chance, too.
        place = chance.randrange(len(points))
        fault = Fault(points[place], chance.choice(DYING), points[: place + 1].count(points[place]))
        check_death(fault, number % 2 == 0, empty_database, first=first)


def check_death(fault: Fault, clean: bool, empty_database: Path, *, first: bool) -> None:
    """Let a fault strike, let another process finish, and check all that has to hold."""
    with fresh_world(empty_database, first=first) as world:
        before = look(world.url).visible()
        done = False
        with suppress(ProcessKilled, VdeError):
            go(world.process(FaultInjector(fault, clock=world.clock, in_process=True)))
            done = True
        found = look(world.url).visible()
        world.clock.advance(minutes=20)
        go(world.process())
        after = look(world.url)
        assert found in (before, after.visible()), fault
        assert not done or found == after.visible(), fault
        spans = [end - start for held in after.filled.values() for start, end in held]
        assert DAYS * 86400.0 in spans, fault
        if clean:
            check_nothing_is_left(world)


def test_a_stalled_process_and_its_successor_leave_each_range_once(empty_database: Path) -> None:
    with fresh_world(empty_database, first=True) as world:
        lock, stalled = threading.Lock(), threading.Event()

        class Stalls(FakeSpark):
            """Lets another process do everything while its third batch is written."""

            number = 0

            def fill(self, task: FillTask) -> FillResult:
                with lock:
                    self.number += 1
                    if self.number == 3:
                        world.clock.advance(minutes=20)
                        go(world.process())
                        stalled.set()
                return super().fill(task)

        with suppress(VdeError):
            go(open_fake(world.folder / "project", Stalls(), clock=world.clock))
        assert stalled.is_set()
        check_nothing_is_left(world)
