"""Table metadata as the Iceberg table specification has it. Pure: JSON in, JSON out.

Edited as JSON and not through a library's classes, so that fields of newer format versions come
through untouched. Source: https://iceberg.apache.org/spec/#table-metadata-and-snapshots.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.metadata.types import iceberg_to_spark, schema_of, spark_to_iceberg

MAIN = "main"
_METADATA_LOG_PROPERTY = "write.metadata.previous-versions-max"
_METADATA_LOG_SIZE = 100


def current_columns(metadata: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Return (name, Spark SQL type, description) of a table's current schema."""
    return [
        (field["name"], iceberg_to_spark(field["type"]), field.get("doc"))
        for field in _current_schema(metadata)["fields"]
    ]


def columns_of(metadata: dict[str, Any], schema_id: int | None) -> dict[str, str]:
    """Return the Spark SQL types by name of a table's columns in one of its schemas.

    Args:
        metadata: The table's metadata.
        schema_id: The schema; the current one where that is not known any more.
    """
    schemas = {int(schema["schema-id"]): schema for schema in metadata["schemas"]}
    schema = schemas.get(-1 if schema_id is None else schema_id) or _current_schema(metadata)
    return {field["name"]: iceberg_to_spark(field["type"]) for field in schema["fields"]}


def head_of(metadata: dict[str, Any], branch: str | None = None) -> int | None:
    """Return the snapshot id that a branch (or `main`) points to, or None."""
    ref = metadata.get("refs", {}).get(branch or MAIN)
    if ref is not None:
        return int(ref["snapshot-id"])
    if branch is None or branch == MAIN:
        current = metadata.get("current-snapshot-id")
        return int(current) if current is not None and current != -1 else None
    return None


def snapshot_ids(metadata: dict[str, Any]) -> set[int]:
    """Return the ids of the snapshots that a table has."""
    return {int(item["snapshot-id"]) for item in metadata.get("snapshots", [])}


def history(metadata: dict[str, Any], head: int | None) -> Iterator[dict[str, Any]]:
    """Walk from a snapshot back through its parents, as far as they are kept."""
    snapshots = {int(item["snapshot-id"]): item for item in metadata.get("snapshots", [])}
    while head is not None and head in snapshots:
        snapshot = snapshots[head]
        yield snapshot
        head = snapshot.get("parent-snapshot-id")


def ancestors(metadata: dict[str, Any], head: int | None) -> set[int]:
    """Return a snapshot and its parents, as far as they are kept, by id."""
    return {int(snapshot["snapshot-id"]) for snapshot in history(metadata, head)}


def fast_forward(
    metadata: dict[str, Any],
    metadata_location: str,
    branch: str,
    expected_main: int | None,
    now_ms: int,
    table: str,
    into: str | None = None,
) -> dict[str, Any]:
    """Move `main`, or another branch, to a branch's head and remove the branch.

    Args:
        metadata: The table's metadata now.
        metadata_location: Its file; goes into the metadata log.
        expected_main: The snapshot that `main` is expected at; None for any ancestor.
        now_ms: Milliseconds since 1970 (UTC).
        table: The table's name, for messages.
        into: The branch that moves, in place of `main`; what is said of `main` holds for it.

    Raises:
        ConflictError: `main` is elsewhere, the branch is gone, or `main` is not among the
            branch's ancestors.
    """
    moving = into or MAIN
    main = head_of(metadata, into)
    if expected_main is not None and main != expected_main:
        raise ConflictError(
            f"the table {table} was written by somebody else: {moving} is at {main}, not at "
            f"{expected_main}",
            hint="plan again",
        )
    head = head_of(metadata, branch)
    if head is None:
        raise ConflictError(
            f"the table {table} no longer has the branch '{branch}'",
            hint="apply the plan again: it fills the branch anew",
        )
    if main is not None and main not in ancestors(metadata, head):
        raise ConflictError(
            f"the branch '{branch}' of {table} was not made from what {moving} is now",
            hint="plan again",
        )
    refs = {name: ref for name, ref in metadata.get("refs", {}).items() if name != branch}
    refs[moving] = {**refs.get(moving, {"type": "branch"}), "snapshot-id": head}
    moved = _logged(metadata, metadata_location, now_ms)
    if into is not None:
        return {**moved, "refs": refs}
    snapshot_log = list(metadata.get("snapshot-log", []))
    if head != main:
        snapshot_log.append({"timestamp-ms": moved["last-updated-ms"], "snapshot-id": head})
    return {**moved, "refs": refs, "current-snapshot-id": head, "snapshot-log": snapshot_log}


