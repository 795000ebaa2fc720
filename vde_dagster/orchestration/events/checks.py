"""Audits and unit tests: asset checks for published versions, observations for other versions.

Dagster keeps one status of a check per asset, the latest. So a check is evaluated once per
publication, over all rows of the model, and after every later audit. If rows of one day fail, the
check keeps failing after a successful audit of the next day.

The status belongs to the published model: production's version or, for a model that production does
not have, the version published last. Audits of other versions, and of plans that were not
published, are observations of the version's partition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import count
from vde_dagster.errors import SourceLocation
from vde_dagster.execution.unit_testing.test_report import DifferenceRecord, TestRecord

# What `AssetCheckResult` fills in for checks that are steps; Dagster does not export it.
from vde_dagster.orchestration.dagster_private import AssetCheckEvaluationTargetMaterializationData
from vde_dagster.orchestration.events.provenance import ProjectionContext
from vde_dagster.orchestration.models.catalog import AssetCatalog, check_names, partition_keys
from vde_dagster.orchestration.models.live import version_key
from vde_dagster.orchestration.names import (
    ENVIRONMENT_TAG,
    EVALUATION,
    PLAN_TAG,
    safe_name,
    without_nones,
)
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.model import Audit, Model, UnitTest
from vde_dagster.reports.document import format_ranges
from vde_dagster.reports.markdown import markdown_table
from vde_dagster.state.plans.audits import AuditRecord
from vde_dagster.state.store import StateStore

Events = Iterator[dg.AssetCheckEvaluation | dg.AssetObservation]
_MAX_RANGES = 20
MOST_REJECTED = 100
"""Maximum number of a model's partitions that a failed plan marks as failed.

