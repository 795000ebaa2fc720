"""The Iceberg snapshots that a publication pins, read from the metadata of its tables.

Of a table that the environment showed before, and that this publication does not move, the state
knows what it holds: whoever moved it noted that in its own publication's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from vde_dagster.lakehouse.catalogs.catalog import TABLE, Pointer
from vde_dagster.lakehouse.metadata.table_metadata import head_of, history
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.environments.pins import Growth, Head

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse


Place = tuple[TableRef, "str | None"]
"""A table's place in the catalog, and the branch that readers see; None for `main`."""


@dataclass(frozen=True, slots=True)
class PreparedPins:
    """Pins worked out before a publication's transaction.

    Args:
        heads: By table id, of what it moves, shows first, or changes the columns of.
        growths: By table id, of what it moves.
        places: The tables that it shows first or changes, and that others may write until it
            commits.
        gone: Tables that it no longer shows.
    """

    heads: Mapping[str, Head]
    growths: Mapping[str, Growth]
    places: Mapping[str, Place]
    gone: frozenset[str]


def head_in(metadata: dict[str, Any], location: str, table_id: str, branch: str | None) -> Head:
    """Read from a table's metadata what its readers see.

    Args:
        branch: The branch that readers see; None for `main`.
    """
    snapshot = next(history(metadata, head_of(metadata, branch)), None)
    return Head(
        table_id,
        location,
        int(snapshot["snapshot-id"]) if snapshot is not None else None,
        int(metadata["current-schema-id"]),
        rows_in(snapshot["summary"]) if snapshot is not None else 0,
    )


def rows_in(summary: Mapping[str, str]) -> int | None:
    """Return the number of rows after a commit, as far as its summary says.

    Rows of data files that delete files hide are no rows; a delete by value may hide any number.

    >>> rows_in({"total-records": "9", "total-position-deletes": "2"}), rows_in({})
    (7, None)
    """
    total = summary.get("total-records")
    if total is None or int(summary.get("total-equality-deletes") or 0):
        return None
    return int(total) - int(summary.get("total-position-deletes") or 0)


def growth_between(metadata: dict[str, Any], before: int | None, after: int | None) -> Growth:
    """Add up what the commits between two snapshots of a table added and removed.

    Rows that a commit writes anew count on both sides. A commit that is taken back counts the other
    way round: what it removed is there again. Source of the summaries' fields:
    https://iceberg.apache.org/spec/#optional-snapshot-summary-fields.

    Args:
        metadata: The table's metadata.
        before: The earlier snapshot; None for the time before the first.
        after: The later one, which may be older where a table went back.

    Returns:
        The counts; None where a commit is gone or says nothing.
    """
    left, found = list(history(metadata, before)), list(history(metadata, after))
    both = {one["snapshot-id"] for one in left} & {one["snapshot-id"] for one in found}
    forward, back = _counts(found, both, after), _counts(left, both, before)
    if forward is None or back is None:
        return Growth(before, None, None)
    return Growth(before, forward[0] + back[1], forward[1] + back[0])


def _counts(
    line: list[dict[str, Any]], both: Collection[int], newest: int | None
) -> tuple[int, int] | None:
    """Count what commits added and removed since the first that two lines share, or since ever."""
    added = removed = 0
    parent = newest
    for snapshot in line:
        if snapshot["snapshot-id"] in both:
            return added, removed
        summary = snapshot.get("summary", {})
        if summary.get("operation") != "replace":
            if "total-records" not in summary or int(summary.get("added-equality-deletes") or 0):
                return None
            hidden = _count(summary, "added-position-deletes")
            hidden -= _count(summary, "removed-position-deletes")
            added += _count(summary, "added-records")
            removed += _count(summary, "deleted-records") + hidden
        parent = snapshot.get("parent-snapshot-id")
    return (added, removed) if parent is None else None


def _count(summary: Mapping[str, str], name: str) -> int:
    return int(summary.get(name) or 0)


def prepare_pins(
    lakehouse: Lakehouse,
    connection: Connection,
    environment: Environment,
    changed: frozenset[str],
    moved: Mapping[str, tuple[Head, Growth]],
) -> PreparedPins:
    """Find out what a publication's tables hold, where the state does not know it.

    Args:
        connection: The transaction to read in.
        changed: Ids of tables whose columns changed since they were shown.
        moved: By table id, what the publication itself moves.
    """
    pins, shown = lakehouse.store.pins, environment.tables
    pinned = pins.pinned(connection, environment.name)
    unknown = (shown - pinned) | changed
    if environment.name != PRODUCTION:  # which holds nothing
        unknown |= shown & pins.held(connection, environment.name)
        unknown -= environment.held.keys()
    unknown -= moved.keys()
    places = pins.places(connection, unknown)
    heads = pins.heads(connection, unknown)
    pointers = lakehouse.catalog.pointers([ref for ref, _ in places.values()], connection)
    return PreparedPins(
        heads={
            **{table_id: head for table_id, (head, _) in moved.items()},
            **read_heads(lakehouse, places, pointers, heads),
        },
        growths={table_id: growth for table_id, (_, growth) in moved.items()},
        places=places,
        gone=frozenset(pinned - shown),
    )


def read_heads(
    lakehouse: Lakehouse,
    places: Mapping[str, Place],
    pointers: Mapping[TableRef, Pointer],
    known: Mapping[str, Head],
) -> dict[str, Head]:
    """Return the current snapshots of tables, read from metadata files where not yet known.

    A table that the catalog has not, or whose file is lost, is left out: `vde fsck` names it.
    """

    def read(item: tuple[str, Place]) -> Head | None:
        table_id, (ref, branch) = item
        pointer, head = pointers.get(ref), known.get(table_id)
        if pointer is None or pointer.kind != TABLE:
            return None
        if head is not None and head.location == pointer.location:
            return head
        try:
            metadata = lakehouse.files.read_json(pointer.location)
        except FileNotFoundError:
            return None
        return head_in(metadata, pointer.location, table_id, branch)

    found = lakehouse.files.each(read, list(places.items()))
    return {head.table_id: head for head in found if head is not None}


def write_pins(
    lakehouse: Lakehouse, connection: Connection, environment: Environment, prepared: PreparedPins
) -> None:
    """Pin what a publication shows, inside its transaction.

    Args:
        connection: The transaction; it has written the environment's entries.
        environment: What is published, with its version.
        prepared: What was known before. A table that others have written since is read again.
    """
    pins, heads = lakehouse.store.pins, dict(prepared.heads)
    if prepared.places:
        refs = [ref for ref, _ in prepared.places.values()]
        pointers = lakehouse.catalog.pointers(refs, connection)
        now = read_heads(lakehouse, prepared.places, pointers, heads)
        lost = prepared.places.keys() - now.keys()
        pins.forget(connection, lost)
        heads = {**{one: head for one, head in heads.items() if one not in lost}, **now}
    pins.note(connection, heads.values())
    if environment.name != PRODUCTION:
        # Production's tables move with its own publications only; others share theirs.
        heads = {**pins.moved(connection, environment.name), **heads}
        for table_id, held in environment.held.items():
            heads[table_id] = Head(table_id, "", held.snapshot_id, held.schema_id, held.rows)
    shown = {table_id: heads[table_id] for table_id in heads.keys() & environment.tables}
    pins.write(
        connection,
        environment.name,
        environment.version,
        shown,
        prepared.gone,
        prepared.growths,
    )
