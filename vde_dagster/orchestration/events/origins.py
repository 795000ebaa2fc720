"""Whose work a change of the state was: that of a run of this Dagster instance, or another's."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.orchestration.events.plan_partitions import UNFINISHED

if TYPE_CHECKING:
    from vde_dagster.state import StateStore

SENSOR = "sensor"
"""Stands for a run's id in what the sensors write: they ask for the pages of their own plans."""


def origin_of(instance: dg.DagsterInstance, run_id: str) -> str:
    """Return how the state knows the work of a run; see `Database.origin`.

    Args:
        instance: The Dagster instance, told from all others by its storage of runs.
        run_id: The run, or `SENSOR`.
    """
    named = getattr(instance.run_storage, "get_run_storage_id", None)
    return f"{named() if named is not None else 'dagster'}/{run_id}"


@contextmanager
def telling(
    store: StateStore, instance: dg.DagsterInstance, wait_seconds: float = 0.0
) -> Iterator[None]:
    """Let nobody else tell the same instance meanwhile.

    Args:
        store: The state store.
        instance: The Dagster instance.
        wait_seconds: How long to wait for somebody who does.

    Raises:
        ConflictError: Somebody else does.
    """
    resource = origin_of(instance, "told")
    owner = f"process {os.getpid()}, {uuid.uuid4().hex[:8]}"
    with store.leases.holding(f"dagster/{resource}", owner, wait_seconds=wait_seconds):
        yield


@dataclass
class Origins:
    """Tells the work of this instance's runs from that of others.

    Args:
        instance: The Dagster instance.
    """

    instance: dg.DagsterInstance
    _statuses: dict[str, dg.DagsterRunStatus | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._prefix = origin_of(self.instance, "")

    def origin(self, run_id: str) -> str:
        """Return how the state knows the work of a run."""
        return f"{self._prefix}{run_id}"

    def run_of(self, origin: str) -> str | None:
        """Return the run of this instance (or `SENSOR`) that an origin names; else None."""
        return origin.removeprefix(self._prefix) if origin.startswith(self._prefix) else None

    def is_working(self, run_id: str) -> bool:
        """Say whether a run may still write events."""
        return self._status(run_id) in UNFINISHED

    def told_all(self, run_id: str) -> bool:
        """Say whether a run has written every event of its work."""
        return run_id == SENSOR or self._status(run_id) == dg.DagsterRunStatus.SUCCESS

    def unfinished(self) -> list[str]:
        """Return the origins of the runs that may still write events."""
        wanted = dg.RunsFilter(statuses=UNFINISHED)
        return [
            origin_of(self.instance, run.run_id) for run in self.instance.get_runs(filters=wanted)
        ]

    def _status(self, run_id: str) -> dg.DagsterRunStatus | None:
        # A run that has ended stays so; one that works is asked again the next time.
        if run_id not in self._statuses:
            run = self.instance.get_run_by_id(run_id) if run_id != SENSOR else None
            self._statuses[run_id] = run.status if run is not None else None
        return self._statuses[run_id]
