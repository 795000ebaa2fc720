"""A Nessie server as the catalog: any number of tables and views change in one commit.

A request to commit names the commit at which its pointers were read. Nessie refuses the request if
a later commit changed one of the same names. Source: https://projectnessie.org/develop/rest/
(version 2) and https://projectnessie.org/guides/spec/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import Connection

from vde_dagster.api.catalogs import (
    Effects,
    Following,
    MetadataFiles,
    Pointer,
    SparkCatalog,
    Swap,
    TableRef,
)
from vde_dagster.api.errors import StoreError
from vde_dagster.api.values import PluginSettings, Settings, expand_secrets

if TYPE_CHECKING:
    from requests import Response, Session


_TYPES = {"TABLE": "ICEBERG_TABLE", "VIEW": "ICEBERG_VIEW"}
_KINDS = {theirs: ours for ours, theirs in _TYPES.items()}
_NAMESPACE = "NAMESPACE"
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class NessieSettings(PluginSettings):
    """A Nessie server that is the Iceberg catalog, in place of the state's database.

    Args:
        uri: URL of the server's API, which ends in `/api/v2`; empty if Nessie is not used.
        ref: The branch with tables and views.
        token: A bearer token; `${NAME}` is read from the environment when used.
    """

    uri: str = ""
    ref: str = "main"
    token: str | None = field(default=None, repr=False)

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        if not self.uri and (self.token is not None or self.ref != "main"):
            hint = "write http://localhost:19120/api/v2"
            yield "uri", "is missing, so nessie.ref and nessie.token have no effect", hint
        if self.uri and not self.uri.rstrip("/").endswith("/api/v2"):
            wrong = "is not the base of Nessie's API, version 2"
            yield "uri", wrong, "write http://localhost:19120/api/v2"

    def catalog_key(self) -> str | None:
        return "uri" if self.uri else None


def nessie_catalog(settings: Settings, effects: Effects) -> NessieCatalog:
    """Create the catalog from a project's settings.

    Raises:
        ProjectError: An environment variable in the token or in `io` is not set.
    """
    own = NessieSettings(**settings.plugins.get("nessie", {}))
    return NessieCatalog(
        NessieServer(own.uri, own.ref, expand_secrets(own.token, "token")),
        settings.catalog,
        settings.resolved_warehouse,
        effects,
        expand_secrets(settings.io),
    )


class NessieCatalog:
    """A branch of a Nessie server as the Iceberg catalog.

    Args:
        name: The catalog's name, the same as in Spark.
        warehouse: Base location of tables and views, a path or a URL.
    """

    form = Following(together=True)
    mirror = None

    def __init__(
        self,
        server: NessieServer,
        name: str,
        warehouse: str,
        effects: Effects,
        io: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._server = server
        self._effects = effects
        self._files = MetadataFiles(effects, warehouse, dict(io or {}))

    def pointers(
        self, refs: Iterable[TableRef], within: Connection | None = None
    ) -> dict[TableRef, Pointer]:
        """Return the current metadata file of each given table or view. Missing names are left out.

        Raises:
            StoreError: The server cannot be reached.
        """
        return _pointers(self._server.contents(map(_key, refs))[1])

    def all_pointers(self, within: Connection | None = None) -> dict[TableRef, Pointer]:
        return _pointers(dict(self._server.entries()))

    def every_pointer(self) -> list[Pointer]:
        return list(self.all_pointers().values())

    def swap(self, swaps: Sequence[Swap], within: Connection | None = None) -> None:
        """Replace the metadata files of tables and views in one commit: all of them, or none.

        Raises:
            PointerMovedError: A table or view no longer has the metadata file `before`.
            StoreError: The server cannot be reached; it may have made the changes.
        """
        if not swaps:
            return
        keys = {_key(swap.ref): swap for swap in swaps}
        read_at, contents = self._server.contents(keys)
        pointers = _pointers(contents)
        for swap in swaps:
            swap.require_unmoved(pointers.get(swap.ref))
        changes = [self._change(key, swap, contents.get(key)) for key, swap in keys.items()]
        message = f"vde: {len(swaps)} changed, first {swaps[0].ref}"
        with self._effects.at("catalog.swap", str(swaps[0].ref)):
            try:
                self._server.commit(read_at, message, changes)
            except NessieConflict as conflict:
                moved = next((keys[key] for key in conflict.keys if key in keys), swaps[0])
                raise moved.moved() from conflict

    def namespaces(self, names: Iterable[str], within: Connection | None = None) -> set[str]:
        found = self._server.contents(_parts(name) for name in names)[1]
        return {".".join(key) for key, one in found.items() if one["type"] == _NAMESPACE}

    def create_namespaces(
        self, namespaces: Mapping[str, Mapping[str, str]], within: Connection | None = None
    ) -> None:
        parts = [_parts(name) for name in namespaces]
        wanted: dict[Key, Mapping[str, str]] = {
            key[:length]: {} for key in parts for length in range(1, len(key))
        }
        wanted.update(zip(parts, namespaces.values(), strict=True))
        for attempt in range(1, _ATTEMPTS + 1):
            read_at, present = self._server.contents(wanted)
            missing = {key: wanted[key] for key in sorted(wanted.keys() - present.keys())}
            if not missing:
                return
            changes = [
                _put(key, {"type": _NAMESPACE, "elements": key, "properties": dict(properties)})
                for key, properties in missing.items()
            ]
            with self._effects.at("catalog.create_namespace", ".".join(next(iter(missing)))):
                try:
                    return self._server.commit(read_at, "vde: namespaces", changes)
                except NessieConflict:  # another process created one
                    if attempt == _ATTEMPTS:
                        raise

    def drop_namespace(self, name: str, within: Connection | None = None) -> bool:
        """Remove a namespace if it is empty, and return whether it is gone."""
        key = _parts(name)
        read_at, present = self._server.contents([key])
        if key not in present:
            return not any(other[: len(key)] == key for other, _ in self._server.entries())
        with self._effects.at("catalog.drop_namespace", name):
            try:
                self._server.commit(read_at, f"vde: without {name}", [_delete(key)])
            except NessieConflict:
                return False
        return True

    def for_spark(self) -> SparkCatalog:
        # Iceberg's Spark runtime contains the client.
        return SparkCatalog(
            {
                "catalog-impl": "org.apache.iceberg.nessie.NessieCatalog",
                "cache-enabled": "false",
                **self._files.for_spark(),
                **self._server.for_spark(),
            },
            driver="org.apache.iceberg.nessie.NessieCatalog",
        )

    def _change(self, key: Key, swap: Swap, content: Mapping[str, Any] | None) -> dict[str, Any]:
        assert swap.becomes in (None, swap.kind), "NessieCatalog cannot change a pointer's kind"
        if swap.after is None:
            return _delete(key)
        known = {"id": content["id"]} if content is not None else {}
        return _put(key, {**known, **self._content(swap.kind, swap.after)})

    def _content(self, kind: str, location: str) -> dict[str, Any]:
        """Return Nessie's JSON for a metadata file: its location, snapshot id, schema id, …"""
        found: dict[str, Any] = {"type": _TYPES[kind], "metadataLocation": location}
        try:
            metadata = self._files.read_json(location)
        except FileNotFoundError:
            metadata = {}
        if kind == "VIEW":
            schema = max((one["schema-id"] for one in metadata.get("schemas", ())), default=0)
            return {**found, "versionId": metadata.get("current-version-id", 1), "schemaId": schema}
        return {
            **found,
            "snapshotId": metadata.get("current-snapshot-id") or -1,
            "schemaId": metadata.get("current-schema-id", 0),
            "specId": metadata.get("default-spec-id", 0),
            "sortOrderId": metadata.get("default-sort-order-id", 0),
        }