If more partitions failed, only the newest are marked.
"""


@dataclass(frozen=True, slots=True)
class AuditedVersion:
    """A model's version in an environment, with its new audit results.

    Args:
        table: Table of the version, or None for a view.
        records: New results.
        environment: Environment that shows the model's version. If the version was not published:
            the environment of its plan.
        version: Number of the environment's version; None if it was not published.
        id: Id of the publication, of the run of audits, or of the unpublished plan.
    """

    snapshot: Snapshot
    table: PhysicalTable | None
    records: Sequence[AuditRecord]
    environment: str
    version: int | None
    id: str
    plan_id: str | None = None

    @property
    def key(self) -> str:
        return version_key(self.snapshot, self.table)


@dataclass(frozen=True)
class AuditEvents:
    """Converts audit results to Dagster's check evaluations and observations."""

    context: ProjectionContext

    def published(self, environment: Environment, only: Collection[ModelName]) -> Events:
        """Yield the audit results of each model in `only` that a publication changed or audited."""
        moved = self.context.store.versions.changed(environment.name, environment.version)
        for audited in self._audited_models(environment, only=set(only)):
            if audited.records or audited.snapshot.name in moved:
                yield from self._version_events(audited)

    def outdated_checks(
        self, environment: Environment, only: Collection[ModelName] | None = None
    ) -> Events:
        """Yield current check results that differ from Dagster's, by default of all models."""
        for audited in filter(self._decides, self._audited_models(environment, only=only)):
            for audit in audited.snapshot.model.audits:
                event = self._evaluation(audited, audit)
                if event is not None and not self._is_recorded(event):
                    yield event

    def latest_results(self, name: ModelName) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield the latest result of each audit and unit test of the published model."""
        # A run of the model's asset evaluates only what it computes. Dagster would show the other
        # checks as skipped, although the published model did not change.
        store, catalog = self.context.store, self.context.catalog
        production = store.environments.get(PRODUCTION)
        if production is not None and name in production.entries:
            published = [production]
        else:
            found = (one for one in store.environments.all() if name in one.entries)
            published = sorted(found, key=lambda one: one.published_at)[-1:]
        for audited in (
            one for environment in published for one in self._audited_models(environment)
        ):
            if audited.snapshot.name == name:
                events = (self._evaluation(audited, one) for one in audited.snapshot.model.audits)
                yield from (event for event in events if event is not None)
        for test in last_unit_tests(self.context, frozenset()):
            if test.model == name and sets_check_status(store, test):
                for snapshot in store.snapshots.load([test.snapshot]).values():
                    yield unit_test_evaluation(catalog, test, snapshot)

    def audited_alone(self, run_id: str, environment: Environment) -> Events:
        """Yield the results of audits that ran without a plan (`vde audit`)."""
        for audited in self._audited_models(environment, run_id):
            if audited.records:
                yield from self._version_events(audited, only_new=True)

    def unpublished(self, plan: Plan) -> Iterator[dg.AssetObservation]:
        """Yield observations with the rows that made a plan's audits fail."""
        for audited in self._failed(plan):
            yield self._observation(audited)

    def rejected(self, plan: Plan) -> Iterator[tuple[dg.AssetKey, list[str]]]:
        """Yield each asset with its partitions that failed a blocking audit of a plan."""
        for audited in self._failed(plan):
            model = audited.snapshot.model
            blocking = {audit.label for audit in model.audits if audit.blocking}
            failed = [record for record in audited.records if record.audit in blocking]
            if failed:
                keys = self._keys(audited, failed)[-MOST_REJECTED:]
                yield self.context.catalog.key(model.name), keys

    def _audited_models(
        self,
        environment: Environment,
        run_id: str | None = None,
        only: Collection[ModelName] | None = None,
    ) -> Iterator[AuditedVersion]:
        found = self._by_model(run_id or environment.plan_id)
        for name, (snapshot, table) in self.context.combination(environment).served.items():
            if snapshot.model.audits and (only is None or name in only):
                yield AuditedVersion(
                    snapshot,
                    table,
                    found.get(name, ()),
                    environment.name,
                    environment.version,
                    run_id or environment.publication_id,
                    None if run_id else environment.plan_id,
                )

    def _failed(self, plan: Plan) -> Iterator[AuditedVersion]:
        found = self._by_model(plan.id)
        for model in plan.models:
            failed = [item for item in found.get(model.name, ()) if item.result.failed_rows]
            if failed and model.snapshot_id is not None:
                snapshot = plan.snapshots[model.snapshot_id]
                # A retried plan audits again: the newest result identifies the attempt.
                attempt = f"{plan.id} {failed[-1].number}"
                yield AuditedVersion(
                    snapshot, model.table, failed, plan.environment, None, attempt, plan.id
                )

    def _is_recorded(self, event: dg.AssetCheckEvaluation) -> bool:
        storage = self.context.instance.event_log_storage
        for record in storage.get_asset_check_execution_history(event.asset_check_key, limit=1):
            known = record.evaluation
            if isinstance(known, dg.AssetCheckEvaluation):
                same = ("vde/version", "vde/plan", "vde/failed_rows")
                return all(known.metadata.get(name) == event.metadata.get(name) for name in same)
        return False

    def _version_events(self, audited: AuditedVersion, *, only_new: bool = False) -> Events:
        # The status of a model's check belongs to one version of the model.
        if self._decides(audited):
            new = {record.audit for record in audited.records}
            for audit in audited.snapshot.model.audits:
                event = self._evaluation(audited, audit)
                if event is not None and (not only_new or audit.label in new):
                    yield event
        elif audited.records:
            yield self._observation(audited)

    def _by_model(self, plan_id: str | None) -> dict[ModelName, list[AuditRecord]]:
        found: dict[ModelName, list[AuditRecord]] = {}
        for record in self.context.store.audits.results(plan_id=plan_id) if plan_id else ():
            found.setdefault(record.model, []).append(record)
        return found

    def _decides(self, audited: AuditedVersion) -> bool:
        if audited.environment == PRODUCTION:
            return True
        shown = self.context.store.environments.entry(PRODUCTION, audited.snapshot.name)
        if shown is None:
            return True
        # Results of another environment's audit of production's table hold for both.
        same = audited.table is not None and shown.table_id == audited.table.id
        return same and bool(audited.records)

    def _evaluation(self, audited: AuditedVersion, audit: Audit) -> dg.AssetCheckEvaluation | None:
        """Return an audit's result over all rows of a version.

        Returns None if the audit never ran, or if another environment audited the table later.
        """
        own = [record for record in audited.records if record.audit == audit.label]
        failed, plan_id = [record for record in own if record.result.failed_rows], audited.plan_id
        if audited.table is not None:
            known = self.context.store.audits.audited(audited.table.id, audited.snapshot.name)
            if not own and audit.label not in known:
                return None
            if own and audited.environment != PRODUCTION and own[-1].plan_id != known[audit.label]:
                return None  # another environment that shows the table audited it later
            everything = self.context.store.audits.failing(audited.table.id)
            failed = [
                record
                for record in everything
                if (record.model, record.audit) == (audited.snapshot.name, audit.label)
            ]
            plan_id = known.get(audit.label, plan_id)
        elif not own:
            return None
        rows = sum(record.result.failed_rows for record in failed)
        facts = {
            "vde/audit": audit.label,
            **self._place(audited, own),
            "vde/failed_rows": rows,
            EVALUATION: audited.id,
            "vde/plan": plan_id,
            "vde/seconds": sum(record.result.seconds for record in own) if own else None,
            **_failing(failed),
        }
        verb = "fails" if rows == 1 else "fail"
        return dg.AssetCheckEvaluation(
            asset_key=self.context.catalog.key(audited.snapshot.name),
            check_name=check_names(audited.snapshot.model.audits)[audit.label],
            passed=not rows,
            metadata=without_nones(facts),
            severity=dg.AssetCheckSeverity.ERROR if audit.blocking else dg.AssetCheckSeverity.WARN,
            description=f"{count(rows, 'row')} {verb} in {_ranges(failed)}" if rows else None,
            target_materialization_data=self._target(audited, own),
        )

    def _observation(self, audited: AuditedVersion) -> dg.AssetObservation:
        failed = [record for record in audited.records if record.result.failed_rows]
        results = [
            {
                "audit": audit.label,
                "blocks": "yes" if audit.blocking else "no",
                "failed rows": str(sum(record.result.failed_rows for record in own)),
                "audited": _ranges(own),
            }
            for audit in audited.snapshot.model.audits
            if (own := [record for record in audited.records if record.audit == audit.label])
        ]
        facts = {
            "vde/audits": dg.MetadataValue.md(markdown_table(results)),
            **self._place(audited, audited.records),
            "vde/published": audited.version is not None,
            "vde/failed_rows": sum(record.result.failed_rows for record in failed),
            EVALUATION: audited.id,
            **_failing(failed),
            "vde/plan": audited.plan_id,
        }
        tags = {ENVIRONMENT_TAG: audited.environment, PLAN_TAG: audited.plan_id}
        audits = count(len({record.audit for record in failed}), "audit")
        outcome = f"{audits} found failing rows" if failed else "audits passed"
        where = "" if audited.version is not None else ", so nothing was published"
        return dg.AssetObservation(
            asset_key=self.context.catalog.key(audited.snapshot.name),
            partition=next(reversed(self._keys(audited, audited.records)), None),
            description=f"{audited.environment}: {outcome}{where}",
            metadata=without_nones(facts),
            tags=without_nones(tags),
        )

    def _place(self, audited: AuditedVersion, records: Sequence[AuditRecord]) -> dict[str, Any]:
        keys = self._keys(audited, records)
        more = f" … {keys[-1]} ({len(keys):,} partitions)" if len(keys) > 1 else ""
        return without_nones(
            {
                "vde/version": audited.key,
                "vde/environment": audited.environment,
                "vde/environment_version": audited.version,
                "vde/partition": f"{keys[0]}{more}" if keys else None,
                "vde/interval": _ranges(records) if keys else None,
            }
        )

    def _keys(self, audited: AuditedVersion, records: Sequence[AuditRecord]) -> list[str]:
        partitions = self.context.catalog.partitions_of(audited.snapshot)
        ranges = IntervalSet.of(record.interval for record in records)
        return [key for key, _ in partition_keys(partitions, audited.key, ranges)]

    def _target(
        self, audited: AuditedVersion, records: Sequence[AuditRecord]
    ) -> AssetCheckEvaluationTargetMaterializationData | None:
        key = self.context.catalog.key(audited.snapshot.name)
        for newest in self._keys(audited, records)[-1:]:
            record = self.context.latest(key, newest)
            if record is not None:
                return AssetCheckEvaluationTargetMaterializationData(
                    storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
                )
        return None


