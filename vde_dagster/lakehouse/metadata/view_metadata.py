"""Pure functions on view metadata as defined by the Iceberg view specification.

Sources: https://iceberg.apache.org/view-spec/, and views written by Spark 4.1 with Iceberg 1.12.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from vde_dagster.lakehouse.metadata.types import build_schema, iceberg_to_spark
from vde_dagster.planning.engine_tasks import AUTHORS_PROPERTIES, ViewDefinition

FORMAT = "1"
HISTORY_SIZE = 10
_FIRST = ("spark", "trino")
"""Dialects of the first release; views with only these dialects keep that release's hash."""


def definition_hash(definition: ViewDefinition) -> str:
    # JSON of nested lists is injective, and is written in one call.
    queries = definition.queries
    text = json.dumps(
        [
            FORMAT,
            definition.namespace,
            definition.name,
            *(queries.get(dialect) for dialect in _FIRST),
            definition.comment,
            definition.columns,
            definition.query_columns,
            sorted(definition.properties),
            *sorted(item for item in queries.items() if item[0] not in _FIRST),
        ]
    )
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def new_view_metadata(
    definition: ViewDefinition, previous: dict[str, Any] | None, location: str, now_ms: int
) -> dict[str, Any]:
    """Build the metadata of a view; a replaced view keeps uuid, location and the last versions."""
    base = previous or {
        "view-uuid": str(uuid.uuid4()),
        "location": location,
        "schemas": [],
        "versions": [],
        "version-log": [],
        "properties": {},
    }
    schemas, schema_id = _with_schema(base["schemas"], build_schema(definition.columns))
    # A definition that is one of the last versions gets this version's number, as in Iceberg.
    versions, version_id = _with_version(base["versions"], definition, schema_id, now_ms)
    log = list(base["version-log"])
    if not log or base.get("current-version-id") != version_id:
        log.append({"timestamp-ms": _after(log, now_ms), "version-id": version_id})
    versions, log = _bounded(versions, log, version_id)
    used = {version["schema-id"] for version in versions}
    return {
        "view-uuid": base["view-uuid"],
        "format-version": 1,
        "location": base["location"],
        "properties": _properties(definition, base["properties"]),
        "schemas": [schema for schema in schemas if schema["schema-id"] in used],
        "current-version-id": version_id,
        "versions": versions,
        "version-log": log,
    }


def view_columns(metadata: Mapping[str, Any]) -> list[tuple[str, str, str | None]]:
    """Return (name, Spark SQL type, description) of each column of a view.

    Any program may have written the view.
    """
    versions = {version["version-id"]: version["schema-id"] for version in metadata["versions"]}
    current = versions[metadata["current-version-id"]]
    schema = next(one for one in metadata["schemas"] if one["schema-id"] == current)
    return [
        (field["name"], iceberg_to_spark(field["type"]), field.get("doc"))
        for field in schema["fields"]
    ]


def _with_schema(
    schemas: list[dict[str, Any]], schema: dict[str, Any]
) -> tuple[list[dict[str, Any]], int]:
    for known in schemas:
        if known["fields"] == schema["fields"]:
            return schemas, known["schema-id"]
    schema_id = max((known["schema-id"] for known in schemas), default=-1) + 1
    return [*schemas, {**schema, "schema-id": schema_id}], schema_id


def _with_version(
    versions: list[dict[str, Any]], definition: ViewDefinition, schema_id: int, now_ms: int
) -> tuple[list[dict[str, Any]], int]:
    representations = [
        {"type": "sql", "sql": sql, "dialect": dialect}
        for dialect, sql in definition.queries.items()
    ]
    namespace = [definition.namespace]
    for known in versions:
        if (
            known["schema-id"] == schema_id
            and known["representations"] == representations
            and known["default-namespace"] == namespace
            and known.get("default-catalog") is None
        ):
            return versions, known["version-id"]
    version_id = max((known["version-id"] for known in versions), default=0) + 1
    version = {
        "version-id": version_id,
        "timestamp-ms": now_ms,
        "schema-id": schema_id,
        "summary": {"engine-name": "vde-dagster"},
        "default-namespace": namespace,
        "representations": representations,
    }
    return [*versions, version], version_id


def _bounded(
    versions: list[dict[str, Any]], log: list[dict[str, Any]], current: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    others = sorted((v["version-id"] for v in versions if v["version-id"] != current), reverse=True)
    kept = {current, *others[: HISTORY_SIZE - 1]}
    # The rest of the log begins after the last entry of a dropped version.
    tail: list[dict[str, Any]] = []
    for entry in log:
        if entry["version-id"] in kept:
            tail.append(entry)
        else:
            tail = []
    return [version for version in versions if version["version-id"] in kept], tail


def _after(log: list[dict[str, Any]], now_ms: int) -> int:
    """Return `now_ms`, or the log's last time if the clock went back."""
    return max([now_ms, *(int(entry["timestamp-ms"]) for entry in log[-1:])])


def _properties(definition: ViewDefinition, before: dict[str, str]) -> dict[str, str]:
    ours = {"comment", *json.loads(before.get(AUTHORS_PROPERTIES, "[]"))}
    kept = {
        key: value
        for key, value in before.items()
        if not key.startswith(("vde.", "spark.query-column-names")) and key not in ours
    }
    properties = {**kept, **dict(definition.properties)}
    if definition.comment:
        properties["comment"] = definition.comment
    properties["spark.query-column-names"] = ",".join(definition.query_columns)
    return properties
