"""Values of the planning layer as bytes: JSON, compressed."""

from __future__ import annotations

import functools
import json
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

from vde_dagster.errors import StoreError
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.plan.plan_codec import (
    StoredPlan,
    columns_from_json,
    columns_to_json,
    plan_from_json,
    plan_to_json,
    special_from_json,
    special_to_json,
)
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.snapshots.snapshot_codec import stored_from_json, stored_to_json
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable

if TYPE_CHECKING:
    from pydantic import TypeAdapter


T = TypeVar("T")


@functools.cache
def _snapshot_adapter() -> TypeAdapter[Snapshot]:
    from pydantic import TypeAdapter

    return TypeAdapter(Snapshot)


@functools.cache
def _plan_adapter() -> TypeAdapter[StoredPlan]:
    from pydantic import TypeAdapter

    return TypeAdapter(StoredPlan)


def pack(value: Any) -> bytes:
    """Write plain JSON data as compressed bytes."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def unpack(data: bytes) -> Any:
    """Read what `pack` wrote."""
    return json.loads(zlib.decompress(data))


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot as compressed JSON."""
    value = stored_to_json(snapshot)
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 6)


def load_snapshot(data: bytes) -> Snapshot:
    """Read what `dump_snapshot` wrote.

    Raises:
        StoreError: It is damaged, or was written by code whose snapshots were of another form.
    """
    text = _decompressed(data)
    if not text.startswith(b"["):  # An object by Pydantic, as schema 0001 began with.
        return _read(_snapshot_adapter(), data)
    try:
        return stored_from_json(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(error) from error


def is_whole(data: bytes) -> bool:
    """Say whether a stored value has the bytes that were written, by their checksum."""
    try:
        return zlib.decompress(data)[:1] in (b"[", b"{")
    except zlib.error:
        return False


def dump_plan(plan: Plan) -> bytes:
    """Write a plan, without the content of its snapshots, as compressed JSON."""
    text = json.dumps(plan_to_json(plan), ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode(), 3)


def load_stored_plan(data: bytes) -> StoredPlan:
    """Read what `dump_plan` wrote.

    Raises:
        StoreError: It is damaged, or was written by code whose plans were of another form.
    """
    text = _decompressed(data)
    if not text.startswith(b"["):  # An object by Pydantic, as the first plans were stored.
        return _read(_plan_adapter(), data)
    try:
        return plan_from_json(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(error) from error


def _read(adapter: TypeAdapter[T], data: bytes) -> T:
    from pydantic import ValidationError

    try:
        return adapter.validate_json(zlib.decompress(data))
    except ValidationError as error:
        raise _unreadable(error) from error


def _decompressed(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise StoreError(
            f"a stored value is damaged: {error}",
            hint="restore the state database from a backup, or from 'vde state export'",
        ) from error


def _unreadable(error: Exception) -> StoreError:
    return StoreError(
        f"a stored value cannot be read by this version of the package: {error}",
        hint="an incompatible version wrote it: install that one, or start a new store",
    )


def to_plan(stored: StoredPlan, snapshots: dict[str, Snapshot]) -> Plan:
    """Put a stored plan and its snapshots together again."""
    return Plan(
        id=stored.id,
        environment=stored.environment,
        kind=stored.kind,
        base_version=stored.base_version,
        created_at=stored.created_at,
        models=stored.models,
        views=stored.views,
        entries={entry.name: entry for entry in stored.entries},
        snapshots=snapshots,
        start=stored.start,
        end=stored.end,
        expires_at=stored.expires_at,
        warnings=stored.warnings,
        restates=stored.restates,
        outdates=stored.outdates,
        statements=stored.statements,
        other_statements=stored.other_statements,
        proposal=stored.proposal,
    )


def dump_columns(table: PhysicalTable) -> str:
    """Write a physical table's columns as JSON text, with what else only few tables have."""
    columns, special = columns_to_json(table.columns), special_to_json(table)
    return json.dumps({**special, "columns": columns} if special else columns)


def load_columns(text: str) -> tuple[tuple[PhysicalColumn, ...], dict[str, Any]]:
    """Read what `dump_columns` wrote: the columns, and other fields of the table."""
    data = json.loads(text)
    if isinstance(data, list):
        return columns_from_json(data), {}
    return columns_from_json(data["columns"]), special_from_json(data)
