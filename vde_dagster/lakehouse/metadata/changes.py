"""Changes of tables, as lists of updates of Iceberg's REST catalog protocol; pure functions.

A change is derived from a table's current metadata. Each update has the form of the protocol's
`TableUpdate`. A catalog that writes metadata itself receives the updates together with
`requirements`, which describe the metadata that they are based on. For other catalogs,
`apply_updates` creates the table's next metadata.

PyIceberg's `update_table_metadata` is not used. It does not write format version 3, drops unknown
fields, leaves gaps in the snapshot log, reads the machine's clock, and makes the child of an
expired snapshot look like a first commit.
Sources: https://iceberg.apache.org/spec/#table-metadata-and-snapshots and
https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.metadata.table_metadata import (
    MAIN,
    ancestors,
    current_schema,
    head_of,
    snapshot_ids,
)
from vde_dagster.lakehouse.metadata.types import build_schema, spark_to_iceberg

if TYPE_CHECKING:
    from sqlglot import exp

Json = dict[str, Any]
Updates = tuple[Json, ...]
"""A change of a table; empty for no change."""

_METADATA_LOG_PROPERTY = "write.metadata.previous-versions-max"
_METADATA_LOG_SIZE = 100
_LAST_ADDED = -1
_STATISTICS = ("statistics", "partition-statistics")


def set_branch(metadata: Json, name: str, snapshot_id: int | None) -> Updates:
    """Build the updates that create a branch at an Iceberg snapshot, or move the branch there."""
    ref = metadata.get("refs", {}).get(name, {"type": "branch"})
    return ({"action": "set-snapshot-ref", "ref-name": name, **ref, "snapshot-id": snapshot_id},)


def remove_branches(metadata: Json, names: Iterable[str]) -> Updates:
    """Build the updates that remove the given branches. Missing branches are ignored."""
    refs = metadata.get("refs", {})
    return tuple(
        {"action": "remove-snapshot-ref", "ref-name": name} for name in names if name in refs
    )


def fast_forward(
    metadata: Json,
    branch: str,
    table: str,
    *,
    expected_main: int | None = None,
    into: str | None = None,
    to: int | None = None,
    ends: bool = True,
) -> Updates:
    """Build the updates that move `main` forward to the newest commit of another branch.

    Args:
        expected_main: The snapshot at which `main` must be; None if any ancestor of the target
            is allowed.
        into: The branch to move in place of `main`, by the same rules.
        to: The target, a commit of `branch`; by default the newest commit of `branch`.
        ends: Whether to remove `branch`.

    Raises:
        ConflictError: `main` is not at `expected_main`, `branch` does not exist, or `main` is not
            at an ancestor of the target.
    """
    moving = into or MAIN
    main = head_of(metadata, into)
    if expected_main is not None and main != expected_main:
        raise ConflictError(
            f"the table {table} was written by another program: {moving} is at {main}, not at "
            f"{expected_main}",
            hint="plan again: vde plan ENV",
        )
    head = head_of(metadata, branch)
    if head is None:
        raise ConflictError(
            f"the table {table} no longer has the branch '{branch}'",
            hint="apply the plan again: vde apply ENV --plan ID; it fills the branch again",
        )
    head = head if to is None else to
    if main is not None and main not in ancestors(metadata, head):
        raise ConflictError(
            f"the branch '{branch}' of {table} does not descend from the current {moving}",
            hint="plan again: vde plan ENV",
        )
    moved = set_branch(metadata, moving, head) if head != main else ()
    return (*moved, *remove_branches(metadata, [branch] if ends else []))


def move_back(
    metadata: Json,
    snapshot_id: int | None,
    table: str,
    into: str | None = None,
    without: Collection[str] = (),
) -> Updates:
    """Build the updates that move `into` (by default `main`) back to an earlier snapshot.

    Without `snapshot_id`, the branch is removed. The branches in `without` are removed too.

    Raises:
        ConflictError: The snapshot is gone.
    """
    ended = remove_branches(metadata, sorted(without))
    if snapshot_id is None:
        return (*remove_branches(metadata, [into or MAIN]), *ended)
    if snapshot_id not in snapshot_ids(metadata):
        raise ConflictError(
            f"the table {table} no longer has its snapshot {snapshot_id}",
            hint="roll back only the definitions: vde rollback ENV --definitions-only",
        )
    if snapshot_id == head_of(metadata, into):
        return ended
    # Later snapshots stay until they expire, and the snapshot log keeps its entries.
    return (*set_branch(metadata, into or MAIN, snapshot_id), *ended)


def superseded(metadata: Json, oldest_ms: int, pinned: Collection[int] = ()) -> frozenset[int]:
    """Return the ids of snapshots that were replaced before `oldest_ms` (ms since 1970, UTC).

    `pinned` and the heads of branches and tags are left out.
    """
    heads = {int(ref["snapshot-id"]) for ref in metadata.get("refs", {}).values()}
    kept = {*heads, *pinned, head_of(metadata)}
    replaced_at = {
        int(entry["snapshot-id"]): int(after["timestamp-ms"])
        for entry, after in itertools.pairwise(metadata.get("snapshot-log", []))
    }
    return frozenset(
        number
        for item in metadata.get("snapshots", [])
        if (number := int(item["snapshot-id"])) not in kept
        and replaced_at.get(number, int(item["timestamp-ms"])) < oldest_ms
    )


def remove_snapshots(metadata: Json, gone: Collection[int]) -> Updates:
    """Build the updates that remove snapshots and their statistics."""
    if not gone:
        return ()
    return (
        {"action": "remove-snapshots", "snapshot-ids": sorted(gone)},
        *(
            {"action": f"remove-{key}", "snapshot-id": int(one["snapshot-id"])}
            for key in _STATISTICS
            for one in metadata.get(key) or ()
            if int(one["snapshot-id"]) in gone
        ),
    )


def append_columns(metadata: Json, columns: Iterable[tuple[str, str]]) -> Updates:
    """Build the updates that add columns or struct fields, which are NULL in existing rows.

    Args:
        columns: Name and Spark SQL type of each new column, and of each column with new fields.
    """
    fields = current_schema(metadata)["fields"]
    types = {name.lower(): (name, type_) for name, type_ in columns}
    ids = itertools.count(int(metadata["last-column-id"]) + 1)
    kept = []
    for field in fields:
        _, type_ = types.pop(field["name"].lower(), (None, None))
        kind = field["type"]
        if type_ is not None and not isinstance(kind, str):
            from vde_dagster.sql.reading import parse_type

            kind = _with_missing_fields(kind, parse_type(type_), ids)
        kept.append({**field, "type": kind})
    new = [(name, type_, None) for name, type_ in types.values()]
    return _new_schema(metadata, [*kept, *build_schema(new, ids)["fields"]], next(ids) - 1)


def _with_missing_fields(kind: Any, wanted: exp.DataType, ids: Iterator[int]) -> Any:
    if isinstance(kind, str) or not wanted.expressions:
        return kind
    if kind["type"] != "struct":
        inner = "element" if kind["type"] == "list" else "value"
        return {**kind, inner: _with_missing_fields(kind[inner], wanted.expressions[-1], ids)}
    types = {part.name.lower(): part for part in wanted.expressions}
    fields: list[Json] = []
    for field in kind["fields"]:
        part = types.pop(field["name"].lower(), None)
        own = field["type"]
        inner = own if part is None else _with_missing_fields(own, part.args["kind"], ids)
        fields.append({**field, "type": inner})
    for part in types.values():
        number, type_ = next(ids), part.args["kind"].sql("spark")
        new: Json = {"id": number, "name": part.name, "required": False}
        fields.append({**new, "type": spark_to_iceberg(type_, ids.__next__)})
    return {**kind, "fields": fields}


def widen_columns(metadata: Json, types: Mapping[str, str]) -> Updates:
    """Build the updates that change columns to wider types, such as `int` to `bigint`.

    Raises:
        ConflictError: The column's current type cannot be promoted to the new type.
    """
    wanted = {name: spark_to_iceberg(type_, _no_id) for name, type_ in types.items()}
    fields = []
    for field in current_schema(metadata)["fields"]:
        type_ = wanted.get(field["name"], field["type"])
        if type_ != field["type"] and not is_promotion(field["type"], type_):
            raise ConflictError(
                f"column {field['name']} cannot become {type_}: its type is now {field['type']}",
                hint="plan again: vde plan ENV",
            )
        fields.append({**field, "type": type_})
    return _new_schema(metadata, fields, int(metadata["last-column-id"]))


def is_promotion(was: Any, becomes: Any) -> bool:
    """Check whether Iceberg can change a column's type in place.

    Source: https://iceberg.apache.org/spec/#schema-evolution.
    """
    if (was, becomes) in (("int", "long"), ("float", "double")):
        return True
    old, new = (_DECIMAL.fullmatch(str(type_)) for type_ in (was, becomes))
    return bool(old and new and old[2] == new[2] and int(new[1]) >= int(old[1]))


_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def _no_id() -> int:
    raise ConflictError("a nested type cannot be widened in place", hint="plan again: vde plan ENV")


def _new_schema(metadata: Json, fields: list[Json], last_column_id: int) -> Updates:
    schema = current_schema(metadata)
    if fields == schema["fields"]:
        return ()
    new_id = max(int(one["schema-id"]) for one in metadata["schemas"]) + 1
    new = {**schema, "schema-id": new_id, "fields": fields}
    return (
        {"action": "add-schema", "schema": new, "last-column-id": last_column_id},
        {"action": "set-current-schema", "schema-id": _LAST_ADDED},
    )


def requirements(metadata: Json, updates: Sequence[Json]) -> list[Json]:
    """Build the conditions that a REST catalog checks before it applies updates.

    The catalog rejects the updates if another writer has meanwhile replaced the table, or changed
    the columns, branches or tags that the updates depend on.
    """
    needed: list[Json] = [{"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}]
    actions = {one["action"] for one in updates}
    if "add-schema" in actions:
        for key in ("current-schema-id", "last-assigned-field-id"):
            known = metadata["last-column-id" if key == "last-assigned-field-id" else key]
            needed.append({"type": f"assert-{key}", key: known})
    refs = {one["ref-name"] for one in updates if "ref-name" in one}
    if "remove-snapshots" in actions:
        # Another process may create a branch on one of them: then none is removed.
        refs |= metadata.get("refs", {}).keys()
    for name in sorted(refs):
        at = metadata.get("refs", {}).get(name, {}).get("snapshot-id")
        needed.append({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": at})
    return needed


def apply_updates(
    metadata: Json, location: str | None, updates: Iterable[Json], now_ms: int
) -> Json:
    """Apply updates to a table's metadata, and keep unknown fields of newer formats.

    `location`, if given, is the current metadata file to add to the metadata log.
    """
    changed = {**metadata, "last-updated-ms": max(now_ms, int(metadata["last-updated-ms"]))}
    if location is not None:
        size = metadata.get("properties", {}).get(_METADATA_LOG_PROPERTY, _METADATA_LOG_SIZE)
        entry = {"timestamp-ms": metadata["last-updated-ms"], "metadata-file": location}
        changed["metadata-log"] = [*metadata.get("metadata-log", []), entry][-max(int(size), 1) :]
    for update in updates:
        changed = {**changed, **_changed_fields(changed, update)}
    return changed


def _changed_fields(now: Json, update: Json) -> Json:
    match update["action"]:
        case "set-snapshot-ref":
            name, head = update["ref-name"], update["snapshot-id"]
            ref = {key: value for key, value in update.items() if key not in ("action", "ref-name")}
            refs = {**now.get("refs", {}), name: ref}
            if name != MAIN or head == head_of(now):
                return {"refs": refs}
            entry = {"timestamp-ms": now["last-updated-ms"], "snapshot-id": head}
            log = [*now.get("snapshot-log", []), entry]
            return {"refs": refs, "current-snapshot-id": head, "snapshot-log": log}
        case "remove-snapshot-ref":
            name = update["ref-name"]
            refs = {key: ref for key, ref in now["refs"].items() if key != name}
            return {"refs": refs, **({"current-snapshot-id": -1} if name == MAIN else {})}
        case "add-snapshot":
            snapshot = update["snapshot"]
            return {
                "snapshots": [*now.get("snapshots", []), snapshot],
                "last-sequence-number": snapshot["sequence-number"],
            }
        case "remove-snapshots":
            gone = {*update["snapshot-ids"]}
            log = []
            for entry in now.get("snapshot-log", []):
                # A gap would make time travel wrong: start after the last expired snapshot.
                log = [] if int(entry["snapshot-id"]) in gone else [*log, entry]
            kept = [one for one in now["snapshots"] if int(one["snapshot-id"]) not in gone]
            return {"snapshots": kept, "snapshot-log": log}
        case "remove-statistics" | "remove-partition-statistics" as action:
            key, gone_id = action.removeprefix("remove-"), update["snapshot-id"]
            return {key: [one for one in now[key] if int(one["snapshot-id"]) != gone_id]}
        case "add-schema":
            last = max(int(now["last-column-id"]), update["last-column-id"])
            return {"schemas": [*now["schemas"], update["schema"]], "last-column-id": last}
        case "set-current-schema":
            last_added = now["schemas"][-1]["schema-id"]
            wanted = update["schema-id"]
            return {"current-schema-id": last_added if wanted == _LAST_ADDED else wanted}
    raise AssertionError(f"unsupported update of a table: {update['action']}")
