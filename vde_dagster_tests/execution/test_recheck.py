"""What a dead process left behind is audited again before anybody may use it.

A process dies between Iceberg's commit and its record, so that nobody knows whether its rows
passed their audits. Taken over unseen, rows that a blocking audit refuses would be published.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import AuditFailedError
from vde_dagster.execution.apply.fill_range import Auditor, RangeFiller
from vde_dagster_tests.execution.crash_world import FILES, World, apply_again, apply_stored
from vde_dagster_tests.execution.look import look
from vde_dagster_tests.faults import ProcessKilled
from vde_dagster_tests.lakehouse.protocol import fast_folder
from vde_dagster_tests.projects import ProjectFolder

COMMANDS = {"apply": apply_again, "run of a stored plan": apply_stored}
LAST_BATCH = {"apply": 2, "run of a stored plan": 1}
"""Three days of `marts.daily` are two batches in the first apply; a run has two days, one batch."""


class DiesAfterCommit:
    """A port for effects that kills the process right after the n-th commit to `marts.daily`."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._armed = self._dead = False

    @contextmanager
    def at(self, point: str, detail: str = "") -> Iterator[None]:
        if self._dead:
            raise ProcessKilled(point)
        yield
        if point == "engine.fill.file" and "daily" in detail:
            self._left -= 1
            self._armed = self._left == 0
        elif point == "engine.fill.commit" and self._armed:
            self._dead = True
            raise ProcessKilled(point)


@contextmanager
def world_of(command: str, empty_database: Path) -> Iterator[World]:
    """A world in which the last days of `marts.daily` were filled by a process that died at once.

    By now its audit finds rows.
    """
    folder = Path(fast_folder())
    try:
        ProjectFolder(folder / "project", FILES)
        (folder / "project" / ".vde").mkdir()
        shutil.copy(empty_database, folder / "project" / ".vde" / "vde.db")
        world = World(folder)
        if command != "apply":
            apply_again(world.process())
            world.clock.advance(days=2)
            world.process().plans.due("prod")
        with pytest.raises(ProcessKilled):
            COMMANDS[command](world.process(DiesAfterCommit(LAST_BATCH[command])))
        world.clock.advance(minutes=20)
        world.failing = ("marts.daily",)
        yield world
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("command", COMMANDS)
def test_rows_left_by_a_dead_process_are_audited_before_they_are_used(
    command: str, empty_database: Path
) -> None:
    with world_of(command, empty_database) as world:
        before = look(world.url).visible()
        with pytest.raises(AuditFailedError):
            COMMANDS[command](world.process())
        assert look(world.url).visible() == before
        world.failing = ()
        COMMANDS[command](world.process())
        assert look(world.url).visible() != before


@pytest.mark.parametrize("command", COMMANDS)
def test_without_the_second_audit_refused_rows_would_be_published(
    command: str, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recover, audit = RangeFiller.recover, Auditor.audit
    recovering = []

    def noted(*arguments: Any, **named: Any) -> Any:
        recovering.append(True)
        try:
            return recover(*arguments, **named)
        finally:
            recovering.pop()

    def skipped(self: Auditor, *arguments: Any) -> None:
        if not recovering:
            audit(self, *arguments)

    monkeypatch.setattr(RangeFiller, "recover", noted)
    monkeypatch.setattr(Auditor, "audit", skipped)
    with world_of(command, empty_database) as world:
        before = look(world.url).visible()
        COMMANDS[command](world.process())
        assert look(world.url).visible() != before
