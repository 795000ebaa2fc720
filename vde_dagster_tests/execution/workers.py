"""What processes of their own do in the tests of concurrency; importable, so that they can start.

Every worker puts (its name, what came of it) into a queue. What commands import when they first
need it is imported here, once for all workers.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from datetime import datetime, timedelta
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import vde_dagster.execution.apply.apply
import vde_dagster.execution.plans.gather_state
import vde_dagster.planning.plan.planner
import vde_dagster.project.configuration.settings_source
import vde_dagster.project.loading.loader
import vde_dagster.state.db.migrate  # noqa: F401
from vde_dagster.errors import VdeError
from vde_dagster.state.db.effects import SystemClock
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake

PROCESSES = 8


class ShiftedClock(SystemClock):
    """A clock that is fast, for a process to which others' leases have ended."""

    def __init__(self, shift: timedelta) -> None:
        self._shift = shift

    def now(self) -> datetime:
        """Return the shifted instant (UTC)."""
        return super().now() + self._shift


def context() -> Any:
    """Return how processes are started: each a fork of a server that has imported this module."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload([__name__])
    return made


def start(target: Callable[..., None], *arguments: object) -> BaseProcess:
    """Start a process."""
    process: BaseProcess = context().Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def plan_then_apply(root: Path, environment: str, together: Barrier, out: Queue[Any]) -> None:
    """Plan, wait for the others, apply."""
    workspace = open_fake(root)
    plan = workspace.plan(environment)
    together.wait()
    try:
        result = workspace.apply(plan, who=environment)
        outcome = "published" if result.published else "nothing to do"
    except VdeError as error:
        outcome = f"{type(error).__name__}: {error}"
    out.put((environment, outcome))
    workspace.close()


def apply_slowly(root: Path, plan_id: str, seconds: float, marker: Path, out: Queue[Any]) -> None:
    """Apply a stored plan on an engine that takes its time; it marks when it has begun."""
    workspace = open_fake(root, FakeSpark(seconds=seconds, marker=marker))
    try:
        workspace.apply(workspace.store.plans.load(plan_id), concurrency=1)
        outcome = "published"
    except VdeError as error:
        outcome = f"{type(error).__name__}: {error}"
    out.put(("slow", outcome))
    workspace.close()