def move_back(
    metadata: dict[str, Any],
    metadata_location: str,
    snapshot_id: int | None,
    now_ms: int,
    table: str,
    into: str | None = None,
    without: Collection[str] = (),
) -> dict[str, Any]:
    """Let `main`, or another branch, be at a snapshot that it was at before, or was to be.

    The snapshots that it leaves stay, and the snapshot log says what was current when.

    Args:
        metadata: The table's metadata now.
        metadata_location: Its file; goes into the metadata log.
        snapshot_id: The snapshot; None for a table that has none, and so no rows.
        now_ms: Milliseconds since 1970 (UTC).
        table: The table's name, for messages.
        into: The branch that moves, in place of `main`.

    Raises:
        ConflictError: The snapshot is gone.
    """
    kept = {int(item["snapshot-id"]) for item in metadata.get("snapshots", [])}
    if snapshot_id is not None and snapshot_id not in kept:
        raise ConflictError(
            f"the table {table} no longer has its snapshot {snapshot_id}",
            hint="show only the definitions again: vde rollback --definitions-only",
        )
    moving = into or MAIN
    refs = {name: ref for name, ref in metadata.get("refs", {}).items() if name not in without}
    if snapshot_id is None:
        refs.pop(moving, None)
    else:
        refs[moving] = {**refs.get(moving, {"type": "branch"}), "snapshot-id": snapshot_id}
    moved = {**_logged(metadata, metadata_location, now_ms), "refs": refs}
    if into is not None or snapshot_id == head_of(metadata):
        return moved
    if snapshot_id is None:
        return {**moved, "current-snapshot-id": -1}
    entry = {"timestamp-ms": moved["last-updated-ms"], "snapshot-id": snapshot_id}
    log = [*metadata.get("snapshot-log", []), entry]
    return {**moved, "current-snapshot-id": snapshot_id, "snapshot-log": log}


def expire(
    metadata: dict[str, Any],
    metadata_location: str,
    oldest_ms: int,
    now_ms: int,
    pinned: Collection[int] = (),
) -> dict[str, Any] | None:
    """Forget snapshots that were replaced too long ago and that nothing points to.

    Args:
        metadata: The table's metadata now.
        metadata_location: Its file; goes into the metadata log.
        oldest_ms: Snapshots replaced before this instant go (milliseconds since 1970, UTC).
        now_ms: Milliseconds since 1970 (UTC).
        pinned: Snapshots that stay, beside those of branches and tags.

    Returns:
        The metadata without them, or None when there are none.
    """
    heads = {int(ref["snapshot-id"]) for ref in metadata.get("refs", {}).values()} | {*pinned}
    main = head_of(metadata)
    replaced = _replaced_at(metadata)
    kept = [
        item
        for item in metadata.get("snapshots", [])
        if int(item["snapshot-id"]) in heads | {main}
        or replaced.get(int(item["snapshot-id"]), int(item["timestamp-ms"])) >= oldest_ms
    ]
    if len(kept) == len(metadata.get("snapshots", [])):
        return None
    ids = {int(item["snapshot-id"]) for item in kept}
    return _with_snapshots(_logged(metadata, metadata_location, now_ms), ids)


def with_snapshots_of(
    shown: dict[str, Any], behind: dict[str, Any], now_ms: int
) -> dict[str, Any] | None:
    """Forget the snapshots that the table has no more which another one only shows.

    Args:
        shown: The metadata of the table that shows; see `with_other_columns`.
        behind: The metadata of the table that it shows.
        now_ms: Milliseconds since 1970 (UTC).

    Returns:
        The metadata without them, or None when there are none.
    """
    heads = {int(ref["snapshot-id"]) for ref in shown.get("refs", {}).values()}
    ids = snapshot_ids(behind) | heads
    if snapshot_ids(shown) <= ids:
        return None
    updated = max(now_ms, int(shown["last-updated-ms"]))
    return _with_snapshots({**shown, "last-updated-ms": updated}, ids)


