"""Dagster as a consumer of the state's outbox: the sensor's cursor, and forwarding of records.

Runs of this Dagster instance write the events of their own work. The sensor reads a run's records
only if the run did not succeed, because a dead process may have written no event of its last
commit. The cursor moves after the events are written. Forwarding a record twice is harmless,
because an event is looked up before it is written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType

import dagster as dg

from vde_dagster.errors import ConflictError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.ended_runs import EndedRuns
from vde_dagster.orchestration.events.plans import delete_closed_partitions
from vde_dagster.orchestration.events.projector import Projector, projection_groups
from vde_dagster.orchestration.events.provenance import Log, ProjectionContext
from vde_dagster.orchestration.events.records import (
    FinishedPart,
    Origins,
    Reporter,
    run_origin,
    working_runs,
)
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.events.time_units import RecordedUnits
from vde_dagster.orchestration.models.catalog import recent_catalog
from vde_dagster.orchestration.models.recording import filled_counts
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.state.db.outbox import OutboxRange, OutboxRecord
from vde_dagster.state.store import StateStore

MOST_RECORDS = 5_000
"""Maximum number of records per read."""
BUDGET_SECONDS = 20.0
"""Time after which remaining records are left to the next call: Dagster aborts ticks after 60 s."""
TICK_SECONDS = 10
"""Maximum time between ticks, and maximum duration of a tick."""
NOTHING_NEW = dg.SkipReason("the state has no new records")
_OTHER_UNIT = dg.SkipReason(
    "wrote events of partitions that have another time unit now: the next tick continues"
)


@contextmanager
def forwarding_lease(
    store: StateStore, instance: dg.DagsterInstance, wait_seconds: float = 0.0
) -> Iterator[None]:
    """Hold the lease for forwarding records to a Dagster instance, or raise ConflictError."""
    resource = run_origin(instance, "told")
    with store.leases.holding(f"dagster/{resource}", wait_seconds=wait_seconds):
        yield


@dataclass(frozen=True, slots=True)
class OutboxCursor:
    """Position of the last outbox record that the sensor has forwarded to Dagster.

    Args:
        number: Last record that was forwarded or left to a run.
        runs: Ids of runs, each with the number after which its records are unforwarded.
        compared: Last finished step of a comparison that continues later, or '' if no step is
            finished; None if no comparison has to continue.
        part: Last forwarded part of the next record, if that record is only partly forwarded.
    """

    store: str
    number: int
    runs: dict[str, int] = field(default_factory=dict)
    compared: str | None = None
    part: str | None = None

    @classmethod
    def parse(cls, text: str | None) -> OutboxCursor | None:
        try:
            values = json.loads(text or "")
            place = str(values["store"]), int(values["number"]), dict(values["runs"])
            return cls(*place, values.get("compared"), values.get("part"))
        except (ValueError, KeyError, TypeError):
            return None

    def __str__(self) -> str:
        values = {"store": self.store, "number": self.number, "runs": self.runs}
        found = {"compared": self.compared, "part": self.part}
        return json.dumps(values | {name: one for name, one in found.items() if one is not None})

    def is_continued_by(self, known: OutboxRange) -> bool:
        """Check whether the cursor belongs to a store that still has all later records."""
        return self.store == known.store and known.oldest - 1 <= self.number <= known.newest


@dataclass
class OutboxForwarder:
    """Writes Dagster's events for records of the state's outbox, within a time budget."""

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
        self._part: str | None = None

    @cached_property
    def projector(self) -> Projector:
        # The first use loads the project.
        catalog = recent_catalog(self.workspace, self.translator)
        return Projector(ProjectionContext(self.workspace, self.instance, catalog, self.log))

    def forward_since(self, cursor: OutboxCursor) -> OutboxCursor:
        runs = dict(cursor.runs)
        for run_id, after in cursor.runs.items():
            if not self.origins.is_working(run_id):
                del runs[run_id]
                if not self.origins.has_written_all(run_id):
                    own = run_origin(self.instance, run_id)
                    rest = self._forward(self.store.outbox.by(own, after, cursor.number))
                    if rest is not None:
                        runs[run_id] = rest.number - 1
        number, left = cursor.number, None
        while left is None and (records := self.store.outbox.since(number, MOST_RECORDS)):
            others: list[OutboxRecord] = []
            for item in records:
                own_run = self.origins.find_run(item.origin)
                if own_run is not None and self.origins.is_working(own_run):
                    runs.setdefault(own_run, item.number - 1)
                elif own_run is None or not self.origins.has_written_all(own_run):
                    others.append(item)
            left = self._forward(others, cursor)
            number = left.number - 1 if left is not None else records[-1].number
        # A run whose first record lies after `number` is found again by the next tick.
        runs = {run_id: after for run_id, after in runs.items() if after < number}
        if left is not None or self.store.outbox.last_remaining():
            waiting = self._unrecorded(number) if left is not None else 0
            self.store.outbox.set_remaining(run_origin(self.instance, ""), waiting)
        delete_closed_partitions(self.workspace, self.instance)
        return OutboxCursor(cursor.store, number, runs, part=self._part)

    def _unrecorded(self, number: int) -> int:
        later = self.store.outbox.since(number, MOST_RECORDS)
        tables = {record.subject["table"] for record in later if record.kind == "fill"}
        catalog = self.projector.context.read_again().catalog
        counts, found = filled_counts(catalog), 0
        for name, model in catalog.live.models.items():
            if any(version.table and version.table.id in tables for version in model.versions):
                shown = {version.key for version in model.versions if version.environments}
                known = self.instance.get_materialized_partitions(catalog.key(name))
                own = sum(key.partition("|")[0] in shown for key in known)
                found += max(counts[name] - own, 0)
        return found

    def _forward(
        self, records: Sequence[OutboxRecord], cursor: OutboxCursor | None = None
    ) -> OutboxRecord | None:
        """Forward records until the time is up, and return the first remaining record."""
        groups = list(projection_groups(records))
        for place, group in enumerate(groups):
            if place and time.monotonic() > self._until:
                return min((left[0] for left in groups[place:]), key=lambda item: item.number)
            is_own = self.origins.find_run(group[0].origin) is not None
            begun = cursor is not None and cursor.number + 1 == group[0].number
            after = cursor.part if cursor is not None and begun else None
            for projected in self.projector.project(group, is_own=is_own, after=after):
                self.reporter.report(projected)
                is_late = cursor is not None and time.monotonic() > self._until
                if isinstance(projected, FinishedPart) and is_late:
                    self._part = projected.key
                    return group[0]
        return None


def forward_outbox(
    root: Path,
    instance: dg.DagsterInstance,
    text: str | None,
    translator: VdeTranslator,
    log: Log,
    *,
    budget_seconds: float = BUDGET_SECONDS,
    units: Mapping[str, str] = MappingProxyType({}),
) -> str | dg.SkipReason:
    """Forward new records of a project's state to a Dagster instance, and return the new cursor.

    Return a skip reason if there is nothing new, or if another process forwards records. Without a
    usable cursor, everything is compared, as `vde sync` does, but no asset is wiped.

    Args:
        units: Time units of the location's partitions. The events of models with other units in
            Dagster are written again.
    """
    try:
        with Workspace.open(root) as workspace:
            origins, cursor = Origins(instance), OutboxCursor.parse(text)
            known, runs = workspace.store.outbox.number(), EndedRuns(workspace, instance)
            if runs.unexamined:
                with forwarding_lease(workspace.store, instance):
                    runs.examine(translator, log)
            recorded = RecordedUnits(workspace, instance)
            if recorded.differ_from(units):
                until = time.monotonic() + budget_seconds
                with forwarding_lease(workspace.store, instance):
                    if not recorded.write_again(translator, log, until):
                        return _OTHER_UNIT
            begun: OutboxCursor | None = None
            if cursor is not None and cursor.is_continued_by(known):
                if cursor.compared is not None:
                    cursor, begun = None, cursor
                elif cursor.number == known.newest and all(map(origins.is_working, cursor.runs)):
                    return NOTHING_NEW
            else:
                # The cursor is missing, is of another store, or the store has deleted records
                # since.
                cursor = None
            with forwarding_lease(workspace.store, instance):
                if cursor is not None:
                    forwarder = OutboxForwarder(
                        workspace, instance, translator, log, budget_seconds
                    )
                    return str(forwarder.forward_since(cursor))
                if begun is None:
                    # Runs still working write their own events: a later tick checks them.
                    working = dict.fromkeys(working_runs(instance, workspace.store), 0)
                    begun = OutboxCursor(known.store, known.newest, working)
                # A comparison that took longer than its budget left its position in the cursor.
                after = begun.compared
                compare = partial(sync, workspace, instance, translator, wipe=False, log=log)
                report = compare(seconds=budget_seconds, after=after)
                return str(replace(begun, compared=None if report.complete else report.compared))
    except ConflictError as error:
        return dg.SkipReason(f"another process writes the events: {error.message}")
    except VdeError as error:
        raise dg.Failure(str(error)) from error
