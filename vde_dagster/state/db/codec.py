"""Values of the planning layer as compressed bytes, and columns of tables as JSON."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from vde_dagster.errors import StoreError
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable, Preview
from vde_dagster.project.serialise import from_bytes, from_text, to_bytes, to_text

T = TypeVar("T")


class StoredPlan(NamedTuple):
    """A plan without snapshots, which are stored once for all plans."""

    plan: Plan
    snapshot_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """The columns of a physical table, with what else only few tables have."""

    columns: tuple[PhysicalColumn, ...]
    preview: Preview | None = None
    computed_from: tuple[str, ...] = ()
    mixed: bool = False


def pack(value: Any) -> bytes:
    """Write plain JSON data as compressed bytes."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def unpack(data: bytes) -> Any:
    """Read what `pack` wrote."""
    return json.loads(zlib.decompress(data))


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot with its model."""
    return zlib.compress(to_bytes(snapshot), 6)


def load_snapshot(data: bytes) -> Snapshot:
    """Read what `dump_snapshot` wrote; a StoreError tells damage from another form."""
    return _read(Snapshot, data)


def is_whole(data: bytes) -> bool:
    """Say whether a stored value has the bytes that were written, by their checksum."""
    try:
        return bool(zlib.decompress(data))
    except zlib.error:
        return False


def dump_plan(plan: Plan) -> bytes:
    """Write a plan without the content of its snapshots."""
    stored = StoredPlan(replace(plan, snapshots={}), tuple(plan.snapshots))
    return zlib.compress(to_bytes(stored), 3)


def load_stored_plan(data: bytes) -> StoredPlan:
    """Read what `dump_plan` wrote."""
    return _read(StoredPlan, data)


def _read(form: type[T], data: bytes) -> T:
    try:
        return from_bytes(form, zlib.decompress(data))
    except zlib.error as error:
        raise StoreError(
            f"a stored value is damaged: {error}",
            hint="restore the state database from a backup, or from 'vde state export'",
        ) from error
    except ValueError as error:
        raise StoreError(
            f"a stored value cannot be read by this version of the package: {error}",
            hint="an incompatible version wrote it: install that one, or start a new store",
        ) from error


def dump_columns(table: PhysicalTable) -> str:
    """Write a physical table's columns as JSON text, with what else only few tables have."""
    return to_text(StoredColumns(table.columns, table.preview, table.computed_from, table.mixed))


def load_columns(text: str) -> StoredColumns:
    """Read what `dump_columns` wrote."""
    return from_text(StoredColumns, text)