def _ranges(records: Sequence[AuditRecord]) -> str:
    return format_ranges(IntervalSet.of(record.interval for record in records))


def _failing(failed: Sequence[AuditRecord]) -> dict[str, Any]:
    if not failed:
        return {}
    facts: dict[str, Any] = {}
    if failed[-1].result.sample:
        facts["vde/failing_rows"] = dg.MetadataValue.md(markdown_table(failed[-1].result.sample))
    if len(failed) > 1:
        rows = [
            {
                "audit": record.audit,
                "interval": format_ranges(IntervalSet((record.interval,))),
                "failed rows": f"{record.result.failed_rows:,}",
                "found by": record.plan_id,
            }
            for record in failed[-_MAX_RANGES:]
        ]
        facts["vde/failing_intervals"] = dg.MetadataValue.md(markdown_table(rows))
    return facts


BY_ITSELF = "working copy"
"""Value of `vde/environment` for a test that ran on the project's files, without a plan."""


def unit_test_checks(
    model: Model, tests: Sequence[UnitTest], asset: dg.AssetKey
) -> Iterator[dg.AssetCheckSpec]:
    names = unit_test_names(model, tests)
    for test in tests:
        said = f": {test.description}" if test.description else ""
        yield dg.AssetCheckSpec(
            names[_place(test)],
            asset=asset,
            description=f"Unit test `{test.name}`{said}. It runs with every plan that changes the "
            "model. If it fails, nothing is computed or published.",
        )


