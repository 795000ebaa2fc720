"""Plans as JSON for the state store, without the content of their snapshots.

Written by hand, in lists without names: a plan names every model of a project, and most of them
have nothing to do. Plans of before, JSON objects that Pydantic reads, are `StoredPlan` field by
field.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from datetime import datetime
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import parse_instant
from vde_dagster.planning.environments.contracts import ContractBreak, Reader
from vde_dagster.planning.environments.environment import Entry
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet, iso
from vde_dagster.planning.plan.plan import (
    NO_STATEMENTS,
    Batches,
    Category,
    Change,
    EnvironmentStatements,
    Outdated,
    Plan,
    PlanKind,
    PlannedModel,
    PlannedViews,
    Proposal,
)
from vde_dagster.planning.table_contents import skipped_from_json, skipped_to_json
from vde_dagster.planning.tables.table import (
    ColumnChange,
    PhysicalColumn,
    PhysicalTable,
    Preview,
    TableChange,
    TableRef,
)

Json = Any

_HEAD = ("id", "environment", "kind", "base_version", "created_at", "start", "end", "expires_at")


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan with its snapshots by id only, since those are stored once for all plans."""

    id: str
    environment: str
    kind: PlanKind
    base_version: int
    created_at: datetime
    models: tuple[PlannedModel, ...]
    views: PlannedViews
    entries: tuple[Entry, ...]
    snapshot_ids: tuple[str, ...]
    start: datetime | None
    end: datetime | None
    expires_at: datetime | None
    warnings: tuple[str, ...] = ()
    restates: dict[ModelName, IntervalSet] = field(default_factory=dict)
    outdates: tuple[Outdated, ...] = ()
    statements: EnvironmentStatements = NO_STATEMENTS
    other_statements: bool = False
    proposal: Proposal | None = None


def plan_to_json(plan: Plan) -> list[Json]:
    """Write a plan as a list; what its models say already is not said again.

    What only few plans have is an object at its end, left out where it is empty.
    """
    entries = tuple(plan.entries.values())
    snapshot_ids = tuple(plan.snapshots)
    implied = _entries(plan.models)
    return [
        [_plain(getattr(plan, name)) for name in _HEAD],
        [_model_to_json(model) for model in plan.models],
        [[[ref.namespace, ref.name] for ref in refs] for refs in _view_changes(plan.views)],
        None if entries == implied else [_entry_to_json(entry) for entry in entries],
        None if snapshot_ids == _snapshot_ids(entries) else snapshot_ids,
        plan.warnings,
        *_rare_to_json(plan),
    ]


def plan_from_json(data: list[Json]) -> StoredPlan:
    """Read what `plan_to_json` wrote.

    Raises:
        KeyError, TypeError, ValueError: It is something else.
    """
    head, models, views, entries, snapshot_ids, warnings, *rest = data
    rare = rest[0] if rest else {}
    values = dict(zip(_HEAD, head, strict=True))
    created, replaced, dropped = ([TableRef(*ref) for ref in refs] for refs in views)
    read = tuple(map(_model_from_json, models))
    kept = _entries(read) if entries is None else tuple(map(_entry_from_json, entries))
    return StoredPlan(
        id=values["id"],
        environment=values["environment"],
        kind=PlanKind(values["kind"]),
        base_version=values["base_version"],
        created_at=parse_instant(values["created_at"]),
        models=read,
        views=PlannedViews(tuple(created), tuple(replaced), tuple(dropped)),
        entries=kept,
        snapshot_ids=_snapshot_ids(kept) if snapshot_ids is None else tuple(snapshot_ids),
        start=_instant(values["start"]),
        end=_instant(values["end"]),
        expires_at=_instant(values["expires_at"]),
        warnings=tuple(warnings),
        restates={
            ModelName(*name): _ranges_from_json(ranges) for name, ranges in rare.get("restates", ())
        },
        outdates=tuple(map(_outdated_from_json, rare.get("outdates", ()))),
        statements=EnvironmentStatements(*map(tuple, rare.get("statements", ()))),
        other_statements=rare.get("other_statements", False),
        proposal=_proposal_from_json(values["kind"], rare.get("proposal", ())),
    )