def _with_snapshots(metadata: dict[str, Any], ids: Collection[int]) -> dict[str, Any]:
    """Leave out the snapshots that are not among some, by id, and what is said of them."""
    snapshot_log: list[dict[str, Any]] = []
    for entry in metadata.get("snapshot-log", []):
        # A gap would make time travel lie: the log starts after the last forgotten snapshot.
        snapshot_log = [*snapshot_log, entry] if int(entry["snapshot-id"]) in ids else []
    snapshots = metadata.get("snapshots", [])
    changed = {
        **metadata,
        "snapshots": [item for item in snapshots if int(item["snapshot-id"]) in ids],
        "snapshot-log": snapshot_log,
    }
    for key in ("statistics", "partition-statistics"):
        if key in metadata:
            changed[key] = [item for item in metadata[key] if int(item["snapshot-id"]) in ids]
    return changed


def _replaced_at(metadata: dict[str, Any]) -> dict[int, int]:
    """Return when snapshots stopped being what readers of `main` see (milliseconds since 1970)."""
    log = metadata.get("snapshot-log", [])
    return {
        int(entry["snapshot-id"]): int(after["timestamp-ms"])
        for entry, after in itertools.pairwise(log)
    }


def without_branch(
    metadata: dict[str, Any], metadata_location: str, branch: str, now_ms: int
) -> dict[str, Any]:
    """Remove a branch; its snapshots stay until they are expired."""
    refs = {name: ref for name, ref in metadata.get("refs", {}).items() if name != branch}
    return {**_logged(metadata, metadata_location, now_ms), "refs": refs}


def with_branch(
    metadata: dict[str, Any], metadata_location: str, branch: str, now_ms: int
) -> dict[str, Any]:
    """Make a branch of what `main` is now, which has to have a snapshot."""
    ref = {"snapshot-id": head_of(metadata), "type": "branch"}
    refs = {**metadata.get("refs", {}), branch: ref}
    return {**_logged(metadata, metadata_location, now_ms), "refs": refs}


def with_columns(
    metadata: dict[str, Any],
    metadata_location: str,
    columns: Iterable[tuple[str, str]],
    now_ms: int,
) -> dict[str, Any]:
    """Add columns, which are NULL in every row that is there.

    Args:
        metadata: The table's metadata now.
        metadata_location: Its file; goes into the metadata log.
        columns: (name, Spark SQL type); those whose names the table has are left out.
        now_ms: Milliseconds since 1970 (UTC).

    Raises:
        ExecutionError: Iceberg has no such type; the message names the column.
    """
    schema = _current_schema(metadata)
    taken = {field["name"].lower() for field in schema["fields"]}
    new = [(name, type_, None) for name, type_ in columns if name.lower() not in taken]
    if not new:
        return metadata
    ids = itertools.count(int(metadata["last-column-id"]) + 1)
    fields = [*schema["fields"], *schema_of(new, ids)["fields"]]
    changed = _with_schema(metadata, metadata_location, fields, now_ms)
    return {**changed, "last-column-id": next(ids) - 1}


def with_types(
    metadata: dict[str, Any],
    metadata_location: str,
    types: Mapping[str, str],
    now_ms: int,
) -> dict[str, Any]:
    """Give columns wider types, as Iceberg promotes them; their values are read as they are.

    Args:
        metadata: The table's metadata now.
        metadata_location: Its file; goes into the metadata log.
        types: New Spark SQL type by column.
        now_ms: Milliseconds since 1970 (UTC).

    Raises:
        ConflictError: The column has another type by now, of which the new one is no wider form.
    """
    wanted = {name: spark_to_iceberg(type_, _no_id) for name, type_ in types.items()}
    schema = _current_schema(metadata)
    fields = []
    for field in schema["fields"]:
        type_ = wanted.get(field["name"], field["type"])
        if type_ != field["type"] and not is_promotion(field["type"], type_):
            raise ConflictError(
                f"column {field['name']} cannot become {type_}: it is {field['type']} by now",
                hint="plan again",
            )
        fields.append({**field, "type": type_})
    if fields == schema["fields"]:
        return metadata
    return _with_schema(metadata, metadata_location, fields, now_ms)


def promoted(metadata: dict[str, Any], planned: dict[str, Any]) -> dict[str, str]:
    """Return the columns that have wider types in other metadata, with those Spark SQL types."""
    wider = {field["id"]: field["type"] for field in _current_schema(planned)["fields"]}
    return {
        field["name"]: iceberg_to_spark(wider[field["id"]])
        for field in _current_schema(metadata)["fields"]
        if field["id"] in wider and is_promotion(field["type"], wider[field["id"]])
    }


