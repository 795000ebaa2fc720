"""Physical tables: their identity and columns, external tables, and changes in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName, quote
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet, iso
from vde_dagster.planning.tables.nested_fields import Fields
from vde_dagster.project.model import Model

PREVIEW_PREFIX = "vde_preview_"
"""Prefix of the names of branches that preview changes in place."""

ParentGaps = Mapping[ModelName, IntervalSet]
"""Ranges (UTC) whose rows are missing, by the model that lacks them."""


@dataclass(frozen=True, slots=True)
class TableRef:
    """The name of a physical table or view in the catalog, with a namespace of one level."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    def quoted(self, catalog: str) -> str:
        return quote(catalog, self.namespace, self.name)


class PhysicalColumn(NamedTuple):
    """A column of a physical table.

    Args:
        version: Hash of the expression that computes its value (hex).
        type: Spark SQL type; None if unknown until the table is created.
        earlier: Hashes of the same expression by earlier canonicalizers.
        in_place: Whether the column was added to a table that had rows.
        fields: Fields of its structs that were added in place.
    """

    name: str
    version: str
    type: str | None = None
    earlier: tuple[str, ...] = ()
    # A fill need not compute a column that was added in place, and the table's version does not
    # include it.
    in_place: bool = False
    fields: Fields = ()

    def is_version(self, version: str) -> bool:
        """Return whether a hash is the current hash of this column or one of its earlier hashes."""
        return version == self.version or version in self.earlier


class Part(NamedTuple):
    """A filled part of an interval unit. The whole unit will be filled again."""

    # The part may be computed from parts of its parents' units. If a definition with a shorter unit
    # reads the ranges of the table, the part does not count as filled, although it may contain
    # whole units of that definition (for example hours of an unfinished day).
    interval: Interval
    unit: IntervalUnit


@dataclass(frozen=True, slots=True)
class Preview:
    """A branch of a table that previews a change of the table in place.

    Args:
        of: Id of the table.
        inherited: The ranges that the table had when the branch was created (UTC).
    """

    of: str
    branch: str
    inherited: IntervalSet = field(default_factory=IntervalSet)


@dataclass(frozen=True, slots=True)
class PhysicalTable:
    """A table in the lakehouse. It serves every snapshot with the same fill version and columns.

    Args:
        id: Unique id, which is also part of the table's location and is never reused.
        fill_version: Hash of everything that determines its rows.
        columns: Columns in physical order.
        snapshot_id: The snapshot whose definition fills it.
        intervals: The ranges that are filled and audited (UTC).
        created: Whether the table exists in the catalog.
        computed_from: Sorted ids of the previews that its rows were computed from.
        mixed: Whether definitions of different meanings filled it, one after the other.
        lacks: Ranges that parents lacked at the last fill of a table that is written as a whole.
        parts: Units that were last filled in part.
    """

    id: str
    ref: TableRef
    fill_version: str
    columns: tuple[PhysicalColumn, ...]
    snapshot_id: str
    intervals: IntervalSet = field(default_factory=IntervalSet)
    created: bool = False
    preview: Preview | None = None
    # Only environments that show these previews use the table.
    computed_from: tuple[str, ...] = ()
    mixed: bool = False
    lacks: ParentGaps = field(default_factory=dict, hash=False)
    parts: tuple[Part, ...] = ()

    @property
    def branch(self) -> str | None:
        """The Iceberg branch with the table's rows, or None for `main`."""
        return self.preview.branch if self.preview is not None else None

    @property
    def available(self) -> IntervalSet:
        """The ranges with data; for a preview, including the base table's ranges."""
        return self.intervals if self.preview is None else self.intervals | self.preview.inherited

    def parts_of_longer(self, unit: IntervalUnit) -> IntervalSet:
        """Return the filled parts of interval units that are longer than `unit`."""
        return IntervalSet.of(part for part, of in self.parts if of.value > unit.value)

    def with_ranges_for_unit(self, unit: IntervalUnit) -> PhysicalTable:
        """Return the table without the filled parts of interval units longer than `unit`."""
        parts = self.parts_of_longer(unit)
        return replace(self, intervals=self.intervals - parts) if parts else self

    @property
    def version(self) -> str:
        """The `table_version` of the snapshot that created the table, such as `3f2a…`."""
        known = (column.version for column in self.columns if not column.in_place)
        return table_version(self.fill_version, (*known, *self.computed_from))

    def column_named_by_version(self) -> dict[str, str]:
        """Map each version to the first physical column that has it."""
        names: dict[str, str] = {}
        for column in self.columns:
            for version in (column.version, *column.earlier):
                names.setdefault(version, column.name)
        return names


def table_version(fill_version: str, columns: Iterable[str]) -> str:
    """Return a short hash of a table's rows and columns, which users see in table names."""
    return digest("table", fill_version, *sorted(set(columns)))[:12]


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """A table that other programs write.

    Args:
        catalog: The table's catalog in Spark, or None for the project's catalog.
    """

    namespace: str
    name: str
    catalog: str | None = None

    def quoted(self, own_catalog: str) -> str:
        return quote(self.catalog or own_catalog, self.namespace, self.name)


def external_table(model: Model) -> ExternalTable:
    """Return an external model's table in the catalog."""
    if model.table:
        catalog, namespace, name = model.table
        return ExternalTable(namespace, name, catalog)
    return ExternalTable(model.name.namespace, model.name.name)


class ColumnChange(NamedTuple):
    """A difference between a column of a definition and the column in production's table.

    Args:
        what: Kind of the difference. `added`, `restored` (from an earlier definition), `widened`,
            `retyped`, `removed` and `reordered` (fields of its structs) are applied. `not_added`,
            `not_retyped` and `kept` are not applied, because `on_additive_change` or
            `on_destructive_change` of the model's kind is `ignore`.
        was, becomes: The column's Spark SQL type in the table, and its new type, if known.
        field: The path of a field inside of the column, if only this field changes.
    """

    column: str
    what: str
    was: str | None = None
    becomes: str | None = None
    field: str = ""

    @property
    def name(self) -> str:
        """The column's name, followed by the path of the field, if any."""
        return f"{self.column}.{self.field}" if self.field else self.column


ColumnChanges = tuple[ColumnChange, ...]


@dataclass(frozen=True, slots=True)
class TableChange:
    """A change in place of a table that production shows.

    Args:
        deploys: Whether production's table itself changes. Otherwise a branch previews the change.
        effective_from: Start (UTC) of the rows that the deployment computes again, or None.
    """

    table: TableRef
    deploys: bool
    columns: ColumnChanges = ()
    effective_from: datetime | None = None

    @property
    def widened(self) -> tuple[ColumnChange, ...]:
        """The columns whose type in the table changes."""
        return tuple(change for change in self.columns if change.what == "widened")

    def to_json(self) -> dict[str, Any]:
        return {
            "table": str(self.table),
            "deploys": self.deploys,
            "columns": [
                {"column": c.name, "change": c.what, "from": c.was, "to": c.becomes}
                for c in self.columns
            ],
            "effective_from": iso(self.effective_from) if self.effective_from else None,
        }
