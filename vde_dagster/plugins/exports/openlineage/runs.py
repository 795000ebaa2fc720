"""OpenLineage runs: applies of plans, fills of ranges, and audits."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    data_quality_assertions_dataset,
    documentation_job,
    error_message_run,
    job_type_job,
    nominal_time_run,
    output_statistics_output_dataset,
    ownership_job,
    parent_run,
    processing_engine_run,
    source_code_job,
    source_code_location_job,
    sql_job,
)

from vde_dagster import __version__
from vde_dagster.api.plans import Interval, Plan, Snapshot
from vde_dagster.api.values import ModelName, count
from vde_dagster.api.workspace import AuditRecord, FillRecord, OutboxRecord, Workspace
from vde_dagster.plugins.exports.openlineage.datasets import DatasetFactory

PRODUCER = f"https://pypi.org/project/vde-dagster/{__version__}"
_ENDS = ("broken", "waiting", "fill")
_INTEGRATION = "VDE"


def format_instant(at: datetime) -> str:
    """Write an instant (UTC) in OpenLineage's format."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Runs:
    workspace: Workspace
    _plans: dict[str, tuple[Plan, DatasetFactory] | None] = field(default_factory=dict)
    _records: dict[str, list[OutboxRecord]] = field(default_factory=dict)
    _firsts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        outbox, settings = self.workspace.store.outbox, self.workspace.settings
        known = outbox.number()
        self.store_name, self.newest = known.store, known.newest
        message = settings.plugins.get("openlineage") or {}
        self.namespace = message.get("namespace") or settings.name

    def id(self, *parts: object) -> str:
        """Return the run id (UUIDv5) that belongs to the given names in this state."""
        name = "\x1f".join(map(str, ("vde", self.store_name, *parts)))
        return str(uuid.uuid5(uuid.NAMESPACE_URL, name))

    def events(self, record: OutboxRecord) -> Iterator[RunEvent]:
        subject = record.subject
        known = self.plan(subject["plan"]) if subject.get("plan") else None
        if known is None:
            return
        if record.kind in ("begun", "computed", *_ENDS):
            found = list(self._fill_events(record, *known))
            if found and self._is_first(record):
                earliest = min(one.eventTime for one in found)
                yield self._plan_start(record, known[0], earliest)
            yield from found
        elif record.kind in ("failed", "published"):
            audited = list(self._audit_events(record, *known))
            if self._is_first(record):
                earliest = min([format_instant(record.at), *(one.eventTime for one in audited)])
                yield self._plan_start(record, known[0], earliest)
            yield from self._abort_events(record, *known)
            yield from audited
            yield self._plan_end(record, known[0])

    def plan(self, plan_id: str) -> tuple[Plan, DatasetFactory] | None:
        """Return a plan and a factory for its datasets, or None if the plan was deleted."""
        if plan_id not in self._plans:
            plan = self.workspace.store.plans.find(plan_id)
            self._plans[plan_id] = None if plan is None else (plan, self._datasets(plan))
        return self._plans[plan_id]

    def _datasets(self, plan: Plan) -> DatasetFactory:
        store = self.workspace.store
        views = self.workspace.environments.views(plan.environment)
        # The plan's new tables may have been replaced by existing ones.
        wanted = {entry.table_id for entry in plan.entries.values() if entry.table_id}
        tables = {**plan.tables, **store.tables.load(sorted(wanted))}
        return DatasetFactory(self.workspace, plan, views.ref, plan.snapshots, tables)

    def _plan_records(self, plan_id: str) -> list[OutboxRecord]:
        if plan_id not in self._records:
            found = self.workspace.store.outbox.for_plan(plan_id, self.newest)
            self._records[plan_id] = found
        return self._records[plan_id]

    def _fill_events(
        self, record: OutboxRecord, plan: Plan, datasets: DatasetFactory
    ) -> Iterator[RunEvent]:
        subject = record.subject
        if subject.get("waited"):
            return  # It was reported when it began to wait; its move is the publication's event.
        snapshot = self._snapshot(plan, subject["table"])
        if snapshot is None:
            return
        one = _Fill(self, record, plan, datasets, snapshot)
        if record.kind == "begun":
            yield one.event(RunState.START, record.at)
        elif record.kind == "computed":
            yield one.event(
                RunState.RUNNING, record.at, rows=subject["rows"], size=subject["bytes"]
            )
        elif record.kind == "broken":
            yield from one.audit_run(record.at)
            state = RunState.ABORT if subject["stopped"] else RunState.FAIL
            yield one.event(state, record.at, error=subject["error"])
        else:
            yield from self._completion_events(one, record)

    def _completion_events(self, one: _Fill, record: OutboxRecord) -> Iterator[RunEvent]:
        fill = one.load_record()
        if fill is not None and fill.facts.skipped is not None:
            return  # Nothing was computed.
        audited = list(one.audit_run(record.at))
        if not any(_begins_attempt(other, record) for other in self._plan_records(one.plan.id)):
            # Recorded by another version of this code, or taken over from a process that died.
            seconds = fill.seconds if fill is not None and fill.seconds is not None else 0.0
            started = one.event(RunState.START, record.at - timedelta(seconds=seconds))
            started.eventTime = min([started.eventTime, *(a.eventTime for a in audited)])
            yield started
        yield from audited
        figures: dict[str, Any] = {}
        if fill is not None:
            figures = {"rows": fill.rows, "size": fill.bytes, "commit": fill.iceberg_snapshot_id}
            figures["fill"] = fill
        yield one.event(RunState.COMPLETE, record.at, **figures)

    def _snapshot(self, plan: Plan, table_id: str) -> Snapshot | None:
        for model in plan.builds:
            if model.table is not None and model.table.id == table_id:
                return plan.snapshot_of(model)
        for entry in plan.entries.values():
            if entry.table_id == table_id:
                return plan.snapshots.get(entry.snapshot_id)
        # Another plan created an equivalent table first, and this plan took it over.
        found = self.workspace.store.tables.load([table_id]).get(table_id)
        same = (plan.snapshot_of(one) for one in plan.builds)
        return next((s for s in same if found and s.fill_version == found.fill_version), None)

    def _abort_events(
        self, record: OutboxRecord, plan: Plan, datasets: DatasetFactory
    ) -> Iterator[RunEvent]:
        """Yield an ABORT event for each fill whose process died during an attempt to apply a plan.

        `record` is the end of the attempt.
        """
        own = self._attempt_records(record)
        for begun in own:
            if begun.kind != "begun" or any(
                one.kind in _ENDS and one.number > begun.number and _begins_attempt(begun, one)
                for one in own
            ):
                continue
            snapshot = self._snapshot(plan, begun.subject["table"])
            if snapshot is not None:
                one = _Fill(self, begun, plan, datasets, snapshot)
                yield one.event(RunState.ABORT, record.at, error="its process died")

    def _attempt_records(self, record: OutboxRecord) -> list[OutboxRecord]:
        """Return the records of an attempt to apply a plan, up to the given record."""
        own = [
            one
            for one in self._plan_records(record.subject["plan"])
            if one.number <= record.number and not one.subject.get("waited")
        ]
        ends = [one.number for one in own if one.kind == "failed" and one.number < record.number]
        return [one for one in own if one.number > max(ends, default=0)]

    def _is_first(self, record: OutboxRecord) -> bool:
        key = self.plan_run(record.subject["plan"], record)
        if key not in self._firsts:
            kinds = ("begun", "computed", *_ENDS)
            earlier = (
                one.number
                for one in self._attempt_records(record)
                if one.kind in kinds and one.number < record.number and self._makes_events(one)
            )
            self._firsts[key] = next(earlier, record.number)
        return self._firsts[key] == record.number

    def _makes_events(self, record: OutboxRecord) -> bool:
        known = self.plan(record.subject["plan"])
        return known is not None and any(self._fill_events(record, *known))

    def _audit_events(
        self, record: OutboxRecord, plan: Plan, datasets: DatasetFactory
    ) -> Iterator[RunEvent]:
        attempt = self._attempt_records(record)
        filled = {
            (one.subject["table"], one.interval) for one in attempt if one.kind in ("begun", *_ENDS)
        }
        earlier = [
            one.at
            for one in self._plan_records(plan.id)
            if one.kind == "failed" and one.number < record.number
        ]
        found: dict[ModelName, list[AuditRecord]] = {}
        for result in self.workspace.store.audits.results(plan_id=plan.id):
            late = bool(earlier) and result.recorded_at <= max(earlier)
            if not late and (result.table_id, result.interval) not in filled:
                found.setdefault(result.model, []).append(result)
        for model, results in sorted(found.items()):
            snapshot = datasets.snapshot(model)
            if snapshot is not None:
                plan_run = self.plan_run(plan.id, record)
                facets: dict[str, RunFacet] = {"parent": self.parent_facet(plan, record)}
                run = Run(self.id("audits", plan_run, model), facets)
                job = audit_job(self.namespace, snapshot)
                yield from audit_events(job, run, datasets.output(snapshot), results)

    def _plan_start(self, record: OutboxRecord, plan: Plan, earliest: str) -> RunEvent:
        known = self.workspace.store.plans.record(plan.id)
        again = any(
            one.kind == "failed" and one.number < record.number
            for one in self._plan_records(plan.id)
        )
        if known is not None and known.started_at is not None and not again:
            earliest = min(earliest, format_instant(known.started_at))
        run = Run(self.plan_run(plan.id, record), self.dagster_facets(record))
        return RunEvent(
            eventTime=earliest, run=run, job=self._plan_job(plan), eventType=RunState.START
        )

    def _plan_end(self, record: OutboxRecord, plan: Plan) -> RunEvent:
        known = self.workspace.store.plans.record(plan.id)
        facets, state = self.dagster_facets(record), RunState.COMPLETE
        if record.kind == "failed":
            message = known.message if known and known.message else "the apply failed"
            facets, state = {**facets, "errorMessage": _error_facet(message)}, RunState.FAIL
        return RunEvent(
            eventTime=format_instant(record.at),
            run=Run(self.plan_run(plan.id, record), facets),
            job=self._plan_job(plan),
            eventType=state,
        )

    def _plan_job(self, plan: Plan) -> Job:
        facets: dict[str, JobFacet] = {"jobType": _job_type_facet("PLAN")}
        return Job(self.namespace, f"apply.{plan.environment}", facets=facets)

    def plan_run(self, plan_id: str, record: OutboxRecord) -> str:
        """Return the run id of the apply that wrote a record; a retried apply has a new id."""
        own = self._plan_records(plan_id)
        failed = sum(one.kind == "failed" and one.number < record.number for one in own)
        return self.id("plan", plan_id, failed)

    def dagster_facets(self, record: OutboxRecord) -> dict[str, RunFacet]:
        """Return a facet for the Dagster run that wrote a record; empty without a run."""
        found = record.dagster_run
        return {"parent": _parent_run_facet(found, self.namespace, "dagster")} if found else {}

    def parent_facet(self, plan: Plan, record: OutboxRecord) -> parent_run.ParentRunFacet:
        """Return a facet for the Dagster run that wrote a record, or else for the plan's run."""
        found = record.dagster_run
        if found is not None:
            return _parent_run_facet(found, self.namespace, "dagster")
        of_plan = self.plan_run(plan.id, record)
        return _parent_run_facet(of_plan, self.namespace, f"apply.{plan.environment}")


