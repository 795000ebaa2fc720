"""Real processes at once, on one environment and on several: exclusion, sharing, taking over."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.look import begins, look
from vde_dagster_tests.execution.workers import (
    PROCESSES,
    ShiftedClock,
    apply_slowly,
    context,
    plan_then_apply,
    start,
)
from vde_dagster_tests.projects import SHOP, ProjectFolder

SECONDS = 120.0
LATER = ShiftedClock(timedelta(minutes=5))


@pytest.fixture
def folder(tmp_path: Path, empty_database: Path) -> ProjectFolder:
    """A project whose database exists."""
    made = ProjectFolder(tmp_path / "shop", SHOP)
    (made.root / ".vde").mkdir()
    shutil.copy(empty_database, made.root / ".vde" / "vde.db")
    return made


def url(folder: ProjectFolder) -> str:
    return f"sqlite:///{folder.root / '.vde' / 'vde.db'}"


def at_once(folder: ProjectFolder, environments: list[str]) -> Counter[str]:
    """Let one process per name plan, and all of them apply at once."""
    open_fake(folder.root).snapshots()
    made = context()
    together, out = made.Barrier(len(environments)), made.Queue()
    started = [
        start(plan_then_apply, folder.root, environment, together, out)
        for environment in environments
    ]
    outcomes = Counter(out.get(timeout=SECONDS)[1].split(":")[0] for _ in started)
    for process in started:
        process.join(SECONDS)
    return outcomes


def test_eight_processes_on_one_environment_exclude_each_other(folder: ProjectFolder) -> None:
    outcomes = at_once(folder, ["prod"] * PROCESSES)
    assert outcomes == {"published": 1, "ConflictError": PROCESSES - 1}
    assert look(url(folder)).environments["prod"][0] == 1
    assert at_once(folder, ["prod"] * 2) == {"nothing to do": 2}
    folder.edit("models/marts/customers.sql", "sum(amount)", "1 + sum(amount)")
    outcomes = at_once(folder, ["prod"] * 2)
    assert outcomes == {"published": 1, "ConflictError": 1}
    assert look(url(folder)).environments["prod"][0] == 2


def test_eight_environments_share_new_tables_and_compute_each_range_once(
    folder: ProjectFolder,
) -> None:
    names = [f"dev{number}" for number in range(PROCESSES)]
    assert at_once(folder, names) == {"published": PROCESSES}
    seen = look(url(folder))
    assert sorted(seen.environments) == names
    assert len({str(models) for _, _, models in seen.environments.values()}) == 1
    assert len(seen.tables) == 4
    for name, metadata in seen.tables.items():
        commits = [commit for commit in metadata["snapshots"] if not begins(commit)]
        written = Counter(commit["summary"]["vde.interval"] for commit in commits)
        assert set(written.values()) == {1}, name


def start_slowly(folder: ProjectFolder, plan_id: str, seconds: float) -> tuple[BaseProcess, Any]:
    """Start a process, and return when it is filling a table: it holds leases, and no lock."""
    marker, out = folder.root / "filling", context().Queue()
    process = start(apply_slowly, folder.root, plan_id, seconds, marker, out)
    deadline = time.monotonic() + SECONDS
    while not marker.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process, out


def test_the_work_of_a_killed_owner_is_taken_over_at_once(folder: ProjectFolder) -> None:
    workspace = open_fake(folder.root)
    plan = workspace.plan("prod")
    owner, _ = start_slowly(folder, plan.id, SECONDS)
    assert owner.pid is not None
    os.kill(owner.pid, signal.SIGKILL)
    owner.join(SECONDS)
    assert workspace.apply(plan).published
    assert look(url(folder)).environments["prod"][0] == 1


def test_a_stopped_owner_that_wakes_up_writes_nothing_that_is_seen(folder: ProjectFolder) -> None:
    plan = open_fake(folder.root).plan("prod")
    owner, out = start_slowly(folder, plan.id, 3.0)
    assert owner.pid is not None
    os.kill(owner.pid, signal.SIGSTOP)
    assert open_fake(folder.root, clock=LATER).apply(plan).published
    before = look(url(folder)).visible()
    os.kill(owner.pid, signal.SIGCONT)
    assert out.get(timeout=SECONDS)[1] != "published"
    owner.join(SECONDS)
    assert look(url(folder)).visible() == before
