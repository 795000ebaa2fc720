"""Views in a REST catalog, as mirrors of environments: written whole, without compare-and-swap.

A replacement names the view's uuid as its only requirement, as the protocol has no other; so two
that were made from one state both succeed, and who wrote last is found out by reading again.
Source: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml
(`CreateViewRequest`, `CommitViewRequest`).
"""

from __future__ import annotations

from typing import Any

from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.catalogs.rest_server import Json, RestConflict, RestServer
from vde_dagster.planning.table import TableRef
from vde_dagster.state.effects import Effects

_VIEWS = "views"


class RestViews:
    """The views of a REST catalog.

    Args:
        server: The server.
        effects: The port for side effects.
        wanted: Whether environments are to be mirrored; otherwise those that were are taken away.
    """

    def __init__(self, server: RestServer, effects: Effects, wanted: bool) -> None:
        self.wanted = wanted
        self._server = server
        self._effects = effects

    def load(self, ref: TableRef) -> Json | None:
        """Return a view's metadata, or None where there is none."""
        loaded = self._server.load(_parts(ref), _VIEWS, ref.name)
        return loaded["metadata"] if loaded is not None else None

    def write(self, ref: TableRef, before: Json | None, after: Json) -> None:
        """Make a view, or make another one of it.

        Args:
            ref: Its place.
            before: Its metadata as they were read; None where there was none.
            after: As they are to be.

        Raises:
            ConflictError: Something else has the name, or the view was made anew meanwhile.
            StoreError: The server cannot be reached; the change may have happened.
        """
        with self._effects.at("mirror.write", str(ref)):
            try:
                if before is None:
                    return self._server.create_view(_parts(ref), _creation(ref, after))
                needed = [{"type": "assert-view-uuid", "uuid": before["view-uuid"]}]
                changes = _changes(before, after)
                self._server.commit(_parts(ref), _VIEWS, ref.name, needed, changes)
            except RestConflict as conflict:
                raise ConflictError(
                    f"the catalog refused the view {ref}: {conflict}",
                    hint="if something else has its name there, rename that",
                ) from conflict

    def drop(self, ref: TableRef) -> None:
        """Remove a view, if it is there."""
        with self._effects.at("mirror.drop", str(ref)):
            self._server.drop(_parts(ref), _VIEWS, ref.name)


def _creation(ref: TableRef, metadata: Json) -> Json:
    version, schema = _current(metadata)
    return {
        "name": ref.name,
        "schema": schema,
        "view-version": version,
        "properties": metadata["properties"],
    }


def _changes(before: Json, after: Json) -> list[Json]:
    version, schema = _current(after)
    changes: list[Json] = []
    if schema["schema-id"] not in {one["schema-id"] for one in before["schemas"]}:
        changes.append({"action": "add-schema", "schema": schema})
    if version["version-id"] not in {one["version-id"] for one in before["versions"]}:
        changes.append({"action": "add-view-version", "view-version": version})
    if version["version-id"] != before["current-version-id"]:
        number = version["version-id"]
        changes.append({"action": "set-current-view-version", "view-version-id": number})
    changes.append({"action": "set-properties", "updates": after["properties"]})
    gone = sorted(before.get("properties", {}).keys() - after["properties"].keys())
    if gone:
        changes.append({"action": "remove-properties", "removals": gone})
    return changes


def _current(metadata: Json) -> tuple[Any, Any]:
    number = metadata["current-version-id"]
    version = next(one for one in metadata["versions"] if one["version-id"] == number)
    schemas = metadata["schemas"]
    return version, next(one for one in schemas if one["schema-id"] == version["schema-id"])


def _parts(ref: TableRef) -> tuple[str, ...]:
    return tuple(ref.namespace.split("."))
