"""The id of a snapshot: the hash of its stored bytes, which detects damaged rows of the state.

Snapshots with equal ids are equal in every field. Snapshots that differ only in a comment have
different ids and the same `meaning`; a plan then keeps the published snapshot.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from vde_dagster.base.hashing import content_digest, digest
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.serialise import from_bytes, to_bytes

WHOLE_SINCE = 15
"""First canonicalizer version whose ids are hashes of all bytes."""


def with_content_id(snapshot: Snapshot) -> Snapshot:
    """Return a copy of a snapshot whose id is the hash of its content."""
    return replace(snapshot, id=content_digest(content_bytes(snapshot)))


def content_bytes(snapshot: Snapshot) -> bytes:
    """Serialize a snapshot without its id, to the same bytes in every process."""
    keys = snapshot.version.unique_keys
    if len(keys) > 1:
        ordered = replace(snapshot.version, unique_keys=tuple(sorted(keys, key=sorted)))
        snapshot = replace(snapshot, version=ordered)
    data = to_bytes(replace(snapshot, id="") if snapshot.id else snapshot)
    if all(len(key) < 2 for key in keys):
        return data
    # A set is written in an order that differs by process.
    plain = msgspec.msgpack.decode(data)
    plain["version"]["unique_keys"] = [sorted(key) for key in plain["version"]["unique_keys"]]
    return msgspec.msgpack.encode(plain)


def from_content(key: str, data: bytes) -> Snapshot | None:
    """Read a snapshot from stored bytes, or return None if their hash is not the snapshot's id.

    Raises:
        ValueError: The bytes are damaged, or of another form.
    """
    # Ids of earlier versions of the package are hashes of only the versions and metadata, so they
    # match no content in the current form.
    snapshot = from_bytes(Snapshot, data)
    if content_digest(data) == key:
        return replace(snapshot, id=key)
    number = snapshot.canonicaliser.partition("/")[0]
    is_earlier = number.isdecimal() and int(number) < WHOLE_SINCE
    return snapshot if is_earlier and snapshot.id == key == _earlier_id(snapshot) else None


def _earlier_id(snapshot: Snapshot) -> str:
    columns = [part for column in snapshot.columns for part in (column.name, column.version)]
    if snapshot.forward is not None:
        own = snapshot.forward
        return digest("forward", own.table_id, own.own_id, *columns)
    return snapshot.meaning