def _rare_to_json(plan: Plan) -> list[Json]:
    rare: dict[str, Json] = {}
    if plan.restates:
        rare["restates"] = [
            [[name.namespace, name.name], _ranges_to_json(ranges)]
            for name, ranges in plan.restates.items()
        ]
    if plan.outdates:
        rare["outdates"] = [
            [
                [outdated.name.namespace, outdated.name.name],
                outdated.environments,
                outdated.table_id,
                _ranges_to_json(outdated.intervals),
                outdated.whole,
            ]
            for outdated in plan.outdates
        ]
    if plan.statements:
        rare["statements"] = [plan.statements.before, plan.statements.after]
    if plan.other_statements:
        rare["other_statements"] = True
    if plan.kind is not PlanKind.RUN:
        made = plan.proposal
        rare["proposal"] = None if made is None else [made.files, made.author]
    return [rare] if rare else []


def _proposal_from_json(kind: str, data: Json) -> Proposal | None:
    """Read a proposal; plans of before say nothing of it, and any of them could be approved."""
    return None if data is None or kind == PlanKind.RUN.value else Proposal(*data)


def _outdated_from_json(data: Json) -> Outdated:
    name, environments, table_id, ranges, whole = data
    return Outdated(
        ModelName(*name), tuple(environments), table_id, _ranges_from_json(ranges), whole
    )


def _entries(models: Iterable[PlannedModel]) -> tuple[Entry, ...]:
    """Return the entries that a plan's models stand for."""
    return tuple(
        Entry(model.name, model.snapshot_id, model.table.id if model.table else None)
        for model in models
        if model.snapshot_id is not None
    )


def _snapshot_ids(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry.snapshot_id for entry in entries))


def _entry_to_json(entry: Entry) -> Json:
    return [entry.name.namespace, entry.name.name, entry.snapshot_id, entry.table_id]


def _entry_from_json(data: Json) -> Entry:
    namespace, name, snapshot_id, table_id = data
    return Entry(ModelName(namespace, name), snapshot_id, table_id)


def _model_to_json(model: PlannedModel) -> Json:
    """Write a model as namespace, name, snapshot and table; what is to be done only if anything."""
    table = _table_to_json(model.table) if model.table else None
    plain = [model.name.namespace, model.name.name, model.snapshot_id, table]
    idle = model.snapshot_id == model.previous_snapshot_id and model == _idle(
        model.name, model.snapshot_id, model.table
    )
    return plain if idle else [*plain, _work_to_json(model)]


def _idle(name: ModelName, snapshot_id: str | None, table: PhysicalTable | None) -> PlannedModel:
    return PlannedModel(
        name, Change.UNCHANGED, None, (), snapshot_id, snapshot_id, table, builds=False
    )


def _work_to_json(model: PlannedModel) -> Json:
    said: dict[str, Json] = {}
    if model.skippable:
        said["skippable"] = True
    if model.skips is not None:
        said["skips"] = skipped_to_json(model.skips)
    if model.always:
        said["always"] = model.always
    return {
        **said,
        "change": model.change.value,
        "category": model.category.value if model.category else None,
        "reasons": model.reasons,
        "previous": model.previous_snapshot_id,
        "builds": model.builds,
        "intervals": _ranges_to_json(model.intervals),
        "audits": model.audits,
        "restate": model.restate,
        "layout": model.layout,
        "breaks": [_break_to_json(broken) for broken in model.breaks],
        **({"records_only": True} if model.records_only else {}),
        **({"catches_up": True} if model.catches_up else {}),
        **({"in_place": _change_to_json(model.in_place)} if model.in_place else {}),
        **({"batches": astuple(model.batches)} if model.batches else {}),
        **({"longer_unit": model.longer_unit.name} if model.longer_unit else {}),
    }


def _model_from_json(data: Json) -> PlannedModel:
    namespace, name, snapshot_id, stored, *work = data
    named = ModelName(namespace, name)
    table = _table_from_json(stored) if stored else None
    if not work:
        return _idle(named, snapshot_id, table)
    (does,) = work
    return PlannedModel(
        name=named,
        change=Change(does["change"]),
        category=Category(does["category"]) if does["category"] else None,
        reasons=tuple(does["reasons"]),
        snapshot_id=snapshot_id,
        previous_snapshot_id=does["previous"],
        table=table,
        builds=does["builds"],
        intervals=_ranges_from_json(does["intervals"]),
        audits=does["audits"],
        restate=does["restate"],
        layout=does["layout"],
        # The first plans that were stored as lists have none.
        breaks=tuple(_break_from_json(named, broken) for broken in does.get("breaks", ())),
        records_only=does.get("records_only", False),
        skippable=does.get("skippable", False),
        skips=skipped_from_json(does["skips"]) if "skips" in does else None,
        always=does.get("always", ""),
        in_place=_change_from_json(does["in_place"]) if "in_place" in does else None,
        catches_up=does.get("catches_up", False),
        batches=Batches(*does["batches"]) if "batches" in does else None,
        longer_unit=IntervalUnit[does["longer_unit"]] if "longer_unit" in does else None,
    )


