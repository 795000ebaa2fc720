"""Iceberg REST catalog of the physical tables.

The catalog changes one table at a time, and writes the metadata file itself. vde sends each change
with requirements: the table state that the change is based on. There is no compare-and-swap for
views, so the state records environments, and views only mirror them
(`lakehouse/publishing/mirror.py`).

A request that replaces a view can require only the view's uuid. If two writers replace the same
view, both requests succeed; reading the view again shows which request came last. Source:
https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml
(`CreateViewRequest`, `CommitViewRequest`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection

from vde_dagster.errors import ConflictError, StoreError
from vde_dagster.lakehouse.catalogs import rest_server
from vde_dagster.lakehouse.catalogs.catalog import TABLE, Following, Pointer, SparkCatalog, Swap
from vde_dagster.lakehouse.catalogs.rest_server import Json, RestConflict, RestServer, parts
from vde_dagster.lakehouse.io.files import each
from vde_dagster.lakehouse.io.locations import for_spark
from vde_dagster.lakehouse.metadata.changes import requirements
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db.effects import Effects

CHANGE = "vde.change"
"""Table property with the id of vde's last change, which shows whether a change has happened."""
_TABLES = "tables"
_FEW = 4
"""Limit of tables per namespace to load directly; for more, the namespace is listed first."""
_THREADS = 8


