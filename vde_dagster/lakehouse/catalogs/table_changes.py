"""What changed between two states of a table's metadata, as a REST catalog takes it. Pure.

A REST catalog writes metadata itself: it is told what is to change, and what has to hold. The
requirements name all that a change was made from, so that it cannot undo what others did.
Source: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml
(`TableUpdate`, `TableRequirement`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]
_LAST_ADDED = -1


def table_changes(before: Json, after: Json) -> tuple[list[Json], list[Json]]:
    """Say what makes one state of a table of another.

    Args:
        before: Its metadata as they were read.
        after: As they are to be.

    Returns:
        What has to hold, and what is to be changed, in order.
    """
    needed: list[Json] = [{"type": "assert-table-uuid", "uuid": before["table-uuid"]}]
    changes: list[Json] = []
    if after["format-version"] != before["format-version"]:
        version = after["format-version"]
        changes.append({"action": "upgrade-format-version", "format-version": version})
    changes += _schemas(before, after, needed)
    added = _by_id(after, "snapshots", "snapshot-id")
    gone = _by_id(before, "snapshots", "snapshot-id")
    changes += [
        {"action": "add-snapshot", "snapshot": added[one]} for one in added if one not in gone
    ]
    changes += _refs(before, after, needed)
    removed = [one for one in gone if one not in added]
    if removed:
        # Somebody may have made a branch of one of them: then none is removed.
        needed += _unmoved(before, _ref_ids(before).keys(), needed)
        changes.append({"action": "remove-snapshots", "snapshot-ids": removed})
    changes += _statistics(before, after)
    changes += _properties(before.get("properties", {}), after.get("properties", {}))
    return needed, changes


def _schemas(before: Json, after: Json, needed: list[Json]) -> Iterator[Json]:
    known = _by_id(before, "schemas", "schema-id")
    new = [one for one in after["schemas"] if int(one["schema-id"]) not in known]
    current = int(after["current-schema-id"])
    if not new and current == int(before["current-schema-id"]):
        return
    needed.append(
        {"type": "assert-current-schema-id", "current-schema-id": before["current-schema-id"]}
    )
    needed.append(
        {
            "type": "assert-last-assigned-field-id",
            "last-assigned-field-id": before["last-column-id"],
        }
    )
    for one in new:
        yield {"action": "add-schema", "schema": one, "last-column-id": after["last-column-id"]}
    is_last = bool(new) and int(new[-1]["schema-id"]) == current
    yield {"action": "set-current-schema", "schema-id": _LAST_ADDED if is_last else current}


def _refs(before: Json, after: Json, needed: list[Json]) -> Iterator[Json]:
    old, new = before.get("refs", {}), after.get("refs", {})
    was, becomes = _ref_ids(before), _ref_ids(after)
    for name in becomes:
        if becomes[name] != was.get(name) or old.get(name, new[name]) != new[name]:
            needed += _unmoved(before, [name], needed)
            yield {"action": "set-snapshot-ref", "ref-name": name, **new[name]}
    for name in was:
        if name not in becomes:
            needed += _unmoved(before, [name], needed)
            yield {"action": "remove-snapshot-ref", "ref-name": name}


def _unmoved(before: Json, names: Iterable[str], needed: list[Json]) -> list[Json]:
    said = {one.get("ref") for one in needed}
    return [
        {
            "type": "assert-ref-snapshot-id",
            "ref": name,
            "snapshot-id": _ref_ids(before).get(name),
        }
        for name in names
        if name not in said
    ]


def _statistics(before: Json, after: Json) -> Iterator[Json]:
    for key, action in (
        ("statistics", "remove-statistics"),
        ("partition-statistics", "remove-partition-statistics"),
    ):
        kept = _by_id(after, key, "snapshot-id")
        for one in _by_id(before, key, "snapshot-id"):
            if one not in kept:
                yield {"action": action, "snapshot-id": one}


def _properties(before: Json, after: Json) -> Iterator[Json]:
    set_ = {key: value for key, value in after.items() if before.get(key) != value}
    if set_:
        yield {"action": "set-properties", "updates": set_}
    removed = [key for key in before if key not in after]
    if removed:
        yield {"action": "remove-properties", "removals": removed}


def _by_id(metadata: Json, key: str, id_: str) -> dict[int, Json]:
    return {int(one[id_]): one for one in metadata.get(key) or ()}


def _ref_ids(metadata: Json) -> dict[str, int]:
    return {name: int(ref["snapshot-id"]) for name, ref in metadata.get("refs", {}).items()}
