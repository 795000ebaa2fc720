"""Which plans keep their partition: what shows as missing in `vde/apply` can be approved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.errors import ConflictError
from vde_dagster.orchestration.events.records import (
    add_partitions,
    delete_partition,
    report_event,
)
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, SHORT, Names
from vde_dagster.orchestration.pages.plan_page import rejection_metadata
from vde_dagster.state.plans import OPEN_PLANS

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan import Plan
    from vde_dagster.state import StateStore
    from vde_dagster.state.effects import Effects
    from vde_dagster.state.plans import PlanRecord

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
        workspace: The project.
        instance: The Dagster instance.
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
        store: The state store.
        instance: The Dagster instance.
        names: The project's names.
        records: The plans.

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
