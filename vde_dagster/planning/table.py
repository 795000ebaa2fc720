"""Physical tables: what has been computed, identified by what it contains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.planning.interval import IntervalSet

PREVIEW_PREFIX = "vde_preview_"
"""What names of branches begin with on which changes in place are tried."""

Lacks = Mapping[ModelName, IntervalSet]
"""What rows are missing (UTC), by the model whose rows they are."""


@dataclass(frozen=True, slots=True)
class TableRef:
    """Where a physical table or a view lies in the catalog.

    Args:
        namespace: The namespace, one level.
        name: The name in it.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


class PhysicalColumn(NamedTuple):
    """A column of a physical table.

    Args:
        name: Its name in the table.
        version: Hash of how its value is made (hex).
        type: Spark SQL type, once the table was created.
        earlier: What earlier versions of the canonicaliser hashed the same value to.
        in_place: Whether it was added to a table that had rows: who fills the table need not make
            it, and it is no part of what the table is known by.
    """

    name: str
    version: str
    type: str | None = None
    earlier: tuple[str, ...] = ()
    in_place: bool = False

    def is_version(self, version: str) -> bool:
        """Say whether a hash, of whatever canonicaliser, means this column."""
        return version == self.version or version in self.earlier


@dataclass(frozen=True, slots=True)
class Preview:
    """That a table is a branch of another one, on which a change in place is tried.

    Args:
        of: Id of the table that it is a branch of.
        branch: The Iceberg branch.
        inherited: What the other table held when it branched off (UTC).
    """

    of: str
    branch: str
    inherited: IntervalSet = field(default_factory=IntervalSet)


@dataclass(frozen=True, slots=True)
class PhysicalTable:
    """A table that holds the data of every snapshot with its fill version and columns.

    Args:
        id: Unique id, never used again, also part of the table's location.
        ref: Its place in the catalog.
        fill_version: Hash of what decides its rows.
        columns: Its columns, in physical order.
        snapshot_id: The snapshot whose definition fills it.
        intervals: What is filled and audited (UTC).
        created: Whether the table exists in the catalog.
        preview: The table that it is a branch of; None for a table of its own.
        computed_from: Ids of the previews that its rows were computed from, sorted: what nobody
            has deployed serves nobody else.
        mixed: Whether definitions of several meanings filled it, one after the other: then it
            serves only what extends it.
        lacks: What its latest fill was made without, of a table that is made whole.
    """

    id: str
    ref: TableRef
    fill_version: str
    columns: tuple[PhysicalColumn, ...]
    snapshot_id: str
    intervals: IntervalSet = field(default_factory=IntervalSet)
    created: bool = False
    preview: Preview | None = None
    computed_from: tuple[str, ...] = ()
    mixed: bool = False
    lacks: Lacks = field(default_factory=dict, hash=False)

    @property
    def branch(self) -> str | None:
        """The Iceberg branch that holds its rows; None for `main`."""
        return self.preview.branch if self.preview is not None else None

    @property
    def available(self) -> IntervalSet:
        """What its readers find: what was filled, and what a preview has of its table."""
        return self.intervals if self.preview is None else self.intervals | self.preview.inherited

    @property
    def version(self) -> str:
        """The `table_version` of what it holds.

        That of the snapshot that it was made for; another one that it serves may have fewer
        columns, and shows the table's partitions, filled as they are.
        """
        known = (column.version for column in self.columns if not column.in_place)
        return table_version(self.fill_version, (*known, *self.computed_from))

    def column_named_by_version(self) -> dict[str, str]:
        """Return physical column names by version (the first where two are equal)."""
        names: dict[str, str] = {}
        for column in self.columns:
            for version in (column.version, *column.earlier):
                names.setdefault(version, column.name)
        return names


def table_version(fill_version: str, columns: Iterable[str]) -> str:
    """Return the short hash of what a table contains: the version that people see everywhere.

    Tables' names have it, Dagster's partitions, plans and `vde info`.

    Args:
        fill_version: Hash of what decides its rows.
        columns: Hashes of how its columns' values are made, in any order.
    """
    return digest("table", fill_version, *sorted(set(columns)))[:12]
