"""Projector from outbox records to events, partitions and failures in Dagster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import groupby
from types import MappingProxyType

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.execution.unit_testing.test_report import TestRecord
from vde_dagster.orchestration.events.checks import AuditEvents, unit_test_event
from vde_dagster.orchestration.events.fills import (
    HeldRanges,
    ServedModel,
    fill_events,
    missing_fill_events,
)
from vde_dagster.orchestration.events.plans import (
    applied_event,
    failed_event,
    page_events,
    plan_tags,
    published_page,
    rejected_events,
)
from vde_dagster.orchestration.events.provenance import ProjectionContext, input_tags
from vde_dagster.orchestration.events.publication import Preview, publication_parts
from vde_dagster.orchestration.events.records import (
    BATCH,
    FailedWork,
    FilledPartitions,
    FinishedPart,
    NewPartition,
    Projected,
)
from vde_dagster.orchestration.events.sync import Comparison, tables_changed_by_rollback
from vde_dagster.orchestration.models.live import Combination
from vde_dagster.orchestration.names import EVALUATION
from vde_dagster.planning.environments.environment import Entry, Environment, production_first
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.project.loading.loader import project_hash
from vde_dagster.state.db.outbox import OutboxRecord

_UNENDED = ("planned", "applying")
_NOT_PROJECTED = frozenset({"begun", "computed", "broken", "waiting"})
"""Kinds of records that have no event and may occur between the fills of a plan."""


def projection_groups(records: Sequence[OutboxRecord]) -> Iterator[list[OutboxRecord]]:
    """Group consecutive fill records by plan and table. Each other record is one group."""
    seen = (record for record in records if record.kind not in _NOT_PROJECTED)
    for kind, found in groupby(seen, key=lambda record: record.kind):
        if kind != "fill":
            yield from ([record] for record in found)
            continue
        # Models that are filled in parallel write their records alternately. Groups let the events
        # of each model be written in few transactions.
        fills = list(found)
        for start in range(0, len(fills), BATCH):
            groups: dict[tuple[object, object], list[OutboxRecord]] = {}
            for record in fills[start : start + BATCH]:
                key = record.subject.get("plan"), record.subject.get("table")
                groups.setdefault(key, []).append(record)
            yield from groups.values()


@dataclass
class Projector:
    """Converts records of the state's outbox to Dagster's events.

    Args:
        live_since: Time (UTC) at which a run began to write its own events; None for the sensor.
    """

    context: ProjectionContext
    # No other process has written events of later records.
    live_since: datetime | None = None
    preview: Preview | None = None
    _waiting: dict[str, bool] = field(default_factory=dict)
    _plans: dict[str, Plan | None] = field(default_factory=dict)
    _pointers: dict[tuple[str, str], int | None] = field(default_factory=dict)
    _written: set[tuple[str, str, Interval]] = field(default_factory=set)
    _skipped: dict[str, dict[ModelName, Skipped]] = field(default_factory=dict)

    def project(
        self, group: Sequence[OutboxRecord], *, is_own: bool, after: str | None = None
    ) -> Iterator[Projected]:
        """Yield the events of a group of records, see `projection_groups`.

        Args:
            is_own: Whether a run of this Dagster instance wrote the records.
            after: Last finished part of a publication's events, after which to continue.
        """
        record = group[0]
        subject = record.subject
        plan = self.plan(subject["plan"]) if subject.get("plan") else None
        if record.kind == "published":
            version = self.context.store.versions.at(subject["environment"], subject["version"])
            if version is not None:
                yield from self._published(version, plan, is_own, after)
        elif record.kind == "audit":
            environment = self.context.store.versions.at(subject["environment"], subject["version"])
            if environment is not None:
                yield from AuditEvents(self.context).audited_alone(subject["run"], environment)
        elif record.kind == "test":
            result = TestRecord.from_json(subject)
            for snapshot in self.context.store.snapshots.load([result.snapshot]).values():
                yield unit_test_event(self.context, result, snapshot)
        elif record.kind == "rejected":
            known = self.context.store.plans.record(subject["plan"])
            if known is not None:
                yield from rejected_events(self.context.instance, self.context.names, known)
        elif plan is not None and record.kind == "plan":
            yield from self._proposed(plan, is_own)
        elif plan is not None and record.kind == "fill":
            yield from self._filled(plan, subject["table"], {one.interval for one in group})
        elif plan is not None and record.kind == "failed":
            yield from self._failed(plan, is_own)

    def begin(self, plan_id: str, table_id: str) -> None:
        """Remember Dagster's newest event before a plan fills a table, unless its events wait."""
        plan = self.plan(plan_id)
        if plan is not None and not self._waits(plan):
            self._pointer(plan, table_id)

    def plan(self, plan_id: str) -> Plan | None:
        if plan_id not in self._plans:
            self._plans[plan_id] = self.context.store.plans.find(plan_id)
        return self._plans[plan_id]

    def _pointer(self, plan: Plan, table_id: str) -> int | None:
        if (plan.id, table_id) not in self._pointers:
            self._pointers[plan.id, table_id] = self.context.newest_record()
        return self._pointers[plan.id, table_id]

    def _waits(self, plan: Plan) -> bool:
        # A plan that fills a published table keeps its fills on branches until its publication.
        # Their events wait as long, because events must be in the order of the work.
        if plan.id not in self._waiting:
            shown = {
                table
                for environment in self.context.catalog.live.environments.values()
                for table in environment.tables
            }
            self._waiting[plan.id] = any(m.table and m.table.id in shown for m in plan.builds)
        return self._waiting[plan.id]

    def _is_shown(self, plan: Plan) -> bool:
        # Fills on demand have no page, because they need no approval.
        names = self.context.names
        return self.context.instance.has_dynamic_partition(str(names.plans.name), plan.id)

    def _proposed(self, plan: Plan, is_own: bool) -> Iterator[Projected]:
        plans, root = self.context.store.plans, self.context.workspace.root
        if (self._is_shown(plan) or not is_own) and not plans.closed_to_approval(
            [plan.id], project_hash(root)
        ):
            yield from self._page(plan)

    def _page(self, plan: Plan) -> Iterator[Projected]:
        names = self.context.names
        yield NewPartition(names.plans, plan.id)
        if self.context.latest(names.plan_key, plan.id) is None:
            yield from page_events(self.context, plan)

    def _filled(self, plan: Plan, table_id: str, filled: Set[Interval]) -> Iterator[Projected]:
        if not self._waits(plan):
            yield from self._fills(plan, table_id, only=filled)
        # Deferred events are written when the plan has ended.
        elif self.context.store.plans.statuses([plan.id]).get(plan.id) not in _UNENDED:
            yield from self._all_fills(plan)
            yield from self._fills(plan, table_id)

    def _fills(
        self, plan: Plan, table_id: str, only: Set[Interval] | None = None
    ) -> Iterator[Projected]:
        context, fills = self.context, self.context.store.fills

        def is_new(part: Interval) -> bool:
            return (plan.id, table_id, part) not in self._written

        left = only if only is None else set(filter(is_new, only))
        table = context.store.tables.load([table_id]).get(table_id)
        if table is None or (left is not None and not left):
            return
        alone = next(iter(left)) if left is not None and len(left) == 1 else None
        log = fills.log(table_id, plan.id, alone)[::-1]
        combination = Combination.from_entries(plan.entries, plan.snapshots, plan.tables)
        shown = (name for name, _ in context.store.shown.entries_on_tables([table_id]))
        environments = tuple(sorted({plan.environment, *shown}, key=production_first))
        models = [
            ServedModel(plan.snapshots[model.snapshot_id], table, combination, environments)
            for model in plan.models
            # If another process created the table first, the plan fills that table.
            if model.table and model.snapshot_id and model.table.version == table.version
        ]
        names = {served.snapshot.name for served in models}
        planned = [part for model in plan.builds if model.name in names for part in model.intervals]
        ranges = planned if only is not None and planned else [fill.interval for fill in log]
        wanted = is_new if left is None else left.__contains__
        new = [fill for fill in log if wanted(fill.interval)]
        if not new:
            return
        self._written.update((plan.id, table_id, fill.interval) for fill in new)
        pointer, last = self._pointer(plan, table_id), max(part.end for part in ranges)
        for served in models:
            inputs = input_tags(context, served.combination, served.snapshot, pointer)
            held = HeldRanges(table, partial(fills.log, table_id, plan.id))
            events = list[dg.AssetMaterialization]()
            for fill in new:
                if fill.facts.skipped is not None:
                    known = self._skipped.setdefault(plan.id, {})
                    known[served.snapshot.name] = fill.facts.skipped
                newest = fill.interval.end == last
                own = fill_events(
                    context, served, fill, inputs, holds=partial(held.after, fill), newest=newest
                )
                if self.live_since is not None and fill.recorded_at >= self.live_since:
                    events += own
                else:
                    events += missing_fill_events(context, fill, list(own))
            yield from FilledPartitions.in_batches(events)

    def _all_fills(self, plan: Plan) -> Iterator[Projected]:
        for table_id in self._filled_tables(plan):
            yield from self._fills(plan, table_id)

    def _filled_tables(
        self, plan: Plan, entries: Mapping[ModelName, Entry] = MappingProxyType({})
    ) -> list[str]:
        planned = {model.name: model.table.id for model in plan.builds if model.table is not None}
        real = {name: entry.table_id for name, entry in entries.items() if entry.table_id}
        return list(dict.fromkeys(real.get(name, table) for name, table in planned.items()))

    def _published(
        self, environment: Environment, plan: Plan | None, is_own: bool, after: str | None
    ) -> Iterator[Projected]:
        store, name = self.context.store, environment.name
        if not store.environments.exists(name):
            return
        if not environment.entries and store.versions.is_end(name, environment.version):
            return
        parts = list(self._publication(environment, plan, is_own))
        places = {key: place for place, (key, _) in enumerate(parts, 1)}
        for key, events in parts[places.get(after or "", 0) :]:
            yield from events
            yield FinishedPart(key)

    def _publication(
        self, environment: Environment, plan: Plan | None, is_own: bool
    ) -> Iterator[tuple[str, Iterator[Projected]]]:
        # Each part is read to its end before the next one begins.
        context = self.context
        compared = None
        if plan is None and (tables := tables_changed_by_rollback(context.store, environment)):
            compared = Comparison(context.read_again())
            yield "tables", compared.tables(tables)
        built: set[ModelName] = set()
        if plan is not None:
            for table_id in self._filled_tables(plan, environment.entries):
                yield table_id, self._fills(plan, table_id)
            built = {model.name for model in plan.builds}
        yield from publication_parts(context, environment, built, self.preview)
        if compared is not None:  # wiping an asset also wiped its checks
            yield "checks", compared.checks()
        if plan is not None and (not is_own or self._is_shown(plan)):
            yield "plan", self._published_pages(plan, environment)

    def _published_pages(self, plan: Plan, environment: Environment) -> Iterator[Projected]:
        if self.live_since is None:
            yield from self._page(plan)
        yield published_page(self.context, plan, environment)
        yield applied_event(self.context, plan, environment, self._skipped.get(plan.id, {}))

    def _failed(self, plan: Plan, is_own: bool) -> Iterator[Projected]:
        context = self.context
        record, is_shown = context.store.plans.record(plan.id), self._is_shown(plan)
        if record is None or record.status != "failed":
            return  # retried since: the later attempt has its own record
        yield from self._all_fills(plan)
        audits = AuditEvents(context)
        failure = failed_event(context.names, plan, record)
        red = dict(audits.rejected(plan))
        if is_shown:
            red[context.names.apply_key] = [plan.id]
        if red and (self.live_since is not None or not is_own):
            tags = {**plan_tags(plan), EVALUATION: str(failure.metadata[EVALUATION].value)}
            yield FailedWork(f"outside this Dagster instance, {failure.description}", tags, red)
        if is_shown or not is_own:
            yield failure
        yield from audits.unpublished(plan)