@dataclass
class _Fill:
    """One attempt to fill one range."""

    runs: Runs
    record: OutboxRecord
    plan: Plan
    datasets: DatasetFactory
    snapshot: Snapshot

    @property
    def interval(self) -> Interval:
        return self.record.interval

    @property
    def run_id(self) -> str:
        named = self.record.subject
        parts = (named["plan"], named["table"], named["start"], named["end"])
        return self.runs.id("fill", *parts, named.get("branch", ""))

    def event(
        self,
        state: RunState,
        at: datetime,
        *,
        error: str = "",
        rows: int | None = None,
        size: int | None = None,
        commit: int | None = None,
        fill: FillRecord | None = None,
    ) -> RunEvent:
        facets: dict[str, RunFacet] = {
            "nominalTime": nominal_time_run.NominalTimeRunFacet(
                format_instant(self.interval.start), format_instant(self.interval.end)
            ),
            "parent": self.runs.parent_facet(self.plan, self.record),
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version("pyspark"), "Spark", __version__
            ),
        }
        if error:
            facets["errorMessage"] = _error_facet(error)
        output = self.output(commit)
        if rows is not None or size is not None:
            counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rows, size
            )
            output.outputFacets = {"outputStatistics": counted}
        return RunEvent(
            eventTime=format_instant(at),
            run=Run(self.run_id, facets),
            job=Job(self.runs.namespace, str(self.snapshot.name), job_facets(self.snapshot)),
            eventType=state,
            inputs=self.datasets.inputs(self.snapshot, fill),
            outputs=[output],
        )

    def output(self, commit: int | None) -> OutputDataset:
        output = self.datasets.output(self.snapshot, commit)
        found = self.runs.workspace.store.tables.load([self.record.subject["table"]])
        for table in found.values():
            at = self.datasets.table_name(table)
            output.namespace, output.name = at.namespace, at.name
        return output

    def load_record(self) -> FillRecord | None:
        store, table_id = self.runs.workspace.store, self.record.subject["table"]
        waiting = store.pending.for_plan(self.plan.id, table_id=table_id)
        logged = store.fills.log(table_id, self.plan.id, self.interval)
        return next((one for one in (*waiting, *logged) if one.interval == self.interval), None)

    def audit_run(self, at: datetime) -> Iterator[RunEvent]:
        table_id = self.record.subject["table"]
        results = self.runs.workspace.store.audits.results(plan_id=self.plan.id, table_id=table_id)
        own = [one for one in results if one.interval == self.interval and one.recorded_at <= at]
        if not own:
            return
        run = Run(
            self.runs.id("audits", self.run_id),
            {
                "parent": _parent_run_facet(
                    self.run_id, self.runs.namespace, str(self.snapshot.name)
                )
            },
        )
        job = audit_job(self.runs.namespace, self.snapshot)
        yield from audit_events(job, run, self.output(None), own, self._find_start(at))

    def _find_start(self, at: datetime) -> datetime | None:
        """Return the start of the fill that ended at an instant, or None if it is not recorded."""
        found = [
            one.at
            for one in self.runs._plan_records(self.plan.id)
            if one.at <= at and _begins_attempt(one, self.record)
        ]
        return max(found, default=None)


