"""Which tables a fill reads, itself or through views, and which of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from vde_dagster.planning.resolver import Resolver, column_map
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import TableRef
from vde_dagster.semantics.spark_functions import GENERATORS, TABLE_FUNCTIONS
from vde_dagster.sql.scanner import SourceText, scan

Columns = tuple[str, ...] | None
"""Physical columns, sorted; None for all of them."""


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
    for read in _reads(snapshot, resolver, catalog, set()):
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
    snapshot: Snapshot, resolver: Resolver, catalog: str, seen: set[str]
) -> Iterator[TableRead]:
    if snapshot.id in seen:
        return
    seen.add(snapshot.id)
    for name in snapshot.model.depends_on:
        if name not in resolver.entries:
            # Nobody declares it, so that the name is left to Spark.
            ref = TableRef(name.namespace, name.name)
            yield TableRead(str(name), ref, None, external=True, foreign="")
            continue
        binding = resolver.resolve(name)
        if binding.external is not None:
            table = binding.external
            foreign = None if table.catalog in (None, catalog) else table.catalog
            ref = TableRef(table.namespace, table.name)
            key = str(ref) if foreign is None else f"{foreign}.{ref}"
            yield TableRead(key, ref, None, external=True, foreign=foreign)
        elif binding.table is not None:
            physical = {
                out.lower(): phys for out, phys in column_map(binding.snapshot, binding.table)
            }
            columns = _columns_of(snapshot, str(name), physical)
            yield TableRead(binding.table.id, binding.table.ref, columns, branch=binding.branch)
        else:
            # All that a view reads: its other columns may decide which rows it has.
            yield from _reads(binding.snapshot, resolver, catalog, seen)


def _columns_of(snapshot: Snapshot, parent: str, physical: dict[str, str]) -> Columns:
    if snapshot.version.opaque is not None or snapshot.model.python is not None:
        return None
    if snapshot.model.query is not None and _may_decide_rows_unseen(snapshot.model.query):
        return None
    found: set[str] = set()
    for read in snapshot.reads:
        if read.parent == parent:
            column = physical.get(read.column.lower())
            if column is None:
                return None
            found.add(column)
    return tuple(sorted(found))


@lru_cache(maxsize=4096)
def _may_decide_rows_unseen(query: str) -> bool:
    """Say whether columns may decide which rows there are that no output is made of.

    Lineage tells what joins, filters and groups read. It does not tell of the columns of EXCEPT and
    INTERSECT, nor of what generators take apart, where no output has them.
    """
    tokens = scan(SourceText(Path("query"), query))
    return any(
        token.kind in ("word", "quoted") and token.text.lower().strip("`") in _UNSEEN
        for token in tokens
    )


_UNSEEN = frozenset({"except", "intersect", "minus", "lateral"}) | GENERATORS | TABLE_FUNCTIONS


def _both(one: Columns, other: Columns) -> Columns:
    return None if one is None or other is None else tuple(sorted({*one, *other}))
