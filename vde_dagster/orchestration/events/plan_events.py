"""Plans made or applied elsewhere: their pages, partitions, and the run that changed the state."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.errors import ConflictError, VdeError
from vde_dagster.orchestration.events.checks import EVALUATION, AuditEvents
from vde_dagster.orchestration.events.records import (
    Reporter,
    add_partitions,
    delete_partition,
    failed_run,
    plan_materializations,
    report_event,
)
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, SHORT, Names
from vde_dagster.orchestration.pages.plan_page import (
    breaking_check,
    estimator,
    plan_metadata,
    published_metadata,
    rejection_metadata,
)
from vde_dagster.state.plans.plans import OPEN_PLANS

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.environments.environment import Environment
    from vde_dagster.planning.plan.plan import Plan
    from vde_dagster.state import StateStore
    from vde_dagster.state.db.effects import Effects
    from vde_dagster.state.plans.plans import PlanRecord


def stored_plan(store: StateStore, plan_id: str) -> Plan | None:
    """Return a plan, or None when it, or what it is made of, was forgotten."""
    try:
        return store.plans.load(plan_id)
    except VdeError:
        return None


def report_page(reporter: Reporter, catalog: AssetCatalog, plan: Plan) -> None:
    """Give a plan its partition and its page, unless it has them.

    Args:
        catalog: The code location's models.
    """
    store, instance, names = reporter.store, reporter.instance, reporter.names
    add_partitions(store.database.effects, instance, names.plans, [plan.id])
    if reporter.has(names.plan_key, plan.id):
        return
    # The page comes last: as long as it is missing, the check is looked for, too.
    check = breaking_check(plan, asset=names.plan_key)
    check["metadata"] = {**check["metadata"], "vde/plan": plan.id, EVALUATION: plan.id}
    reporter.report(dg.AssetCheckEvaluation(**check))
    metadata = plan_metadata(store, plan, estimator(instance, catalog))
    page = dg.AssetMaterialization(
        asset_key=names.plan_key, partition=plan.id, metadata=metadata, tags=_tags(plan)
    )
    reporter.report_plan(page)


def published_page(
    store: StateStore, plan: Plan, published: Environment, names: Names
) -> dg.AssetMaterialization:
    """Return the page of a plan that was published, which says by whom and when.

    Args:
        names: The project's names.
    """
    metadata = {**published_metadata(published, names), **plan_metadata(store, plan, names=names)}
    return dg.AssetMaterialization(
        asset_key=names.plan_key, partition=plan.id, metadata=metadata, tags=_tags(plan)
    )


def report_applied(reporter: Reporter, plan: Plan, published: Environment | None) -> None:
    """Show a plan as approved, as its partition of `vde/apply`, and on its page by whom.

    Args:
        published: The version that it published, when it is known.
    """
    record = reporter.store.plans.record(plan.id)
    facts: dict[str, Any] = {
        "vde/plan": plan.id,
        "vde/environment": plan.environment,
        "vde/models_computed": len(plan.builds),
        "vde/published": True,
    }
    if record is not None and record.started_at and record.finished_at:
        facts["vde/seconds"] = (record.finished_at - record.started_at).total_seconds()
    if published is not None:
        facts["vde/version"] = published.version
        facts["vde/published_by"] = published.published_by
        reporter.report_published(published_page(reporter.store, plan, published, reporter.names))
    approved = dg.AssetMaterialization(
        asset_key=reporter.names.apply_key, partition=plan.id, metadata=facts, tags=_tags(plan)
    )
    reporter.report_plan(approved)


def report_failed(
    reporter: Reporter, catalog: AssetCatalog, plan: Plan, record: PlanRecord
) -> None:
    """Show that applying a plan failed elsewhere, red, and which rows its audits found.

    Args:
        catalog: The code location's models.
    """
    names, instance, effects = reporter.names, reporter.instance, reporter.store.database.effects
    shown = failed_observation(names, plan, record.message or "", record)
    reporter.report(shown)
    audits = AuditEvents(catalog, reporter.store, instance)
    rejected = list(audits.rejected(plan))
    if plan.id in instance.get_dynamic_partitions(str(names.plans.name)):
        rejected.append((names.apply_key, [plan.id]))
    if rejected:
        # Dagster turns partitions red by a run alone.
        tags = {**names.tags, **_tags(plan), EVALUATION: str(shown.metadata[EVALUATION].value)}
        said = f"applied elsewhere: {shown.description}"
        run = failed_run(effects, instance, names.named("vde_apply_job"), said, tags)
        if run is not None:
            for key, partitions in rejected:
                plan_materializations(effects, instance, run, key, partitions)
    for event in audits.unpublished(plan):
        reporter.report(event)


def failed_observation(
    names: Names, plan: Plan, said: str, record: PlanRecord | None
) -> dg.AssetObservation:
    """Say on a plan's partition of `vde/apply` that applying it failed, and why.

    Args:
        names: The project's names.
        record: What is known of it; a plan that is tried again fails at another time.
    """
    when = record.finished_at.isoformat() if record and record.finished_at else ""
    return dg.AssetObservation(
        asset_key=names.apply_key,
        partition=plan.id,
        description=f"applying it failed: {said}",
        metadata={
            "vde/error": said,
            "vde/plan": plan.id,
            "vde/environment": plan.environment,
            "vde/published": False,
            EVALUATION: f"{plan.id} {when}",
        },
        tags=_tags(plan),
    )


def _tags(plan: Plan) -> dict[str, str]:
    return {PLAN_TAG: plan.id, ENVIRONMENT_TAG: plan.environment}


_PARTITION_TAG = "dagster/partition"
_FINISHED = {
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
}
UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _FINISHED]


def add_plan(effects: Effects, instance: dg.DagsterInstance, names: Names, plan_id: str) -> None:
    """Give a plan its partitions: it can be read, approved and rejected."""
    for definition in (names.plans, names.rejections):
        add_partitions(effects, instance, definition, [plan_id])


def forget_past_plans(
    workspace: Workspace, instance: dg.DagsterInstance, names: Names = SHORT
) -> Sequence[str]:
    """Take the partitions of plans away that nobody can approve any more.

    These are plans that the store has forgotten, those that were never published and whose
    environment or files have moved on, and those that were made to be looked at. Plans that were
    published keep theirs but for that of `vde/reject`, which has what waits or was rejected.

    Args:
        names: The project's names.

    Returns:
        The ids of plans that can be approved no more.
    """
    gone = past_plans(workspace, instance, names.plans)
    effects = workspace.store.database.effects
    for key in gone:
        delete_partition(effects, instance, names.plans, key)
    known = set(instance.get_dynamic_partitions(str(names.plans.name)))
    shown = set(instance.get_dynamic_partitions(str(names.rejections.name)))
    statuses = workspace.store.plans.statuses(known | shown)
    waiting = {key for key in known if statuses.get(key) in OPEN_PLANS}
    past = {key for key in shown if statuses.get(key) != "rejected"} - waiting
    for key in idle(instance, sorted(past)):
        delete_partition(effects, instance, names.rejections, key)
    add_partitions(effects, instance, names.rejections, sorted(waiting))
    return gone


def past_plans(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    plans: dg.DynamicPartitionsDefinition,
) -> list[str]:
    """Return the plans that have a partition, and that nobody can approve any more."""
    from vde_dagster.project.loading.loader import project_hash

    known = instance.get_dynamic_partitions(str(plans.name))
    if not known:
        return []
    closed = workspace.store.plans.closed_to_approval(known, project_hash(workspace.root))
    return idle(instance, sorted(closed))


def require_proposed(workspace: Workspace, plan: Plan) -> None:
    """Make sure that a plan was made to be approved, of what the files now say.

    Raises:
        ConflictError: It was only looked at, or the files have moved on.
    """
    from vde_dagster.project.loading.loader import project_hash

    record = workspace.store.plans.record(plan.id)
    if record is not None and record.status == "applied":
        return
    again = f"plan again: vde plan {plan.environment} --propose, or the job vde_new_plan"
    if plan.proposal is None:
        raise ConflictError(f"the plan {plan.id} was not made to be approved", hint=again)
    if not plan.proposal.is_of(project_hash(workspace.root)):
        raise ConflictError(
            f"the plan {plan.id} was made of other files than those of now", hint=again
        )


def show_rejected(
    store: StateStore, instance: dg.DagsterInstance, names: Names, records: Iterable[PlanRecord]
) -> int:
    """Let plans that were rejected elsewhere leave the pages for `vde/reject`: by whom, and why.

    Args:
        names: The project's names.

    Returns:
        How many events were written; a plan has one, however often it is looked at.
    """
    written = 0
    rejected = {record.id: record for record in records}
    known = set(instance.get_dynamic_partitions(str(names.plans.name))) if rejected else set()
    for plan_id in idle(instance, rejected):
        add_partitions(store.database.effects, instance, names.rejections, [plan_id])
        if not _is_told(instance, names, plan_id):
            event = dg.AssetMaterialization(
                asset_key=names.reject_key,
                partition=plan_id,
                metadata=rejection_metadata(rejected[plan_id]),
                tags={PLAN_TAG: plan_id, ENVIRONMENT_TAG: rejected[plan_id].environment},
            )
            report_event(store.database.effects, instance, event)
            written += 1
        if plan_id in known:
            delete_partition(store.database.effects, instance, names.plans, plan_id)
    return written


def _is_told(instance: dg.DagsterInstance, names: Names, plan_id: str) -> bool:
    wanted = dg.AssetRecordsFilter(names.reject_key, asset_partitions=[plan_id])
    return bool(instance.fetch_materializations(wanted, limit=1).records)


def idle(instance: dg.DagsterInstance, plan_ids: Iterable[str]) -> list[str]:
    """Return those of the plans on which no run works or waits to work."""
    return [
        key
        for key in plan_ids
        if not instance.get_runs_count(
            dg.RunsFilter(tags={_PARTITION_TAG: key}, statuses=UNFINISHED)
        )
    ]


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
    """Tells the work of this instance's runs from that of others."""

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
