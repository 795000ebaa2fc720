"""Which plans keep their partition: what shows as missing in `vde/apply` can be approved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.orchestration.events.records import delete_partition
from vde_dagster.orchestration.names import PLANS

if TYPE_CHECKING:
    from vde_dagster.state import StateStore

_PARTITION_TAG = "dagster/partition"
_FINISHED = {
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
}
_UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _FINISHED]


def forget_past_plans(
    store: StateStore,
    instance: dg.DagsterInstance,
    plans: dg.DynamicPartitionsDefinition = PLANS,
) -> Sequence[str]:
    """Take the partitions of plans away that nobody can approve any more.

    These are plans that the store has forgotten, and those that were never published and whose
    environment has moved on. Plans that were published keep theirs: they are the history.

    Args:
        store: The state store.
        instance: The Dagster instance.
        plans: The project's plans.

    Returns:
        The plans' ids.
    """
    known = instance.get_dynamic_partitions(str(plans.name))
    gone = idle(instance, sorted(store.plans.past(known)))
    for key in gone:
        delete_partition(store.database.effects, instance, plans, key)
    return gone


def idle(instance: dg.DagsterInstance, plan_ids: Iterable[str]) -> list[str]:
    """Return those of the plans on which no run works or waits to work."""
    return [
        key
        for key in plan_ids
        if not instance.get_runs_count(
            dg.RunsFilter(tags={_PARTITION_TAG: key}, statuses=_UNFINISHED)
        )
    ]
