"""Effects of a plan for production that were not reviewed in a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vde_dagster.api.plans import Change, Plan, Snapshot
from vde_dagster.api.values import ModelName
from vde_dagster.api.workspace import Workspace


def unreviewed_effects(
    workspace: Workspace, plan: Plan, seen: Sequence[Plan], replaced: Mapping[str, Snapshot]
) -> list[str]:
    """Describe each effect of a plan for production that the reviewed plans do not have.

    An effect is a changed, computed, broken or removed model, a statement to run, or a plug-in's
    definitions to store. Intervals that became due after the review
    do not count if the table was reviewed, or is in production already.

    Args:
        replaced: Snapshots that any of the plans replaces, by id.
    """
    # A later review would have shown the same table, with the intervals that became due since then.
    return list(dict.fromkeys(_plan_effects(workspace, plan, seen, replaced)))


def _plan_effects(
    workspace: Workspace, plan: Plan, seen: Sequence[Plan], replaced: Mapping[str, Snapshot]
) -> Iterator[str]:
    known: dict[ModelName, list[tuple[Plan, Plan.Model]]] = {}
    for other in seen:
        for model in other.models:
            if model.change is not Change.UNCHANGED:
                known.setdefault(model.name, []).append((other, model))
    for model in plan.models:
        reviewed = known.get(model.name, [])
        if model.change is Change.REMOVED:
            if not any(one.change is Change.REMOVED for _, one in reviewed):
                yield f"{model.name} is removed"
        elif model.change is Change.UNCHANGED:
            if model.restate or model.deploys:
                yield f"{model.name} is computed again"
        else:
            yield from _model_effects(workspace, plan, model, reviewed, replaced)
    breaks = [broken for other in seen for broken in other.breaks]
    for broken in plan.breaks:
        if not any(one.covers(broken) for one in breaks):
            yield workspace.plans.describe(broken)
    statements = {text for other in seen for text in _statements(other)}
    if plan.other_statements:
        for text in _statements(plan):
            if text not in statements:
                yield f"before_all or after_all runs another statement: {text}"
    for name in plan.other_kept:
        if all(other.kept.get(name) != plan.kept.get(name) for other in seen):
            yield f"the definitions of {name} differ from the reviewed ones"


def _model_effects(
    workspace: Workspace,
    plan: Plan,
    model: Plan.Model,
    reviewed: Sequence[tuple[Plan, Plan.Model]],
    replaced: Mapping[str, Snapshot],
) -> Iterator[str]:
    name = model.name
    same = [
        (other, one)
        for other, one in reviewed
        if one.change is not Change.REMOVED
        and _visible_state(other, one) == _visible_state(plan, model)
    ]
    if not same:
        yield f"{name} is {'computed' if model.builds else 'shown'} in a way that was not reviewed"
        return
    if model.restate and not any(one.restate for _, one in same):
        yield f"{name} is computed again"
    if model.in_place is not None and all(one.in_place != model.in_place for _, one in same):
        yield f"the table of {name} changes in place: {workspace.plans.describe(model.in_place)}"
    before = _table_version(replaced, model.previous_snapshot_id)
    # An earlier merged pull request may have created the definition that this one replaces.
    made = {plan_.snapshot_of(one).table_version for plan_, one in reviewed if one.snapshot_id}
    if before not in {
        *made,
        *(_table_version(replaced, one.previous_snapshot_id) for _, one in reviewed),
    }:
        yield f"{name} replaces a different definition than in the review"


def _visible_state(plan: Plan, model: Plan.Model) -> tuple[str | None, ...]:
    """Return what a view shows: the version of its definition, its table and its columns."""
    snapshot = plan.snapshot_of(model)
    table_id = model.table.id if model.table else None
    return snapshot.table_version, table_id, *(column.name for column in snapshot.columns)


def _table_version(snapshots: Mapping[str, Snapshot], key: str | None) -> str | None:
    found = snapshots.get(key or "")
    return found.table_version if found is not None else key


def _statements(plan: Plan) -> tuple[str, ...]:
    return (*plan.statements.before, *plan.statements.after)
