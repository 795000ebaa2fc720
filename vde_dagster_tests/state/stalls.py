"""Publishers on PostgreSQL that are stopped (`SIGSTOP`) at a named side effect, for good."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import psycopg

from vde_dagster.state.db import database
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.execution.workers import start
from vde_dagster_tests.faults import FaultInjector
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/base.sql": "MODEL (name m.base, start '2024-01-01', kind INCREMENTAL_BY_TIME_RANGE "
    "(time_column ts, batch_size 200)); SELECT @start_dt AS ts, 0 AS n",
    **{
        f"models/total{number}.sql": f"MODEL (name m.total{number}, kind FULL); "
        f"SELECT sum(n) AS n FROM m.base WHERE n > {number}"
        for number in range(8)
    },
    "models/top.sql": "MODEL (name m.top, kind VIEW); SELECT n FROM m.total1",
}
_OPEN = (
    "SELECT state FROM pg_stat_activity WHERE datname = current_database() "
    "AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
)


class NotReachedError(Exception):
    """A publisher ended before it came to a side effect: threads pass them in another order."""


class Stopping:
    """A port that stops its process at one passage of a side effect.

    Args:
        point: The side effect's name; statements are named as in `faults`.
        occurrence: The passage, from 1.
        marker: A file that is made just before.
        after: Whether it stops behind the effect, and not before.
    """

    def __init__(self, point: str, occurrence: int, marker: Path, *, after: bool) -> None:
        self._point, self._left = point, occurrence
        self._marker, self._after = marker, after

    def at(self, point: str, detail: str = "") -> AbstractContextManager[None]:
        return self._at(point)

    @contextmanager
    def _at(self, point: str) -> Iterator[None]:
        self._left -= point == self._point
        stops = point == self._point and self._left == 0
        if stops and not self._after:
            self._stop()
        yield
        if stops and self._after:
            self._stop()

    def _stop(self) -> None:
        self._marker.touch()
        os.kill(os.getpid(), signal.SIGSTOP)


def make_project(root: Path, url: str) -> Path:
    """Write a project of ten models whose state is in a database."""
    settings = f'[tool.vde]\nid = "aaaa"\nstate_url = "{url}"\nwarehouse = "{root / "warehouse"}"\n'
    return ProjectFolder(root / "project", {**FILES, "pyproject.toml": settings}).root


def passed_points(project: Path, environment: str) -> list[str]:
    """Publish an environment, and return the side effects that it passes, in order."""
    injector = FaultInjector()
    with open_fake(project, FakeSpark(), effects=injector) as workspace:
        assert workspace.apply(workspace.plan(environment)).published
    return injector.passed


def publish(project: Path, environment: str, stopping: Stopping, idle_seconds: float) -> None:
    """Publish in a process of its own, whose server ends silent transactions soon."""
    database.make_engine.__defaults__ = (idle_seconds,)
    with open_fake(project, FakeSpark(), effects=stopping) as workspace:
        workspace.apply(workspace.plan(environment))


def seconds_held(
    project: Path,
    url: str,
    environment: str,
    stop: tuple[str, int, bool],
    idle_seconds: float,
    patience: float,
) -> float | None:
    """Stop a publisher, and return for how long its transaction stays open; 0.0 without one.

    Args:
        project: The project of `make_project`.
        url: The database of its state.
        environment: The environment to publish.
        stop: The side effect's name, its passage, and whether to stop behind it.
        idle_seconds: How long a transaction may be silent.
        patience: The most seconds to look; where it is still open then the result is None.

    Raises:
        NotReachedError: The publisher ended before the side effect.
    """
    point, occurrence, after = stop
    marker = project / f"stopped-{environment}"
    stopping = Stopping(point, occurrence, marker, after=after)
    process = start(partial(publish, project, environment, stopping), idle_seconds)
    return seconds_until_ended(process, marker, url, patience)


def seconds_until_ended(
    process: BaseProcess, marker: Path, url: str, patience: float
) -> float | None:
    """Return for how long a process's transaction stays open once it stopped; kill it then.

    Args:
        process: A process that makes the marker, and then stops.
        marker: The file.
        url: The database of the transaction.
        patience: The most seconds to look; where it is still open then the result is None.

    Raises:
        NotReachedError: The process ended before it stopped.
    """
    try:
        deadline = time.monotonic() + 60
        while not marker.exists():
            if not process.is_alive():
                raise NotReachedError(marker.name)
            assert time.monotonic() < deadline, f"it did not come to {marker.name}"
            time.sleep(0.02)
        began = time.monotonic()
        with psycopg.connect(url, autocommit=True) as conn:
            while conn.execute(_OPEN).fetchall():
                if time.monotonic() - began > patience:
                    return None
                time.sleep(0.05)
        return time.monotonic() - began
    finally:
        process.kill()
        process.join()
