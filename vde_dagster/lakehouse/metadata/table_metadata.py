"""Pure functions on table metadata as defined by the Iceberg table specification.

Metadata is edited as JSON and not by a library's classes, so that unknown fields of newer format
versions are preserved. Source: https://iceberg.apache.org/spec/#table-metadata-and-snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vde_dagster.lakehouse.metadata.types import iceberg_to_spark
from vde_dagster.planning.tables.nested_fields import ShownFields

if TYPE_CHECKING:
    from sqlglot import exp

MAIN = "main"


def current_columns(metadata: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Return the name, Spark SQL type and description of each column of a table."""
    return [
        (field["name"], iceberg_to_spark(field["type"]), field.get("doc"))
        for field in current_schema(metadata)["fields"]
    ]


def columns_of(metadata: dict[str, Any], schema_id: int | None) -> dict[str, str]:
    """Return the Spark SQL type of each column in a schema, by default the current one."""
    schema = _find_schema(metadata, schema_id) or current_schema(metadata)
    return {field["name"]: iceberg_to_spark(field["type"]) for field in schema["fields"]}


def head_of(metadata: dict[str, Any], branch: str | None = None) -> int | None:
    """Return the id of the newest snapshot of a branch (or `main`), or None without a commit."""
    ref = metadata.get("refs", {}).get(branch or MAIN)
    if ref is not None:
        return int(ref["snapshot-id"])
    if branch is None or branch == MAIN:
        current = metadata.get("current-snapshot-id")
        return int(current) if current is not None and current != -1 else None
    return None


def snapshot_ids(metadata: dict[str, Any]) -> set[int]:
    return {int(item["snapshot-id"]) for item in metadata.get("snapshots", [])}


def history(metadata: dict[str, Any], head: int | None) -> Iterator[dict[str, Any]]:
    """Yield an Iceberg snapshot and its ancestors, newest first. Stop at an expired ancestor."""
    snapshots = {int(item["snapshot-id"]): item for item in metadata.get("snapshots", [])}
    while head is not None and head in snapshots:
        snapshot = snapshots[head]
        yield snapshot
        head = snapshot.get("parent-snapshot-id")


def ancestors(metadata: dict[str, Any], head: int | None) -> set[int]:
    """Return the ids of an Iceberg snapshot and of all its ancestors that have not expired."""
    return {int(snapshot["snapshot-id"]) for snapshot in history(metadata, head)}


def with_other_columns(
    metadata: dict[str, Any],
    columns: Iterable[tuple[str, str]],
    docs: Mapping[str, str],
    table_uuid: str,
    properties: Mapping[str, str],
    now_ms: int,
    shown_fields: Mapping[str, ShownFields] = MappingProxyType({}),
) -> dict[str, Any]:
    """Build the metadata of a table that has the same files and history, but other columns.

    Args:
        columns: For each column, its published name and its name in the table.
        shown_fields: The shown fields of nested columns, by the column's published name.
    """
    schema = current_schema(metadata)
    by_name = {field["name"].lower(): field for field in schema["fields"]}
    fields = []
    for name, own in columns:
        field = {**by_name[own.lower()], "name": name}
        if name in shown_fields:
            field["type"] = _with_fields(field["type"], shown_fields[name])
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
        # Otherwise purging the table would delete the other table's files.
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


def _with_fields(kind: Any, fields: ShownFields) -> Any:
    from vde_dagster.sql.reading import parse_type

    def narrowed(kind: Any, read: exp.DataType, shown: exp.DataType) -> Any:
        if isinstance(kind, str) or not read.expressions:
            return kind
        if kind["type"] == "struct":
            own = {field["name"].lower(): field for field in kind["fields"]}
            made = []
            for part, named in zip(read.expressions, shown.expressions, strict=True):
                field = own.get(part.name.lower())
                if field is not None:
                    type_ = narrowed(field["type"], part.args["kind"], named.args["kind"])
                    made.append({**field, "name": named.name, "type": type_})
            return {**kind, "fields": made}
        inner = "element" if kind["type"] == "list" else "value"
        return {**kind, inner: narrowed(kind[inner], read.expressions[-1], shown.expressions[-1])}

    return narrowed(kind, parse_type(fields.read), parse_type(fields.shown))


def current_schema(metadata: dict[str, Any]) -> dict[str, Any]:
    current = metadata["current-schema-id"]
    found: dict[str, Any] = next(s for s in metadata["schemas"] if s["schema-id"] == current)
    return found


def reads_same_columns(
    metadata: dict[str, Any], schema_id: int | None, columns: Iterable[str], *, or_new: bool
) -> bool:
    """Return whether columns have the same field ids in the current schema and in another one.

    Spark reads a snapshot with that snapshot's schema, where a name may belong to a column that was
    renamed or dropped later; see "Schema Evolution" in the specification of Iceberg.

    Args:
        schema_id: The other schema; None for the current one.
        columns: Names in the current schema.
        or_new: Whether the other schema may lack a column, so that its values are NULL.
    """
    if schema_id is None or schema_id == int(metadata["current-schema-id"]):
        return True
    schema = _find_schema(metadata, schema_id)
    if schema is None:
        return False
    then = {field["name"]: field for field in schema["fields"]}
    now = {field["name"]: field for field in current_schema(metadata)["fields"]}
    ids = {field["id"] for field in then.values()}

    def is_same(name: str) -> bool:
        if name not in now:
            return False
        if name in then:
            return bool(_field_ids(then[name]) == _field_ids(now[name]))
        return or_new and now[name]["id"] not in ids and "initial-default" not in now[name]

    return all(map(is_same, columns))


def _find_schema(metadata: dict[str, Any], schema_id: int | None) -> dict[str, Any] | None:
    schemas: Iterator[dict[str, Any]] = (one for one in metadata["schemas"])
    return next((one for one in schemas if int(one["schema-id"]) == schema_id), None)


def _field_ids(field: dict[str, Any]) -> Any:
    """Return the id of a field, with the names and ids of its nested fields."""
    return field["id"], _nested_ids(field["type"])


def _nested_ids(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return None  # Its width does not matter: values of promoted types are converted.
    if kind["type"] == "struct":
        return tuple((one["name"], *_field_ids(one)) for one in kind["fields"])
    parts = [part for part in ("key", "value", "element") if part in kind]
    return tuple((part, kind[f"{part}-id"], _nested_ids(kind[part])) for part in parts)