def audit_job(namespace: str, snapshot: Snapshot) -> Job:
    return Job(namespace, f"{snapshot.name}.audits", facets={"jobType": _job_type_facet("TEST")})


def audit_events(
    job: Job,
    run: Run,
    audited: OutputDataset,
    results: Sequence[AuditRecord],
    not_before: datetime | None = None,
) -> Iterator[RunEvent]:
    """Yield the start event and the end event of an audit run, with the results of the audits.

    Args:
        results: At least one result, in order.
        not_before: Earliest time of the start event (UTC).
    """
    facets = {key: one for key, one in (audited.facets or {}).items() if key != "columnLineage"}
    facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
        [*map(_assertion, results)]
    )
    looked = InputDataset(
        namespace=audited.namespace,
        name=audited.name,
        facets=facets,
        inputFacets={"dataQualityAssertions": facet},
    )
    ended = results[-1].recorded_at
    began = ended - timedelta(seconds=sum(one.result.seconds for one in results))
    start = format_instant(max(began, not_before or began))
    yield RunEvent(eventTime=start, run=run, job=job, eventType=RunState.START, inputs=[looked])
    stopped = any(one.blocking and one.result.failed_rows for one in results)
    state = RunState.FAIL if stopped else RunState.COMPLETE
    yield RunEvent(
        eventTime=format_instant(ended), run=run, job=job, eventType=state, inputs=[looked]
    )


