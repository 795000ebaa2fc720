"""Snapshots: models as defined at one moment, with versions and column lineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import NamedTuple

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.planning.intervals.cadence import Cadence
from vde_dagster.planning.tables.nested_fields import Fields
from vde_dagster.planning.tables.table import table_version
from vde_dagster.project.kinds import External
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import OTHER_COLUMNS, SemanticVersion, canonicaliser

CANONICALISER = canonicaliser()
"""Version of the code that makes the hashes."""


class OutputColumn(NamedTuple):
    """One output column of a snapshot.

    Args:
        type: Spark SQL type, or None if unknown.
        version: Hash of the expression of its value (hex, 128 bits).
    """

    name: str
    type: str | None
    version: str
    description: str | None = None


class Read(NamedTuple):
    """A column of a parent that a model's query uses, with the kind of use.

    Args:
        parent: The table that is read, as `namespace.name`.
        column: The parent's column; `*` if the query reads unknown columns.
        output: The output column that depends on the column, or None if the rows depend on it.
        how: Kind of the use. `identity`, `transformation` and `aggregation` compute the output from
            the column. `join`, `filter`, `group`, `sort`, `window` and `conditional` only determine
            the output or the rows. `python` and `unknown`: the use is unknown.
    """

    parent: str
    column: str
    output: str | None
    how: str


@dataclass(frozen=True, slots=True)
class Forward:
    """The production table that a forward-only snapshot reuses in place.

    Args:
        columns: (output column, version) of the query's columns.
        fields: All fields, by output column, of nested columns that got or lost fields.
        widened: (output column, new Spark SQL type) of columns that were widened in place.
    """

    # This is the only exception to content addressing, because rows of several definitions share
    # the table. Children see the versions that production shows, so they are not recomputed. All
    # attributes except the table and the fields describe only the new definition.
    table_id: str
    own_id: str
    rows: str
    fill_version: str
    columns: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, Fields], ...] = ()
    widened: tuple[tuple[str, str], ...] = ()

    @property
    def field_versions(self) -> tuple[str, ...]:
        """The hashes of the struct fields that were added to the table in place."""
        listed = (field.version for _, fields in self.fields for field in fields)
        return tuple(version for version in listed if version)

    def column_fields(self, column: str) -> Fields:
        """Return the fields that an output column shows; empty if they have not changed."""
        return next((own for name, own in self.fields if name.lower() == column.lower()), ())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A model's definition with its versions.

    Args:
        id: Hash of all other fields as they are stored (hex), see `identity`.
        fill_version: Hash of everything that determines a table's rows: row version, kind, time
            column or key, lookback, stamp (hex).
        metadata_hash: Hash of descriptions and of settings for running the model.
        layout_hash: Hash of partitioning, sort order and table properties.
        parents: Models among `model.depends_on`.
        canonicaliser: Version of the code that made the hashes.
        definition_hash: Hash of the model's own definition, without its parents.
        reads: Columns of its parents that the query reads.
        forward: The production table that the snapshot reuses in place, if any.
        other_texts: Columns whose casts to text differ between the model's dialect and Spark.
    """

    # Snapshots are immutable, stored once, and shared by environments.
    id: str
    model: Model
    version: SemanticVersion
    fill_version: str
    metadata_hash: str
    layout_hash: str
    columns: tuple[OutputColumn, ...]
    parents: tuple[ModelName, ...]
    canonicaliser: str
    definition_hash: str
    reads: tuple[Read, ...] = ()
    forward: Forward | None = None
    other_texts: tuple[str, ...] = ()

    @property
    def name(self) -> ModelName:
        return self.model.name

    @property
    def meaning(self) -> str:
        """Hash of the rows, columns, metadata and layout of the definition, as hex."""
        # Definitions that differ only in formatting, comments, or unused code have one meaning.
        columns = (part for column in self.columns for part in (column.name, column.version))
        own = (self.fill_version, self.metadata_hash, self.layout_hash)
        if self.forward is None:
            return digest("snapshot", str(self.name), *own, *columns)
        base = (self.forward.table_id, self.standalone_hash)
        fields = (part for _, listed in self.forward.fields for one in listed for part in one.texts)
        return digest("snapshot in place", str(self.name), *own, *base, *columns, *fields)

    def means(self, other: Snapshot) -> bool:
        """Return whether two snapshots have equal rows, columns, metadata and layout."""
        # Equal ids imply equal meanings.
        return self.id == other.id or self.meaning == other.meaning

    @property
    def standalone_hash(self) -> str:
        """The `meaning`, computed as if no table were reused in place."""
        own = (self.standalone_fill, self.metadata_hash, self.layout_hash)
        columns = (part for column in self.standalone_columns for part in column)
        return digest("snapshot", str(self.name), *own, *columns)

    @property
    def cadence(self) -> Cadence:
        return Cadence.of(self.model)

    @property
    def has_table(self) -> bool:
        return self.model.kind.owns_table

    @property
    def is_virtual(self) -> bool:
        """Whether environments show the model only as a view of its query."""
        return self.model.kind.is_shown and not self.has_table

    @property
    def is_incremental(self) -> bool:
        """Whether the table is filled by time intervals."""
        return self.model.kind.by_intervals

    @property
    def in_order(self) -> bool:
        """Whether intervals are filled in order of time."""
        # Either the kind requires the order, or the model reads itself.
        return self.model.kind.in_order or (self.model.reads_itself and self.is_incremental)

    @property
    def computed_columns(self) -> tuple[OutputColumn, ...]:
        """Columns that the query or the Python code computes, without columns added by the kind."""
        added = {column.name for column in self.model.kind.added_columns}
        made = {name for name, _ in self.standalone_columns}
        return tuple(c for c in self.columns if c.name not in added and c.name in made)

    @property
    def standalone_columns(self) -> tuple[tuple[str, str], ...]:
        """(column, version) pairs, with versions as if no table were reused in place."""
        if self.forward is not None:
            return self.forward.columns
        return tuple((column.name, column.version) for column in self.columns)

    @property
    def standalone_rows(self) -> str:
        return self.version.rows if self.forward is None else self.forward.rows

    @property
    def standalone_fill(self) -> str:
        """The fill version, computed as if no table were reused in place."""
        return self.fill_version if self.forward is None else self.forward.fill_version

    @property
    def standalone_meaning(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        return self.standalone_fill, self.standalone_columns

    @property
    def standalone_meaning_hash(self) -> str:
        """Hash of the fill version and columns, computed as if no table were reused in place."""
        fill, columns = self.standalone_meaning
        return digest("own", fill, *(text for pair in columns for text in pair))

    @property
    def table_version(self) -> str:
        """The short hash in a table's name, such as `3f2a…` in `sales__3f2a…_9c81d0`."""
        return table_version(self.fill_version, (column.version for column in self.columns))


def sort_parents_first(snapshots: Mapping[ModelName, Snapshot]) -> dict[ModelName, Snapshot]:
    """Return the snapshots with parents before children, whatever their order was."""
    graph = {
        name: [parent for parent in snapshots[name].parents if parent in snapshots]
        for name in sorted(snapshots)
    }
    return {name: snapshots[name] for name in TopologicalSorter(graph).static_order()}


def column_types(snapshots: Mapping[ModelName, Snapshot]) -> dict[str, dict[str, str]]:
    """Return Spark SQL types by model and column, as input of `semantics.analysis.analyze`.

    Unknown types are `UNKNOWN`, and models without known columns are left out. The column `*`
    represents the undeclared columns of an external table, and the unknown ones of a star.
    """
    schema: dict[str, dict[str, str]] = {}
    for name, snapshot in snapshots.items():
        types = {column.name: column.type or "UNKNOWN" for column in snapshot.columns}
        if types:
            kind = snapshot.model.kind
            is_partial = isinstance(kind, External) and kind.partial
            is_partial |= bool(snapshot.version.unknown_star) and not snapshot.model.columns
            schema[str(name)] = types | ({OTHER_COLUMNS: "UNKNOWN"} if is_partial else {})
    return schema
