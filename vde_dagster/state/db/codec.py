"""Stored forms of values: compressed bytes for plans and snapshots, JSON for tables' columns."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from vde_dagster.base.hashing import content_digest
from vde_dagster.errors import StoreError
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.identity import content_bytes, from_content
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable, Preview
from vde_dagster.project.serialise import from_bytes, from_text, to_bytes, to_text

T = TypeVar("T")
_MOST_BYTES = 500_000_000


class StoredPlan(NamedTuple):
    """A plan in the form of its database row, with ids in place of the snapshots."""

    plan: Plan
    snapshot_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """A physical table's columns, preview and origin, as stored in its row."""

    columns: tuple[PhysicalColumn, ...]
    preview: Preview | None = None
    computed_from: tuple[str, ...] = ()
    mixed: bool = False


def pack(value: Any) -> bytes:
    """Write JSON values as compressed bytes."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def unpack(data: bytes) -> Any:
    return json.loads(zlib.decompress(data))


def is_whole(data: bytes) -> bool:
    """Return whether a stored value can be decompressed completely."""
    try:
        return bool(_inflate(data))
    except zlib.error:
        return False


def matches_id(key: str, data: bytes) -> bool:
    """Return whether a stored snapshot's hash is its id. Ids of older formats never match."""
    try:
        return content_digest(_inflate(data)) == key
    except zlib.error:
        return False


class ForeignContentError(StoreError):
    """A row's content does not hash to the id under which it is stored."""


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot as compressed bytes."""
    return zlib.compress(content_bytes(snapshot), 6)


def load_snapshot(data: bytes, key: str) -> Snapshot:
    """Read a stored snapshot, and verify that its content hashes to the given id.

    Raises:
        ForeignContentError: The content has another id.
        StoreError: The bytes are damaged, or have an unsupported format.
    """
    snapshot = _read(lambda content: from_content(key, content), data)
    if snapshot is None:
        raise ForeignContentError(
            "its content does not match its id, so a program other than vde wrote it",
            hint=f"find out who can write to vde_snapshots, and delete the row {key} as the owner "
            "of the state's tables; `vde fsck` lists all such rows",
        )
    return snapshot


def dump_plan(plan: Plan) -> bytes:
    """Write a plan as compressed bytes, with its snapshots' ids in place of the snapshots."""
    stored = StoredPlan(replace(plan, snapshots={}), tuple(plan.snapshots))
    return zlib.compress(to_bytes(stored), 3)


def load_stored_plan(data: bytes) -> StoredPlan:
    return _read(lambda content: from_bytes(StoredPlan, content), data)


def load_readable_plan(data: bytes) -> StoredPlan | None:
    """Read a stored plan, or return None if this version cannot read it."""
    # Every login with the right to plan can store such a row, which must stop no one else.
    try:
        return load_stored_plan(data)
    except StoreError:
        return None


def _read(decode: Callable[[bytes], T], data: bytes) -> T:
    try:
        return decode(_inflate(data))
    except zlib.error as error:
        raise StoreError(
            f"a stored value is damaged: {error}",
            hint="restore the state database from a backup, or from 'vde state export'",
        ) from error
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"a stored value cannot be read by this version of the package: {error}",
            hint="install the version of vde-dagster that wrote the value, or start a new store",
        ) from error


def _inflate(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    # The size is limited, because any login with the right to plan can write the value's row.
    out = stream.decompress(data, _MOST_BYTES)
    if not stream.eof or stream.unused_data:
        raise zlib.error("it is cut off, has data after its end, or exceeds the maximum size")
    return out


def dump_columns(table: PhysicalTable) -> str:
    return to_text(StoredColumns(table.columns, table.preview, table.computed_from, table.mixed))


def load_columns(text: str) -> StoredColumns:
    try:
        return from_text(StoredColumns, text)
    except ValueError as error:
        raise StoreError(
            f"the columns of a table in vde_tables are damaged: {error}",
            hint="restore the state database from a backup, or from 'vde state export'",
        ) from error
