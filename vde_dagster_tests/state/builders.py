"""Small values for tests of state and publication."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import Entry, Environment
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import (
    Category,
    Change,
    Plan,
    PlanKind,
    PlannedModel,
    PlannedViews,
)
from vde_dagster.planning.snapshots.identity import with_content_id
from vde_dagster.planning.snapshots.snapshot import OutputColumn, Snapshot
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable, TableRef
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, Kind
from vde_dagster.project.model import Audit, Model
from vde_dagster.semantics.versions.version import SemanticVersion

T0 = datetime(2024, 1, 1, tzinfo=timezone.utc)


class FakeClock:
    """A clock that moves only when it is told to, or when somebody sleeps."""

    def __init__(self, now: datetime = T0) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def advance(self, **delta: float) -> None:
        self.time += timedelta(**delta)


def day(number: int, length: int = 1) -> Interval:
    """The range of `length` days from day `number` of 2024 (counted from 0)."""
    start = T0 + timedelta(days=number)
    return Interval(start, start + timedelta(days=length))


def days(*numbers: int) -> IntervalSet:
    return IntervalSet.of(day(number) for number in numbers)


def model(name: str, kind: Kind | None = None) -> Model:
    return Model(
        name=ModelName.parse(name),
        kind=kind or IncrementalByTimeRange("ts", lookback=1),
        location=SourceLocation(Path("models/a.sql"), 3, 1),
        query="SELECT 1 AS a, @start_ds AS ts",
        depends_on=(ModelName("raw", "orders"),),
        start=T0,
        audits=(Audit("not_null", (("columns", "(a)"),), "SELECT 1", True),),
        grains=(("a", "ts"),),
        column_descriptions={"a": "it's ünïcode"},
    )


def snapshot(name: str, version: str = "1", kind: Kind | None = None) -> Snapshot:
    made = Snapshot(
        id="",
        model=model(name, kind),
        version=SemanticVersion(
            rows=f"rows-{version}", columns={"a": "va", "ts": "vt"}, unique_keys=(frozenset("a"),)
        ),
        fill_version=f"fill-{name}-{version}",
        metadata_hash="meta",
        layout_hash="layout",
        columns=(OutputColumn("a", "INT", "va", "the a"), OutputColumn("ts", None, "vt")),
        parents=(ModelName("raw", "orders"),),
        canonicaliser="1",
        definition_hash="definition",
    )
    return with_content_id(made)


def table(
    name: str = "orders", version: str = "1", columns: Sequence[str] = ("va", "vt")
) -> PhysicalTable:
    table_id = uuid.uuid4().hex
    return PhysicalTable(
        id=table_id,
        ref=TableRef("vde_physical", f"{name}_{table_id[:8]}"),
        fill_version=f"fill-{name}-{version}",
        columns=tuple(PhysicalColumn(f"c{i}", v) for i, v in enumerate(columns)),
        snapshot_id=f"{name}@{version}",
    )


def environment(
    name: str = "prod",
    entries: Sequence[tuple[str, str, str | None]] = (),
    *,
    by: str = "anna",
    plan_id: str | None = None,
    at: datetime = T0,
    expires_at: datetime | None = None,
) -> Environment:
    """An environment from (model, snapshot id, table id)."""
    made = {}
    for model_name, snapshot_id, table_id in entries:
        parsed = ModelName.parse(model_name)
        made[parsed] = Entry(parsed, snapshot_id, table_id)
    return Environment(
        name=name,
        version=0,
        entries=made,
        publication_id=uuid.uuid4().hex,
        published_at=at,
        published_by=by,
        plan_id=plan_id,
        expires_at=expires_at,
    )


def view(
    name: str,
    sql: str = "SELECT a FROM lakehouse.vde_physical.t",
    *,
    namespace: str = "db",
    columns: Sequence[tuple[str, str, str | None]] = (("a", "INT", "the a"),),
    trino: str | None = 'SELECT "a" FROM lakehouse.vde_physical.t',
    snapshot_id: str = "s1",
    comment: str | None = "about it",
) -> ViewDefinition:
    return ViewDefinition(
        namespace=namespace,
        name=name,
        columns=tuple(columns),
        queries={"spark": sql, **({"trino": trino} if trino is not None else {})},
        query_columns=tuple(column[0] for column in columns),
        properties=(("vde.snapshot", snapshot_id),),
        comment=comment,
    )


def plan(
    plan_id: str = "p1",
    environment_name: str = "prod",
    base_version: int = 0,
    tables: Sequence[PhysicalTable] = (),
    at: datetime = T0,
) -> Plan:
    first = snapshot("db.orders")
    second = snapshot("db.names", kind=Full())
    physical = tables[0] if tables else table()
    models = (
        PlannedModel(
            name=first.name,
            change=Change.ADDED,
            category=Category.BREAKING,
            reasons=("it is new",),
            snapshot_id=first.id,
            previous_snapshot_id=None,
            table=replace(physical, intervals=days(0, 1)),
            builds=True,
            intervals=days(2, 3, 7),
        ),
        PlannedModel(
            name=second.name,
            change=Change.REMOVED,
            category=None,
            reasons=(),
            snapshot_id=None,
            previous_snapshot_id=second.id,
            table=None,
            builds=False,
        ),
    )
    return Plan(
        id=plan_id,
        environment=environment_name,
        kind=PlanKind.PLAN,
        base_version=base_version,
        created_at=at,
        models=models,
        views=PlannedViews(created=(TableRef("db", "orders"),)),
        entries={first.name: Entry(first.name, first.id, physical.id)},
        snapshots={first.id: first, second.id: second},
        start=T0,
        expires_at=None,
    )
