"""Auditing the rows that an environment shows: nothing is filled or published."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError
from vde_dagster.execution.apply.plan_tasks import PlanTasks, Written
from vde_dagster.execution.apply.worker_pool import run_graph
from vde_dagster.execution.pinned_reads import with_held
from vde_dagster.execution.plans.make_plans import Plans
from vde_dagster.execution.published_version import named_environment
from vde_dagster.planning.engine_tasks import AuditResult
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.model import Audit
from vde_dagster.project.selection import select
from vde_dagster.state.plans.audits import AuditRun

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class AuditedRange:
    """The result of one audit in one range (UTC) of a model."""

    model: ModelName
    audit: Audit
    interval: Interval
    result: AuditResult


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The results of an environment's audits in order of its graph, and models without rows yet."""

    run: AuditRun
    results: tuple[AuditedRange, ...]
    unbuilt: tuple[ModelName, ...] = ()

    @property
    def failed(self) -> tuple[AuditedRange, ...]:
        """The results that found rows."""
        return tuple(result for result in self.results if result.result.failed_rows)

    @property
    def is_blocked(self) -> bool:
        """Whether an audit found rows that would stop a publication."""
        return any(result.audit.blocking for result in self.failed)


@dataclass
class EnvironmentAudit:
    """Audits one environment, by patterns of models and labels of audits."""

    warehouse: Warehouse
    environment: str
    patterns: Sequence[str] = ()
    labels: Collection[str] | None = None

    def __post_init__(self) -> None:
        plan = Plans(self.warehouse).as_published(self.environment)
        self.run_id = f"audit-{self.environment}-{uuid.uuid4().hex[:10]}"
        self._plan = replace(plan, id=self.run_id)
        self._tasks = PlanTasks(
            self._plan, self._resolver(self._plan), Written(), self.warehouse.settings.catalog
        )

    def run(self, stop: threading.Event) -> AuditReport:
        """Run the audits, and keep what they find; see `Environments.audit`."""
        plan, store = self._plan, self.warehouse.store
        run = AuditRun(self.run_id, self.environment, plan.base_version)
        target = plan.target
        snapshots = {one.name: target[one.name] for one in plan.models if one.name in target}
        chosen = select(
            {name: found.model for name, found in snapshots.items()},
            self.patterns,
            self.warehouse.changed_files,
        )
        work = {
            name: ranges
            for name, found in snapshots.items()
            if name in chosen and found.model.audits and (ranges := self._ranges(name)) is not None
        }
        found: dict[ModelName, list[AuditedRange]] = {name: [] for name in work}

        def audit(name: ModelName) -> None:
            table = self._table(name)
            for interval in work[name]:
                tasks = self._tasks.audits(snapshots[name], table, interval, None)
                for one, task in tasks:
                    if self.labels is None or one.label in self.labels:
                        result = self.warehouse.engine().audit(task)
                        store.audits.save(task, table.id if table else None, result, run=run)
                        found[name].append(AuditedRange(name, one, interval, result))

        try:
            ended = run_graph(
                {name: set() for name in work},
                audit,
                threads=self.warehouse.settings.concurrency,
                stop=stop,
            )
        finally:
            if any(found.values()):
                store.audits.finish(run)
        for name, error in ended.failed.items():
            raise ExecutionError(f"{name}: its audits could not be run: {error}") from error
        if stop.is_set():
            raise ExecutionError("the audits were cancelled", hint="what they found is kept")
        results = []
        for items in found.values():
            labels = list(dict.fromkeys(item.audit.label for item in items))
            results += sorted(items, key=lambda i: (labels.index(i.audit.label), i.interval))
        return AuditReport(run, tuple(results), tuple(name for name in work if not work[name]))

    def _ranges(self, name: ModelName) -> list[Interval] | None:
        """Return the ranges of a model to audit; None when it has no rows of its own."""
        snapshot, table = self._plan.target[name], self._table(name)
        if table is None:
            kind = snapshot.model.kind
            return [self._tasks.latest_slot(snapshot)] if kind.is_audited else None
        ranges = list(table.intervals)
        # Audits of a table that is made whole look at all of it, whichever slot it was made for.
        return ranges if snapshot.is_incremental else ranges[-1:]

    def _table(self, name: ModelName) -> PhysicalTable | None:
        table_id = self._plan.entries[name].table_id
        return self._tasks.target.tables[table_id] if table_id is not None else None

    def _resolver(self, plan: Plan) -> Resolver:
        """Resolve names in what is shown, with the earlier states that the environment holds."""
        store = self.warehouse.store
        ids = {entry.table_id for entry in plan.entries.values() if entry.table_id}
        shown = named_environment(self.warehouse, plan.environment)
        entries = {
            name: replace(entry, held=shown.held.get(entry.table_id or ""))
            for name, entry in plan.entries.items()
        }
        views = shown.views
        resolver = replace(plan, entries=entries).resolver(
            store.tables.load(sorted(ids)), suffix=views.suffix, mode=views.mode
        )
        return with_held(self.warehouse, resolver)