def job_facets(snapshot: Snapshot) -> dict[str, JobFacet]:
    model = snapshot.model
    found: dict[str, JobFacet] = {"jobType": _job_type_facet("MODEL")}
    if model.query is not None:
        found["sql"] = sql_job.SQLJobFacet(model.query, "spark")
    elif model.python is not None:
        code = model.python.files.get(model.python.place[0], "")
        found["sourceCode"] = source_code_job.SourceCodeJobFacet("PYTHON", code)
    path = model.location.path.as_posix()
    if path != ".":
        found["sourceCodeLocation"] = source_code_location_job.SourceCodeLocationJobFacet(
            "file", f"file:{quote(path)}", path=path, version=snapshot.id
        )
    if model.description:
        found["documentation"] = documentation_job.DocumentationJobFacet(model.description)
    if model.owner:
        found["ownership"] = ownership_job.OwnershipJobFacet([ownership_job.Owner(model.owner)])
    return found


def _begins_attempt(begun: OutboxRecord, end: OutboxRecord) -> bool:
    keys = ("table", "start", "end", "branch")
    same = all(begun.subject.get(key) == end.subject.get(key) for key in keys)
    return begun.kind == "begun" and same


def _assertion(one: AuditRecord) -> data_quality_assertions_dataset.Assertion:
    return data_quality_assertions_dataset.Assertion(
        one.audit.partition("(")[0],
        success=not one.result.failed_rows,
        severity="error" if one.blocking else "warn",
        name=one.audit,
        expected="0 rows",
        actual=count(one.result.failed_rows, "row"),
    )


def _job_type_facet(what: str) -> job_type_job.JobTypeJobFacet:
    return job_type_job.JobTypeJobFacet("BATCH", _INTEGRATION, what)


def _error_facet(message: str) -> error_message_run.ErrorMessageRunFacet:
    return error_message_run.ErrorMessageRunFacet(message, "SQL")


def _parent_run_facet(run_id: str, namespace: str, name: str) -> parent_run.ParentRunFacet:
    return parent_run.ParentRunFacet(parent_run.Run(run_id), parent_run.Job(namespace, name))
