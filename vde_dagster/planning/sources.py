"""Which tables a fill reads, itself or through views, and which of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vde_dagster.planning.resolver import Resolver, column_map
from vde_dagster.planning.snapshot import CANONICALISER, Snapshot
from vde_dagster.planning.table import TableRef

Columns = tuple[str, ...] | None
"""Physical columns, sorted; None for all of them."""

Outputs = frozenset[str] | None
"""Columns that a query returns, in lower case; None for all of them."""

_Asked = tuple[str, Outputs]
"""A snapshot's id, and what is asked of it."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table that a fill reads.

    Args:
        key: The physical table's id, or `namespace.name` of one that others write.
        ref: Its place in the project's catalog.
        columns: What is read of it.
        external: Whether others write it.
        branch: The Iceberg branch that is read, or None for `main`.
        foreign: The other catalog that it lies in, or None.
    """

    key: str
    ref: TableRef
    columns: Columns
    external: bool = False
    branch: str | None = None
    foreign: str | None = None


def tables_read(snapshot: Snapshot, resolver: Resolver, catalog: str) -> tuple[TableRead, ...]:
    """Return the tables that filling a snapshot's table reads, each once, in order of their keys.

    Args:
        snapshot: The definition that fills the table.
        resolver: What names stand for.
        catalog: The Spark catalog's name.
    """
    found: dict[str, TableRead] = {}
    for read in _reads(snapshot, resolver, catalog, None, set()):
        known = found.get(read.key)
        columns = read.columns if known is None else _both(known.columns, read.columns)
        found[read.key] = TableRead(
            read.key, read.ref, columns, read.external, read.branch, read.foreign
        )
    return tuple(found[key] for key in sorted(found))


def covers(columns: Columns, wanted: Columns) -> bool:
    """Say whether some columns are among others.

    >>> covers(None, ("a",)), covers(("a", "b"), ("a",)), covers(("a",), None)
    (True, True, False)
    """
    return columns is None or (wanted is not None and set(wanted) <= set(columns))


def _reads(
    snapshot: Snapshot, resolver: Resolver, catalog: str, outputs: Outputs, seen: set[_Asked]
) -> Iterator[TableRead]:
    """Yield what is read for some outputs of a query, and for the question which rows it has."""
    if (snapshot.id, outputs) in seen:
        return
    seen.add((snapshot.id, outputs))
    for name in snapshot.model.depends_on:
        if name not in resolver.entries:
            # Nobody declares it, so that the name is left to Spark.
            ref = TableRef(name.namespace, name.name)
            yield TableRead(str(name), ref, None, external=True, foreign="")
            continue
        binding = resolver.resolve(name)
        wanted = _wanted(snapshot, str(name), outputs)
        if binding.external is not None:
            table = binding.external
            foreign = None if table.catalog in (None, catalog) else table.catalog
            ref = TableRef(table.namespace, table.name)
            key = str(ref) if foreign is None else f"{foreign}.{ref}"
            yield TableRead(key, ref, None, external=True, foreign=foreign)
        elif binding.table is not None:
            columns = _physical(wanted, dict(column_map(binding.snapshot, binding.table)))
            yield TableRead(binding.table.id, binding.table.ref, columns, branch=binding.branch)
        else:
            yield from _reads(binding.snapshot, resolver, catalog, wanted, seen)


def _wanted(snapshot: Snapshot, parent: str, outputs: Outputs) -> Outputs:
    """Return the columns of a parent of which some outputs of a query are made, or its rows."""
    if snapshot.canonicaliser != CANONICALISER:
        return None  # An earlier version may not have seen all that is read.
    if snapshot.version.opaque is not None or snapshot.model.python is not None:
        return None
    return frozenset(
        read.column.lower()
        for read in snapshot.reads
        if read.parent == parent
        and (outputs is None or read.output is None or read.output.lower() in outputs)
    )


def _physical(wanted: Outputs, physical: dict[str, str]) -> Columns:
    if wanted is None:
        return None
    names = {output.lower(): column for output, column in physical.items()}
    return tuple(sorted(names[one] for one in wanted)) if wanted <= set(names) else None


def _both(one: Columns, other: Columns) -> Columns:
    return None if one is None or other is None else tuple(sorted({*one, *other}))
