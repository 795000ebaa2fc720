"""Audits of an environment's published rows: nothing is filled or published."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError
from vde_dagster.execution.apply.worker_pool import run_graph
from vde_dagster.execution.pinned_reads import with_pinned_tables
from vde_dagster.execution.plan_tasks import AuditTasks
from vde_dagster.execution.plans.gather_state import complete_state
from vde_dagster.execution.published_version import named_environment
from vde_dagster.planning.engine_tasks import AuditResult
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.snapshot import Snapshot, sort_parents_first
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.model import Audit
from vde_dagster.project.selection import select
from vde_dagster.state.plans.audits import AuditRun

if TYPE_CHECKING:
    from datetime import datetime

    from vde_dagster.execution.handles import Handles


@dataclass(frozen=True, slots=True)
class AuditedRange:
    """The result of one audit in one range (UTC) of a model."""

    model: ModelName
    audit: Audit
    interval: Interval
    result: AuditResult


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Results of the audits of an environment, parents before children, and models never filled."""

    run: AuditRun
    results: tuple[AuditedRange, ...]
    unbuilt: tuple[ModelName, ...] = ()

    @property
    def failed(self) -> tuple[AuditedRange, ...]:
        return tuple(result for result in self.results if result.result.failed_rows)

    @property
    def is_blocked(self) -> bool:
        """Whether an audit found rows that would block a publication."""
        return any(result.audit.blocking for result in self.failed)


def audit_environment(
    handles: Handles, environment: str, patterns: Sequence[str], labels: Collection[str] | None
) -> AuditReport:
    """Audit an environment's published tables and store the results; empty `patterns` means all."""
    store, shown = handles.store, named_environment(handles, environment)
    store.project.require_own()
    run = AuditRun(f"audit-{shown.name}-{uuid.uuid4().hex[:10]}", shown.name, shown.version)
    state = complete_state(store, shown, None, ())
    resolver = with_pinned_tables(handles, state.resolver(shown))
    now = store.database.clock.now()
    tasks = AuditTasks(run.id, now, resolver, handles.settings.catalog)
    entries = shown.entries
    snapshots = sort_parents_first(
        {name: state.snapshots[one.snapshot_id] for name, one in entries.items()}
    )
    tables = {name: state.tables[one.table_id] for name, one in entries.items() if one.table_id}
    models = {name: snapshot.model for name, snapshot in snapshots.items()}
    chosen = select(models, patterns, handles.changed_files)
    work = {
        name: _audited_ranges(snapshot, tables.get(name), now)
        for name, snapshot in snapshots.items()
        if name in chosen
        and snapshot.model.audits
        and (name in tables or snapshot.model.kind.is_audited)
    }
    found: dict[ModelName, list[AuditedRange]] = {name: [] for name in work}

    def wanted(audit: Audit) -> bool:
        return labels is None or audit.label in labels

    def audit(name: ModelName) -> None:
        table = tables.get(name)
        for interval in work[name]:
            made = list(tasks.create(snapshots[name], table, interval, chosen=wanted))
            results = handles.engine().audit_all([task for _, task in made])
            for (one, task), result in zip(made, results, strict=True):
                store.audits.save(task, table.id if table else None, result, run=run)
                found[name].append(AuditedRange(name, one, interval, result))

    graph: dict[ModelName, set[ModelName]] = {name: set() for name in work}
    with handles.stoppable(run.id) as stop:
        try:
            ended = run_graph(graph, audit, threads=handles.settings.concurrency, stop=stop)
        finally:
            if any(found.values()):
                store.audits.finish(run)
        for name, error in ended.failed.items():
            raise ExecutionError(f"{name}: its audits could not run: {error}") from error
        if stop.is_set():
            raise ExecutionError("the audits were canceled", hint="results so far are kept")
    results = []
    for items in found.values():
        labelled = list(dict.fromkeys(item.audit.label for item in items))
        results += sorted(items, key=lambda i: (labelled.index(i.audit.label), i.interval))
    return AuditReport(run, tuple(results), tuple(name for name in work if not work[name]))


def _audited_ranges(
    snapshot: Snapshot, table: PhysicalTable | None, now: datetime
) -> Sequence[Interval]:
    # For a table that is replaced as a whole, this is only the last filled range.
    if table is None:
        return [snapshot.cadence.latest_slot(now)]
    ranges = table.intervals.ranges
    return ranges if snapshot.is_incremental else ranges[-1:]