def with_other_columns(
    metadata: dict[str, Any],
    columns: Iterable[tuple[str, str]],
    docs: Mapping[str, str],
    table_uuid: str,
    properties: Mapping[str, str],
    now_ms: int,
) -> dict[str, Any]:
    """Make metadata of a table that shows columns of another one, its files and history.

    Args:
        metadata: The other table's metadata.
        columns: (name, column of the other table), in order.
        docs: Descriptions by name.
        table_uuid: The new table's.
        properties: Its properties; those of the other table hold, too.
        now_ms: Milliseconds since 1970 (UTC).
    """
    schema = _current_schema(metadata)
    by_name = {field["name"].lower(): field for field in schema["fields"]}
    fields = []
    for name, own in columns:
        field = {**by_name[own.lower()], "name": name}
        if name in docs:
            field["doc"] = docs[name]
        fields.append(field)
    kept = {int(field["id"]) for field in fields}
    new_id = max(int(one["schema-id"]) for one in metadata["schemas"]) + 1
    other = {**schema, "schema-id": new_id, "fields": fields}
    if "identifier-field-ids" in other:
        other["identifier-field-ids"] = [i for i in other["identifier-field-ids"] if i in kept]
    main = metadata.get("refs", {}).get(MAIN)
    shown = {
        **metadata,
        "table-uuid": table_uuid,
        "last-updated-ms": max(now_ms, int(metadata["last-updated-ms"])),
        "schemas": [*metadata["schemas"], other],
        "current-schema-id": new_id,
        "refs": {MAIN: main} if main is not None else {},
        "metadata-log": [],
        # Whoever purges it would delete the other table's files.
        "properties": {**metadata.get("properties", {}), **properties, "gc.enabled": "false"},
    }
    spec = next(
        one for one in metadata["partition-specs"] if one["spec-id"] == metadata["default-spec-id"]
    )
    names = {field["name"]: int(field["id"]) for field in fields}
    if any(
        int(part["source-id"]) not in kept
        or names.get(part["name"], int(part["source-id"])) != int(part["source-id"])
        for part in spec["fields"]
    ):
        empty = max(int(one["spec-id"]) for one in metadata["partition-specs"]) + 1
        specs = [*metadata["partition-specs"], {"spec-id": empty, "fields": []}]
        shown = {**shown, "partition-specs": specs, "default-spec-id": empty}
    orders = metadata.get("sort-orders", [])
    order = next((o for o in orders if o["order-id"] == metadata["default-sort-order-id"]), None)
    if order is not None and any(int(part["source-id"]) not in kept for part in order["fields"]):
        unsorted = [o for o in orders if o["order-id"] != 0] + [{"order-id": 0, "fields": []}]
        shown = {**shown, "sort-orders": unsorted, "default-sort-order-id": 0}
    return shown


def is_promotion(was: Any, becomes: Any) -> bool:
    """Say whether Iceberg reads values of one type as another one.

    Source: https://iceberg.apache.org/spec/#schema-evolution.
    """
    if (was, becomes) in (("int", "long"), ("float", "double")):
        return True
    old, new = (_DECIMAL.fullmatch(str(type_)) for type_ in (was, becomes))
    return bool(old and new and old[2] == new[2] and int(new[1]) >= int(old[1]))


_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def _no_id() -> int:
    raise ConflictError("a nested type does not widen in place", hint="plan again")


def _current_schema(metadata: dict[str, Any]) -> dict[str, Any]:
    current = metadata["current-schema-id"]
    found: dict[str, Any] = next(s for s in metadata["schemas"] if s["schema-id"] == current)
    return found


def _with_schema(
    metadata: dict[str, Any], metadata_location: str, fields: list[dict[str, Any]], now_ms: int
) -> dict[str, Any]:
    new_id = max(int(schema["schema-id"]) for schema in metadata["schemas"]) + 1
    schema = {**_current_schema(metadata), "schema-id": new_id, "fields": fields}
    return {
        **_logged(metadata, metadata_location, now_ms),
        "schemas": [*metadata["schemas"], schema],
        "current-schema-id": new_id,
    }


def _logged(metadata: dict[str, Any], metadata_location: str, now_ms: int) -> dict[str, Any]:
    """Return the metadata as of now, with the file before in its bounded metadata log."""
    log = [
        *metadata.get("metadata-log", []),
        {"timestamp-ms": metadata["last-updated-ms"], "metadata-file": metadata_location},
    ]
    size = int(metadata.get("properties", {}).get(_METADATA_LOG_PROPERTY, _METADATA_LOG_SIZE))
    return {
        **metadata,
        "last-updated-ms": max(now_ms, int(metadata["last-updated-ms"])),
        "metadata-log": log[-max(size, 1) :],
    }
