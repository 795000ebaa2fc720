"""Snapshots, tables and tasks for tests of the engine, without a project around them."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.planning.engine_tasks import FillTask
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.rendering.render import render_statements
from vde_dagster.planning.snapshots.snapshot import OutputColumn, Snapshot
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable, TableRef
from vde_dagster.project.kinds import Kind
from vde_dagster.project.model import Column, Model
from vde_dagster.semantics.versions.version import SemanticVersion
from vde_dagster.spark.engine import SparkEngine

START = datetime(2013, 1, 1, tzinfo=timezone.utc)
_numbers = itertools.count(1)

Columns = dict[str, str]


def days(first: int, end: int) -> Interval:
    """Days of January 2013, the end excluded (32 is the first of February)."""
    return Interval(START + timedelta(days=first - 1), START + timedelta(days=end - 1))


def hours(first: int, end: int) -> Interval:
    """Hours from the start of 2013."""
    return Interval(START + timedelta(hours=first), START + timedelta(hours=end))


def make_snapshot(kind: Kind, columns: Columns, **model: Any) -> Snapshot:
    """A snapshot of a model `marts.m…` with these columns and types."""
    name = ModelName("marts", f"m{next(_numbers)}")
    return Snapshot(
        id=f"snapshot-{name}",
        model=Model(
            name,
            kind,
            SourceLocation(Path("models/m.sql"), 1),
            columns=tuple(Column(c, type_) for c, type_ in columns.items()),
            **model,
        ),
        version=SemanticVersion(rows="rows", columns={c: f"v-{c}" for c in columns}, opaque=None),
        fill_version="fill",
        metadata_hash="metadata",
        layout_hash="layout",
        columns=tuple(
            OutputColumn(c, type_, f"v-{c}", model.get("column_descriptions", {}).get(c))
            for c, type_ in columns.items()
        ),
        parents=(),
        canonicaliser="test",
        definition_hash="definition",
    )


def make_table(snapshot: Snapshot, physical: dict[str, str] | None = None) -> PhysicalTable:
    """A table with the snapshot's columns, some under other physical names."""
    physical = physical or {}
    return PhysicalTable(
        id=f"t{next(_numbers):06}",
        ref=TableRef("vde_physical", snapshot.name.name),
        fill_version=snapshot.fill_version,
        columns=tuple(
            PhysicalColumn(physical.get(c.name, c.name), c.version, c.type)
            for c in snapshot.columns
        ),
        snapshot_id=snapshot.id,
    )


class Warehouse:
    """One model's table, as tests drive it.

    Args:
        engine: The engine.
        kind: The model's kind.
        columns: Its columns and types.
        physical: Physical names that differ.
        model: Further properties of the model.
    """

    def __init__(
        self,
        engine: SparkEngine,
        kind: Kind,
        columns: Columns,
        physical: dict[str, str] | None = None,
        **model: Any,
    ) -> None:
        self.engine = engine
        self.snapshot = make_snapshot(kind, columns, **model)
        self.table = make_table(self.snapshot, physical)
        self.outputs = tuple(columns)
        typed = tuple(
            (column.name, type_)
            for column, type_ in zip(self.table.columns, columns.values(), strict=True)
        )
        engine.create_table(self.table, self.snapshot, typed)

    @property
    def name(self) -> str:
        """The table's name in SQL."""
        return f"lakehouse.{self.table.ref}"

    def task(self, query: str | None, interval: Interval, **changes: Any) -> FillTask:
        """A task that fills an interval."""
        values: dict[str, Any] = {
            "plan_id": "plan-1",
            "snapshot": self.snapshot,
            "table": self.table,
            "columns": tuple(zip(self.outputs, (c.name for c in self.table.columns), strict=True)),
            "interval": interval,
            "query": query,
            "sources": {},
            "branch": None,
            "execution_time": START,
        }
        model = self.snapshot.model
        for key, statements in (
            ("before", model.pre_statements),
            ("after", model.post_statements),
        ):
            values[key] = render_statements(statements, lambda _: None, self.name, interval, START)
        return FillTask(**{**values, **changes})

    def fill(self, query: str | None, interval: Interval, **changes: Any) -> Any:
        """Fill an interval."""
        return self.engine.fill(self.task(query, interval, **changes))

    def rows(self, columns: str = "*", source: str = "") -> list[tuple[Any, ...]]:
        """All rows, sorted as text."""
        _, rows = self.engine.query(f"SELECT {columns} FROM {self.name}{source}")
        return sorted(rows, key=str)

    def summary(self, snapshot_id: int) -> dict[str, str]:
        """The summary of one commit."""
        _, rows = self.engine.query(
            f"SELECT summary FROM {self.name}.snapshots WHERE snapshot_id = {snapshot_id}"
        )
        found: dict[str, str] = rows[0][0]
        return found
