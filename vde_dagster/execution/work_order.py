"""In which order an apply works on models: after what they and their audits read."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.plan import Plan, PlannedModel
from vde_dagster.project.audit_order import AuditOrder, audit_order
from vde_dagster.project.dag import parents_first


def audits_of(plan: Plan) -> AuditOrder:
    """Return when the audits of a plan's models can be run."""
    found = {name: plan.snapshots[entry.snapshot_id] for name, entry in plan.entries.items()}
    return audit_order({name: snapshot.model for name, snapshot in found.items()})


def work_graph(
    plan: Plan, work: Mapping[ModelName, PlannedModel], audits: AuditOrder
) -> dict[ModelName, set[ModelName]]:
    """Return, for each model that is worked on, those that must be done before it.

    Ancestors count through models that are not worked on. Of several models with one table the
    later ones wait for the first and then find nothing left to do.

    Args:
        plan: The plan.
        work: The models that are worked on.
        audits: What comes before models for the sake of their audits.
    """
    after = {
        model.name: (
            *plan.snapshots[model.snapshot_id].parents,
            *audits.before.get(model.name, ()),
        )
        for model in plan.models
        if model.snapshot_id is not None
    }
    order: dict[ModelName, set[ModelName]] = {}
    before: dict[ModelName, set[ModelName]] = {}
    first_of_table: dict[str, ModelName] = {}
    for name in parents_first(after):
        needed: set[ModelName] = set()
        for parent in after[name]:
            needed |= {parent} if parent in work else before[parent]
        before[name] = needed
        if name in work:
            order[name] = set(needed)
            table = work[name].table
            if table is not None:
                first = first_of_table.setdefault(table.id, name)
                if first != name:
                    order[name].add(first)
    return order
