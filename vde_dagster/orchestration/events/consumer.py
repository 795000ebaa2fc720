"""Dagster as a consumer of the state's outbox: what it is told, by whom, and how far that went.

Runs of this Dagster instance tell their work themselves; their records are looked through only when
they did not end well, as a process may have died between a commit and its event. Whatever is told
is looked for first, so telling twice is harmless: the cursor moves after the events are written.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import dagster as dg

from vde_dagster.errors import ConflictError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.plans import forget_past
from vde_dagster.orchestration.events.projector import Projector
from vde_dagster.orchestration.events.provenance import Log, ProjectionContext
from vde_dagster.orchestration.events.records import Origins, Reporter, origin_of, working_runs
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.models.catalog import load_catalog
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.state import StateStore
from vde_dagster.state.db.outbox import OutboxRange, OutboxRecord

MOST_RECORDS = 5_000
"""Read at a time."""
BUDGET_SECONDS = 20.0
"""After which a tick leaves the rest to the next one: Dagster gives up ticks of a minute."""


@contextmanager
def telling(
    store: StateStore, instance: dg.DagsterInstance, wait_seconds: float = 0.0
) -> Iterator[None]:
    """Let nobody else tell the same instance meanwhile; a ConflictError says that somebody does."""
    resource = origin_of(instance, "told")
    owner = f"process {os.getpid()}, {uuid.uuid4().hex[:8]}"
    with store.leases.holding(f"dagster/{resource}", owner, wait_seconds=wait_seconds):
        yield


@dataclass(frozen=True, slots=True)
class OutboxCursor:
    """How far the records were told to a Dagster instance.

    Args:
        number: The last record that was told or left to a run.
        runs: Runs that were working, with the number before the first of their records.
    """

    store: str
    number: int
    runs: dict[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> OutboxCursor | None:
        """Read what `str` wrote; None when it is nothing of the kind."""
        try:
            values = json.loads(text or "")
            return cls(str(values["store"]), int(values["number"]), dict(values["runs"]))
        except (ValueError, KeyError, TypeError):
            return None

    def __str__(self) -> str:
        return json.dumps({"store": self.store, "number": self.number, "runs": self.runs})

    def goes_on_to(self, known: OutboxRange) -> bool:
        """Say whether all records since then are in a store, which is the same."""
        return self.store == known.store and known.oldest - 1 <= self.number <= known.newest


@dataclass
class Teller:
    """Tells records to a Dagster instance, for as long as its budget lasts."""

    workspace: Workspace
    instance: dg.DagsterInstance
    translator: VdeTranslator
    log: Log
    budget_seconds: float = BUDGET_SECONDS

    def __post_init__(self) -> None:
        self.store = self.workspace.store
        self.reporter = Reporter(self.workspace, self.instance)
        self.origins = Origins(self.instance)
        self._until = time.monotonic() + self.budget_seconds

    @cached_property
    def projector(self) -> Projector:
        """What makes events of records; it loads the project."""
        catalog = load_catalog(self.workspace, self.translator)
        return Projector(ProjectionContext(self.workspace, self.instance, catalog, self.log))

    def tell_since(self, cursor: OutboxCursor) -> OutboxCursor:
        """Tell what is new; return how far that went."""
        runs = dict(cursor.runs)
        for run_id, after in cursor.runs.items():
            if not self.origins.is_working(run_id):
                del runs[run_id]
                if not self.origins.told_all(run_id):
                    own = origin_of(self.instance, run_id)
                    rest = self._tell(self.store.outbox.by(own, after, cursor.number))
                    if rest is not None:
                        runs[run_id] = rest.number - 1
        number, left = cursor.number, None
        while left is None and (records := self.store.outbox.since(number, MOST_RECORDS)):
            others: list[OutboxRecord] = []
            for item in records:
                own_run = self.origins.run_of(item.origin)
                if own_run is not None and self.origins.is_working(own_run):
                    runs.setdefault(own_run, item.number - 1)
                elif own_run is None or not self.origins.told_all(own_run):
                    others.append(item)
            left = self._tell(others)
            number = left.number - 1 if left is not None else records[-1].number
        # A run whose records begin after what is told so far is met again.
        runs = {run_id: after for run_id, after in runs.items() if after < number}
        forget_past(self.workspace, self.instance)
        return OutboxCursor(cursor.store, number, runs)

    def _tell(self, records: Sequence[OutboxRecord]) -> OutboxRecord | None:
        """Tell records in order; return the first that is left, when time is over."""
        for place, item in enumerate(records):
            if place and time.monotonic() > self._until:
                return item
            is_own = self.origins.run_of(item.origin) is not None
            for told in self.projector.project(item, is_own=is_own):
                self.reporter.report(told)
        return None


def tell_instance(
    root: Path,
    instance: dg.DagsterInstance,
    text: str | None,
    translator: VdeTranslator,
    log: Log,
    *,
    budget_seconds: float = BUDGET_SECONDS,
) -> str | dg.SkipReason:
    """Tell a Dagster instance what is new in a project's state; return the new cursor, or why not.

    Without a cursor, with that of another store, or when records were forgotten since, everything
    is compared, as `vde sync` does; nothing that Dagster shows is taken away by that.
    """
    try:
        with Workspace.open(root) as workspace:
            origins, cursor = Origins(instance), OutboxCursor.parse(text)
            known = workspace.store.outbox.number()
            if cursor is not None and cursor.goes_on_to(known):
                if cursor.number == known.newest and all(map(origins.is_working, cursor.runs)):
                    return dg.SkipReason("nothing is new in the state")
            else:
                cursor = None
            with telling(workspace.store, instance):
                if cursor is not None:
                    teller = Teller(workspace, instance, translator, log, budget_seconds)
                    return str(teller.tell_since(cursor))
                # What runs tell that are working now is looked through later.
                runs = dict.fromkeys(working_runs(instance, workspace.store), 0)
                report = sync(
                    workspace, instance, translator, wipe=False, seconds=budget_seconds, log=log
                )
                if not report.complete:
                    return dg.SkipReason("there is more to tell: the next tick goes on")
                return str(OutboxCursor(known.store, known.newest, runs))
    except ConflictError as error:
        return dg.SkipReason(f"somebody else tells it: {error.message}")
    except VdeError as error:
        raise dg.Failure(str(error)) from error