def unit_test_names(model: Model, tests: Sequence[UnitTest]) -> dict[tuple[str, str], str]:
    """Return a check name for each unit test of a model, different from the audits' check names."""
    taken = set(check_names(model.audits).values())
    names: dict[tuple[str, str], str] = {}
    for test in tests:
        name = safe_name(test.name)[:80]
        name = name if name.startswith("test_") else f"test_{name}"
        if name in taken:
            name = f"{name}_{digest(*_place(test))[:6]}"
        taken.add(name)
        names[_place(test)] = name
    return names


def unit_test_event(
    context: ProjectionContext, test: TestRecord, snapshot: Snapshot
) -> dg.AssetCheckEvaluation | dg.AssetObservation:
    evaluation = unit_test_evaluation(context.catalog, test, snapshot)
    # Dagster keeps one status of a check, which belongs to the published model. So if production
    # has the model, results of unpublished plans and of other environments are observations.
    if sets_check_status(context.store, test):
        return evaluation
    ended = "passed" if test.passed else f"failed ({test.summary}), so nothing was published"
    tags = {ENVIRONMENT_TAG: test.environment, PLAN_TAG: test.plan}
    return dg.AssetObservation(
        asset_key=evaluation.asset_key,
        description=f"{test.environment}: unit test {test.test} {ended}",
        metadata=evaluation.metadata,
        tags=without_nones(tags),
    )


def sets_check_status(store: StateStore, test: TestRecord) -> bool:
    """Return whether a unit test's result sets the status of its check in Dagster."""
    shown = store.environments.entry(PRODUCTION, test.model)
    if shown is None:
        return True
    ours = test.environment == PRODUCTION or shown.snapshot_id == test.snapshot
    return test.passed and ours


def unit_test_evaluation(
    catalog: AssetCatalog, test: TestRecord, snapshot: Snapshot
) -> dg.AssetCheckEvaluation:
    """Return the evaluation of a unit test, with the rows that differ."""
    own = UnitTest(test.test, test.model, SourceLocation(Path(test.file)), (), None)
    known = catalog.live.tests.get(snapshot.name, ())
    # The test may be newer than the loaded code location.
    tests = known if _place(own) in map(_place, known) else (*known, own)
    remembered = "passed before; neither the test nor the model has changed since"
    metadata = without_nones(
        {
            "vde/test": test.test,
            "vde/file": test.place,
            "vde/version": snapshot.table_version,
            "vde/environment": test.environment or BY_ITSELF,
            "vde/missing_rows": sum(found.missing_rows for found in test.differences),
            "vde/unexpected_rows": sum(found.unexpected_rows for found in test.differences),
            EVALUATION: test.id,
            "vde/plan": test.plan,
            "vde/remembered": remembered if test.remembered else None,
            "vde/error": test.error,
        }
    )
    for found in test.differences:
        what = "rows" if found.part == "query" else f"rows_of_{safe_name(found.part)}"
        metadata[f"vde/{what}"] = dg.MetadataValue.md(_difference(found))
    return dg.AssetCheckEvaluation(
        asset_key=catalog.key(snapshot.name),
        check_name=unit_test_names(snapshot.model, tests)[_place(own)],
        passed=test.passed,
        metadata=metadata,
        severity=dg.AssetCheckSeverity.ERROR,
        description=test.summary,
    )


def last_unit_tests(context: ProjectionContext, busy: Set[str]) -> Iterator[TestRecord]:
    """Yield up to two results of each unit test.

    One is the latest result that sets the status of the test's check in Dagster, the other is the
    latest result that does not set it.
    """
    tests = context.catalog.live.tests
    declared = {(name, *_place(test)) for name, own in tests.items() for test in own}
    latest: dict[tuple[ModelName, str, str, bool], TestRecord] = {}
    for record in context.store.outbox.with_kind("test") if declared else ():
        test = TestRecord.from_json(record.subject)
        if test.plan not in busy and (test.model, test.test, test.file) in declared:
            key = (test.model, test.test, test.file, sets_check_status(context.store, test))
            latest.pop(key, None)
            latest[key] = test
    yield from latest.values()


def _difference(found: DifferenceRecord) -> str:
    rows = [
        {"": word, **dict(zip(found.columns, row, strict=True))}
        for word, some in (("expected", found.missing), ("returned", found.unexpected))
        for row in some
    ]
    left = found.missing_rows + found.unexpected_rows - len(rows)
    return markdown_table(rows) + (f"\n\nand {left:,} more rows" if left else "")


def _place(test: UnitTest) -> tuple[str, str]:
    return test.name, test.location.path.as_posix()
