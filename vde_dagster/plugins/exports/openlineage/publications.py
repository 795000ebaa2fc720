"""OpenLineage events of environments: publications, rollbacks, drops, audits, deleted tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from openlineage.client.event_v2 import DatasetEvent, Job, JobEvent, Run, RunEvent, StaticDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    dataset_type_dataset,
    dataset_version_dataset,
    lifecycle_state_change_dataset,
)

from vde_dagster.api.plans import Environment, Snapshot
from vde_dagster.api.values import ModelName
from vde_dagster.api.workspace import AuditRecord, OutboxRecord
from vde_dagster.plugins.exports.openlineage.datasets import DatasetFactory, DatasetName
from vde_dagster.plugins.exports.openlineage.runs import (
    Runs,
    audit_events,
    audit_job,
    format_instant,
    job_facets,
)

_Change = lifecycle_state_change_dataset.LifecycleStateChange


@dataclass
class Publications:
    runs: Runs

    def events(self, record: OutboxRecord) -> Iterator[DatasetEvent | JobEvent | RunEvent]:
        if record.kind == "published":
            yield from self._publication_events(record)
        elif record.kind == "audit":
            yield from self._audit_events(record)
        elif record.kind == "dropped" and record.subject["location"]:
            at = DatasetName.from_location(record.subject["location"])
            yield _drop_event(format_instant(record.at), at)

    def _audit_events(self, record: OutboxRecord) -> Iterator[RunEvent]:
        """Yield a run for each model that was audited without a fill."""
        subject, store = record.subject, self.runs.workspace.store
        environment = store.versions.at(subject["environment"], subject["version"])
        if environment is None:
            return
        datasets = self._datasets(environment)
        found: dict[ModelName, list[AuditRecord]] = {}
        for one in store.audits.results(plan_id=subject["run"]):
            found.setdefault(one.model, []).append(one)
        for model, results in found.items():
            snapshot = datasets.snapshot(model)
            if snapshot is not None:
                run = Run(
                    self.runs.id("audits", subject["run"], model), self.runs.dagster_facets(record)
                )
                job = audit_job(self.runs.namespace, snapshot)
                yield from audit_events(job, run, datasets.output(snapshot), results)

    def _publication_events(self, record: OutboxRecord) -> Iterator[DatasetEvent | JobEvent]:
        name, version = record.subject["environment"], record.subject["version"]
        versions = self.runs.workspace.store.versions
        now, before = versions.at(name, version), versions.at(name, version - 1)
        at = format_instant(record.at)
        if now is None:
            return
        datasets = self._datasets(now)
        pins = self.runs.workspace.store.pins
        here, there = pins.at(name, version), pins.at(name, version - 1) if before else {}
        made = partial(self._is_new_table, record, before)
        for model, entry in sorted(now.entries.items()):
            snapshot = datasets.snapshot(model)
            old = before.entries.get(model) if before is not None else None
            if snapshot is None or not snapshot.model.kind.is_shown:
                continue
            pin = here.get(entry.table_id or "")
            earlier = there.get(old.table_id or "") if old is not None else None
            moved = pin is not None and (earlier is None or earlier.snapshot_id != pin.snapshot_id)
            if old == entry and not moved:
                continue
            more: dict[str, DatasetFacet] = {}
            changed = (
                old is None
                or old.snapshot_id != entry.snapshot_id
                or old.table_id != entry.table_id
            )
            if changed:
                new = old is None if entry.table_id is None else made(entry.table_id)
                more["lifecycleStateChange"] = _lifecycle_facet(
                    _Change.CREATE if new else _Change.ALTER
                )
            if pin is not None and pin.snapshot_id is not None:
                more["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
                    str(pin.snapshot_id)
                )
            dataset = datasets.static(snapshot, **more)
            yield DatasetEvent(eventTime=at, dataset=dataset)
            if entry.table_id is not None:
                yield from _view_events(at, datasets, snapshot, before, changed=changed)
            if snapshot.is_virtual and old != entry:
                # A view has no fill that would report its lineage.
                output = datasets.output(snapshot)
                job = Job(self.runs.namespace, output.name, facets=job_facets(snapshot))
                yield JobEvent(
                    eventTime=at, job=job, inputs=datasets.inputs(snapshot), outputs=[output]
                )
        yield from self._drop_events(at, before, now, datasets)

    def _drop_events(
        self, at: str, before: Environment | None, now: Environment, datasets: DatasetFactory
    ) -> Iterator[DatasetEvent]:
        if before is None:
            return
        earlier = self._datasets(before)
        for model in sorted(before.entries):
            snapshot = earlier.snapshot(model)
            view = before.views.ref(model)
            if snapshot is None or not snapshot.model.kind.is_shown:
                continue  # It has no view.
            if model not in now.entries or now.views.ref(model) != view:
                yield _drop_event(at, DatasetName(datasets.catalog, str(view)))

    def _is_new_table(
        self, record: OutboxRecord, before: Environment | None, table_id: str
    ) -> bool:
        """Return whether a publication is the first one to show a table; False for a rollback."""
        known = self.runs.plan(record.subject["plan"]) if record.subject.get("plan") else None
        if known is None:
            return False
        table = known[0].tables.get(table_id)
        if table is not None and not table.created:
            return True
        # A failed plan may have created it.
        if before is not None and table_id in before.tables:
            return False
        name = record.subject["environment"]
        entries = self.runs.workspace.store.shown.entries_on_tables([table_id])
        return all(environment == name for environment, _ in entries)

    def _datasets(self, environment: Environment) -> DatasetFactory:
        store = self.runs.workspace.store
        ids = sorted({entry.snapshot_id for entry in environment.entries.values()})
        snapshots = store.snapshots.load(ids, None, set())
        tables = store.tables.load(sorted(environment.tables))
        workspace = self.runs.workspace
        return DatasetFactory(workspace, environment, environment.views.ref, snapshots, tables)


def _view_events(
    at: str,
    datasets: DatasetFactory,
    snapshot: Snapshot,
    before: Environment | None,
    *,
    changed: bool,
) -> Iterator[DatasetEvent]:
    view = datasets.view(snapshot.name)
    new = (
        before is None
        or snapshot.name not in before.entries
        or before.views.ref(snapshot.name) != view
    )
    if new or changed:
        facets = datasets.static_facets(snapshot)
        facets.pop("symlinks", None)
        facets["datasetType"] = dataset_type_dataset.DatasetTypeDatasetFacet("VIEW")
        facets["lifecycleStateChange"] = _lifecycle_facet(_Change.CREATE if new else _Change.ALTER)
        dataset = StaticDataset(namespace=datasets.catalog, name=str(view), facets=facets)
        yield DatasetEvent(eventTime=at, dataset=dataset)


def _drop_event(at: str, name: DatasetName) -> DatasetEvent:
    facets: dict[str, DatasetFacet] = {"lifecycleStateChange": _lifecycle_facet(_Change.DROP)}
    dataset = StaticDataset(namespace=name.namespace, name=name.name, facets=facets)
    return DatasetEvent(eventTime=at, dataset=dataset)


def _lifecycle_facet(
    change: lifecycle_state_change_dataset.LifecycleStateChange,
) -> lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet:
    return lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(change)