def _parts(namespace: str) -> Key:
    return tuple(namespace.split("."))


def _key(ref: TableRef) -> Key:
    return (*_parts(ref.namespace), ref.name)


def _pointers(contents: Mapping[Key, Mapping[str, Any]]) -> dict[TableRef, Pointer]:
    return {
        TableRef(".".join(key[:-1]), key[-1]): Pointer(one["metadataLocation"], _KINDS[one["type"]])
        for key, one in contents.items()
        if one["type"] in _KINDS
    }


def _put(key: Key, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "PUT", "key": {"elements": list(key)}, "content": dict(content)}


def _delete(key: Key) -> dict[str, Any]:
    return {"type": "DELETE", "key": {"elements": list(key)}}


Key = tuple[str, ...]
"""A name's parts, the namespaces first."""
_KEYS_AT_ONCE = 1_000
_TIMEOUT_SECONDS = 60


class NessieConflict(Exception):
    """A commit was refused because another commit changed `keys` (empty if not reported)."""

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__(", ".join(".".join(key) for key in keys))
        self.keys = tuple(keys)


class NessieServer:
    """A client of one branch of a Nessie server at a `uri` such as `https://host/api/v2`."""

    def __init__(self, uri: str, branch: str = "main", token: str | None = None) -> None:
        self.uri = uri.rstrip("/")
        self.branch = branch
        self._token = token
        self._session: Session | None = None

    def contents(self, keys: Iterable[Key]) -> tuple[str, dict[Key, dict[str, Any]]]:
        """Return the branch's newest commit, and the content of each given name that exists.

        Raises:
            StoreError: The server cannot be reached, or the branch does not exist.
        """
        wanted = iter(dict.fromkeys(keys))
        found: dict[Key, dict[str, Any]] = {}
        at = ""
        while batch := list(islice(wanted, _KEYS_AT_ONCE)):
            body = {"requestedKeys": [{"elements": list(key)} for key in batch]}
            answer = self._send("POST", f"{self._tree(at)}/contents", body).json()
            at = answer["effectiveReference"]["hash"]
            found |= {tuple(one["key"]["elements"]): one["content"] for one in answer["contents"]}
        return at, found

    def entries(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Yield the name and content of each table, view and namespace, at one commit.

        Raises:
            StoreError: The server cannot be reached, or the branch does not exist.
        """
        at, page = "", ""
        while True:
            more = f"&page-token={quote(page, safe='')}" if page else ""
            answer = self._send("GET", f"{self._tree(at)}/entries?content=true{more}").json()
            for one in answer["entries"]:
                yield tuple(one["name"]["elements"]), one["content"]
            if not answer["hasMore"]:
                return
            at, page = answer["effectiveReference"]["hash"], answer["token"]

    def commit(self, read_at: str, message: str, changes: Sequence[Mapping[str, Any]]) -> None:
        """Add a commit to the branch.

        Args:
            read_at: The commit at which the changed contents were read.
            changes: Nessie's operations.

        Raises:
            NessieConflict: A name was changed since `read_at`, or conflicts with another name.
            StoreError: The server cannot be reached; it may have made the commit.
        """
        body = {"commitMeta": {"message": message}, "operations": list(changes)}
        self._send("POST", f"{self._tree(read_at)}/history/commit", body)

    def for_spark(self) -> dict[str, str]:
        found = {"uri": self.uri, "ref": self.branch}
        if self._token is None:
            return {**found, "authentication.type": "NONE"}
        return {**found, "authentication.type": "BEARER", "authentication.token": self._token}

    def _tree(self, at: str) -> str:
        name = quote(self.branch, safe="")
        return f"{self.uri}/trees/{name}@{at}" if at else f"{self.uri}/trees/{name}"

    def _send(self, method: str, url: str, body: Any = None) -> Response:
        import requests

        if self._session is None:
            self._session = requests.Session()
            self._session.headers["Nessie-Client-Spec"] = "2"  # conflicts name their keys
            if self._token is not None:
                self._session.headers["Authorization"] = f"Bearer {self._token}"
        try:
            answer = self._session.request(method, url, json=body, timeout=_TIMEOUT_SECONDS)
        except requests.RequestException as error:
            raise StoreError(
                f"the Nessie server at {self.uri} cannot be reached: {type(error).__name__}",
                hint="check nessie.uri under [tool.vde], and that the server runs",
            ) from error
        if answer.status_code == requests.codes.conflict:
            raise NessieConflict(_conflicting_keys(answer))
        if not answer.ok:
            raise StoreError(
                f"the Nessie server at {self.uri} refused the request: {_error_message(answer)}",
                hint="check nessie.ref and nessie.token under [tool.vde]",
            )
        return answer


def _error_message(answer: Response) -> str:
    try:
        return str(answer.json()["message"]).splitlines()[0]
    except (ValueError, KeyError, IndexError):
        return f"HTTP {answer.status_code}"


def _conflicting_keys(answer: Response) -> list[Key]:
    try:
        conflicts = (answer.json().get("errorDetails") or {}).get("conflicts", ())
        return [tuple(one["key"]["elements"]) for one in conflicts if one.get("key")]
    except (ValueError, KeyError, AttributeError):
        return []