def _change_to_json(change: TableChange) -> Json:
    table = [change.table.namespace, change.table.name]
    return [table, change.deploys, change.columns, _plain(change.effective_from)]


def _change_from_json(data: Json) -> TableChange:
    table, deploys, columns, since = data
    changes = tuple(map(ColumnChange._make, columns))
    return TableChange(TableRef(*table), deploys, changes, _instant(since))


def _break_to_json(broken: ContractBreak) -> Json:
    """Write what breaks of a model, which is named beside it."""
    readers = [[r.model.namespace, r.model.name, *r.columns] for r in broken.readers]
    said = [broken.column, broken.was, broken.becomes, broken.widens, readers]
    return [*said, broken.renamed] if broken.renamed else said


def _break_from_json(name: ModelName, data: Json) -> ContractBreak:
    column, was, becomes, widens, readers, *renamed = data
    read = tuple(Reader(ModelName(space, model), tuple(made)) for space, model, *made in readers)
    return ContractBreak(name, column, was, becomes, widens, read, *renamed)


def _table_to_json(table: PhysicalTable) -> Json:
    return [
        table.id,
        table.ref.namespace,
        table.ref.name,
        table.fill_version,
        columns_to_json(table.columns),
        table.snapshot_id,
        _ranges_to_json(table.intervals),
        table.created,
        *([special] if (special := special_to_json(table)) else []),
    ]


def _table_from_json(data: Json) -> PhysicalTable:
    id_, namespace, name, fill_version, columns, snapshot_id, ranges, created, *special = data
    return PhysicalTable(
        id_,
        TableRef(namespace, name),
        fill_version,
        columns_from_json(columns),
        snapshot_id,
        _ranges_from_json(ranges),
        created,
        **special_from_json(special[0] if special else {}),
    )


def special_to_json(table: PhysicalTable) -> dict[str, Json]:
    """Write what only few tables have: nothing for all others."""
    out: dict[str, Json] = {}
    if table.preview is not None:
        preview = table.preview
        out["preview"] = [preview.of, preview.branch, _ranges_to_json(preview.inherited)]
    if table.computed_from:
        out["computed_from"] = list(table.computed_from)
    if table.mixed:
        out["mixed"] = True
    return out


def special_from_json(data: dict[str, Json]) -> dict[str, Any]:
    """Read what `special_to_json` wrote, as fields of a table."""
    out: dict[str, Any] = {}
    if "preview" in data:
        of, branch, ranges = data["preview"]
        out["preview"] = Preview(of, branch, _ranges_from_json(ranges))
    if "computed_from" in data:
        out["computed_from"] = tuple(data["computed_from"])
    if "mixed" in data:
        out["mixed"] = bool(data["mixed"])
    return out


def columns_to_json(columns: Iterable[PhysicalColumn]) -> Json:
    """Write a physical table's columns."""
    return [[c.name, c.version, c.type, *([True] * c.in_place), *c.earlier] for c in columns]


def columns_from_json(data: Json) -> tuple[PhysicalColumn, ...]:
    """Read what `columns_to_json` wrote."""
    return tuple(
        PhysicalColumn(n, v, t, tuple(rest[1:]), in_place=True)
        if rest and rest[0] is True
        else PhysicalColumn(n, v, t, tuple(rest))
        for n, v, t, *rest in data
    )


def _ranges_to_json(intervals: IntervalSet) -> Json:
    return [[iso(interval.start), iso(interval.end)] for interval in intervals.ranges]


def _ranges_from_json(data: Json) -> IntervalSet:
    return IntervalSet(
        tuple(Interval(parse_instant(start), parse_instant(end)) for start, end in data)
    )


def _view_changes(views: PlannedViews) -> tuple[tuple[TableRef, ...], ...]:
    return views.created, views.replaced, views.dropped


def _plain(value: Any) -> Json:
    if isinstance(value, datetime):
        return iso(value)
    return value.value if isinstance(value, PlanKind) else value


def _instant(text: str | None) -> datetime | None:
    return parse_instant(text) if text else None