class RestCatalog:
    """A REST catalog that stores the physical tables, and copies of views if `mirrors` is set."""

    form = Following(together=False, keeps_pointers=False)

    def __init__(
        self,
        server: RestServer,
        name: str,
        warehouse: str,
        effects: Effects,
        io: Mapping[str, str] | None = None,
        mirrors: bool = False,
    ) -> None:
        self.name = name
        self.server = server
        self.mirror = RestViews(server, effects, mirrors)
        self._warehouse = warehouse
        self._effects = effects
        self._io = dict(io or {})

    def pointers(
        self, refs: Iterable[TableRef], within: Connection | None = None
    ) -> dict[TableRef, Pointer]:
        by_namespace: dict[str, list[TableRef]] = {}
        for ref in dict.fromkeys(refs):
            by_namespace.setdefault(ref.namespace, []).append(ref)
        wanted: list[TableRef] = []
        for namespace, named in by_namespace.items():
            if len(named) > _FEW:
                there = set(self._names(parts(namespace)))
                named = [ref for ref in named if ref.name in there]
            wanted += named
        return self._pointers(wanted)

    def all_pointers(self, within: Connection | None = None) -> dict[TableRef, Pointer]:
        refs: list[TableRef] = []
        waiting = self._namespaces()
        while waiting:
            one = waiting.pop()
            refs += [TableRef(".".join(one), name) for name in self._names(one)]
            waiting += self._namespaces(one)
        return self._pointers(sorted(refs, key=str))

    def every_pointer(self) -> list[Pointer]:
        return list(self.all_pointers().values())

    def swap(self, swaps: Sequence[Swap], within: Connection | None = None) -> None:
        """Create, change or remove one table."""
        for swap in swaps:
            assert len(swaps) == 1, "a REST catalog changes one table at a time"
            assert swap.kind == TABLE, "a REST catalog's views are only mirrored"
            try:
                self._swap(swap)
            except RestConflict as conflict:
                raise swap.moved() from conflict

    def _swap(self, swap: Swap) -> None:
        namespace = parts(swap.ref.namespace)
        if swap.before is None:
            swap.require_unmoved(self.pointers([swap.ref]).get(swap.ref))
            body = {"name": swap.ref.name, "metadata-location": swap.after}
            with self._effects.at("catalog.swap", str(swap.ref)):
                self.server.reach(lambda client: client.ask("POST", namespace, "register", body))
                return
        loaded = self.server.load(_TABLES, swap.ref)
        at = _pointer(loaded)
        swap.require_unmoved(at)
        assert loaded is not None
        if swap.after is None:
            with self._effects.at("catalog.swap", str(swap.ref)):
                if not self.server.drop(_TABLES, swap.ref):
                    raise RestConflict
                return
        assert swap.updates, "a REST catalog needs updates, not a finished metadata file"
        needed = requirements(loaded["metadata"], swap.updates)
        named = {"action": "set-properties", "updates": {CHANGE: swap.after}}
        changes = [*swap.updates, named]
        with self._effects.at("catalog.swap", str(swap.ref)):
            made = self.server.commit(_TABLES, swap.ref, needed, changes)
        _require_branches(swap.ref, made, changes)

    def namespaces(self, names: Iterable[str], within: Connection | None = None) -> set[str]:
        wanted = list(dict.fromkeys(names))

        def is_there(name: str) -> bool:
            return bool(self.server.reach(lambda client: client.namespace_exists(parts(name))))

        found = each(is_there, wanted, _THREADS)
        return {name for name, there in zip(wanted, found, strict=True) if there}

    def create_namespaces(
        self, namespaces: Mapping[str, Mapping[str, str]], within: Connection | None = None
    ) -> None:
        wanted: dict[str, Mapping[str, str]] = {}
        for name, properties in namespaces.items():
            above = parts(name)
            for length in range(1, len(above)):
                wanted.setdefault(".".join(above[:length]), {})
            wanted[name] = properties
        present = self.namespaces(wanted)
        for name in sorted(wanted.keys() - present, key=lambda name: (name.count("."), name)):
            with (
                suppress(RestConflict),  # another process created it
                self._effects.at("catalog.create_namespace", name),
            ):
                self.server.reach(
                    lambda client, name=name: client.create_namespace(  # type: ignore[misc]
                        parts(name), dict(wanted[name])
                    )
                )

    def drop_namespace(self, name: str, within: Connection | None = None) -> bool:
        own = parts(name)
        views = self.server.reach(lambda client: client.list_views(own), absent=[])
        if views or self._namespaces(own):
            return False  # some servers do not check this themselves
        with self._effects.at("catalog.drop_namespace", name):
            try:
                self.server.reach(lambda client: client.drop_namespace(own), absent=None)
            except RestConflict:
                return False
        return True

    def for_spark(self) -> SparkCatalog:
        return SparkCatalog(
            {
                "cache-enabled": "false",
                **for_spark(self._io, self._warehouse),
                **rest_server.for_spark(self.server.access),
            },
            driver="org.apache.iceberg.rest.RESTCatalog",
        )

    def _pointers(self, refs: Sequence[TableRef]) -> dict[TableRef, Pointer]:
        found = each(lambda ref: self.server.load(_TABLES, ref, whole=False), refs, _THREADS)
        pointers = zip(refs, map(_pointer, found), strict=True)
        return {ref: pointer for ref, pointer in pointers if pointer is not None}

    def _namespaces(self, inside: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return self.server.reach(lambda client: client.list_namespaces(inside), absent=[])

    def _names(self, namespace: tuple[str, ...]) -> list[str]:
        found = self.server.reach(lambda client: client.list_tables(namespace), absent=[])
        return [name for *_, name in found]


def _pointer(loaded: Mapping[str, Any] | None) -> Pointer | None:
    if loaded is None:
        return None
    change = loaded["metadata"].get("properties", {}).get(CHANGE)
    return Pointer(loaded["metadata-location"], TABLE, change)


def _require_branches(ref: TableRef, made: Mapping[str, Any], changes: Sequence[Any]) -> None:
    there = made.get("metadata", {}).get("refs", {})
    wanted = [one["ref-name"] for one in changes if one["action"] == "set-snapshot-ref"]
    lost = [name for name in wanted if name not in there]
    if lost:
        raise StoreError(
            f"the REST catalog accepted the branch '{lost[0]}' of {ref} but did not store it",
            hint="use a catalog that stores branches: rows wait on a branch until their audits end",
        )


_VIEWS = "views"


class RestViews:
    def __init__(self, server: RestServer, effects: Effects, wanted: bool) -> None:
        self.wanted = wanted
        self._server = server
        self._effects = effects

    def load(self, ref: TableRef) -> Json | None:
        loaded = self._server.load(_VIEWS, ref)
        return loaded["metadata"] if loaded is not None else None

    def write(self, ref: TableRef, before: Json | None, after: Json) -> None:
        with self._effects.at("mirror.write", str(ref)):
            try:
                if before is None:
                    namespace, body = parts(ref.namespace), _creation(ref, after)
                    self._server.reach(lambda client: client.ask("POST", namespace, _VIEWS, body))
                    return
                needed = [{"type": "assert-view-uuid", "uuid": before["view-uuid"]}]
                changes = _changes(before, after)
                self._server.commit(_VIEWS, ref, needed, changes)
            except RestConflict as conflict:
                raise ConflictError(
                    f"the catalog refused the view {ref}: {conflict}",
                    hint="if another object in the catalog has this name, rename that object",
                ) from conflict

    def drop(self, ref: TableRef) -> None:
        with self._effects.at("mirror.drop", str(ref)):
            self._server.drop(_VIEWS, ref)


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
