"""Client of an Iceberg REST catalog, based on PyIceberg's client.

Tables and views are passed as JSON and not as PyIceberg's classes, because these classes drop
unknown fields, reject some types of format version 3, and cannot replace views.
Source: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from pyiceberg import exceptions
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.response import _handle_non_200_response
from requests import HTTPError, RequestException, Session

from vde_dagster.errors import StoreError, UsageError
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.project.settings import RestSettings

Json = dict[str, Any]
T = TypeVar("T")
_SECONDS = 60
_EXPIRED = (401, 419)
_SETTING = "check uri, token and credential under [tool.vde.rest], and that the server runs"
_DELEGATION = "X-Iceberg-Access-Delegation"


class RestConflict(Exception):
    """The server refused a request, because the server's content does not allow the change."""


def for_spark(rest: RestSettings) -> dict[str, str]:
    """Convert the settings to properties of a Spark catalog."""
    found = {
        "uri": rest.uri,
        "warehouse": rest.warehouse,
        "token": rest.token,
        "credential": rest.credential,
        "scope": rest.scope if rest.credential is not None else None,
        "oauth2-server-uri": rest.oauth2_uri,
    }
    said = {key: value for key, value in found.items() if value is not None}
    return {"type": "rest", **said, **rest.properties}


def for_pyiceberg(rest: RestSettings) -> dict[str, Any]:
    """Convert the settings to properties of PyIceberg's client."""
    properties: dict[str, Any] = for_spark(rest)
    # Older servers do not list their endpoints, and no server reports its token endpoint.
    properties["view-endpoints-supported"] = "true"
    properties.setdefault("oauth2-server-uri", f"{rest.uri.rstrip('/')}/v1/oauth/tokens")
    kind = rest.properties.get("rest.auth.type", "")
    if kind == "sigv4":
        properties["rest.sigv4-enabled"] = "true"
    if kind in ("basic", "google", "entra"):
        prefix = "gcp.auth." if kind == "google" else f"rest.auth.{kind}."
        auth: dict[str, Any] = {
            key.removeprefix(prefix).replace("-", "_"): value
            for key, value in rest.properties.items()
            if key.startswith(prefix)
        }
        if "scopes" in auth:
            auth["scopes"] = auth["scopes"].split(",")
        properties["auth"] = {"type": kind, kind: auth}
    elif rest.token is None and rest.credential is None:
        properties["auth"] = {"type": "noop"}
    return properties


class RestClient(RestCatalog):
    """PyIceberg's REST client, with `ask` for requests that PyIceberg cannot send."""

    def _config_headers(self, session: Session) -> None:
        super()._config_headers(session)
        if f"header.{_DELEGATION}" not in self.properties:
            del session.headers[_DELEGATION]  # some servers refuse it without supporting it
        session.request = partial(session.request, timeout=_SECONDS)  # type: ignore[method-assign]

    def ask(
        self,
        method: str,
        namespace: Sequence[str],
        place: str,
        body: Json | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request about a table or view, and return its JSON response (True if empty)."""
        url = self.url(f"namespaces/{self._encode_namespace_path(tuple(namespace))}/{place}")
        send = partial(self._session.request, method, url, json=body, params=parameters)
        answer = send()
        if answer.status_code in _EXPIRED:
            self._refresh_token()
            answer = send()
        try:
            answer.raise_for_status()
        except HTTPError as error:
            _handle_non_200_response(
                error, {404: exceptions.NoSuchTableError, 409: exceptions.CommitFailedException}
            )
        return answer.json() if answer.content else True


class RestServer:
    """Loads and changes tables and views on a REST catalog's server; thread-safe."""

    def __init__(self, access: RestSettings) -> None:
        self.access = access
        self._lock = threading.Lock()
        self._known: RestClient | None = None

    def load(self, what: str, ref: TableRef, *, whole: bool = True) -> Json | None:
        """Load the metadata of a table or view, with the location of the metadata file.

        Return None if the table or view does not exist.

        Args:
            what: `tables` or `views`.
            whole: If False, only a table's snapshots with a branch or tag are loaded.
        """
        parameters = {} if whole or what != "tables" else {"snapshots": "refs"}
        found: Json | None = self.reach(
            lambda client: client.ask("GET", *_place(what, ref), None, parameters), absent=None
        )
        return found

    def commit(
        self, what: str, ref: TableRef, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> Json:
        """Change a table or view, and return its new metadata with the location.

        Raises:
            RestConflict: A requirement is not met, or the object does not exist.
        """
        body = {
            "identifier": {"namespace": list(parts(ref.namespace)), "name": ref.name},
            "requirements": list(requirements),
            "updates": list(updates),
        }
        made: Json | None = self.reach(
            lambda client: client.ask("POST", *_place(what, ref), body), absent=None
        )
        if made is None:
            raise RestConflict(f"{ref} no longer exists")
        return made

    def drop(self, what: str, ref: TableRef) -> bool:
        """Remove a table or view, but not its files, and return whether it existed."""
        keeping = {"purgeRequested": "false"} if what == "tables" else {}
        return self.reach(
            lambda client: bool(client.ask("DELETE", *_place(what, ref), None, keeping)),
            absent=False,
        )

    _RAISE: Any = object()

    def reach(self, work: Callable[[RestClient], T], absent: Any = _RAISE) -> T:
        """Call `work` with the client, and convert the client's errors to vde's errors.

        If the object does not exist, return `absent`, or raise StoreError if `absent` is not given.

        Raises:
            RestConflict: The request conflicts with the server's current content.
            StoreError: The server is unreachable, or refuses the request.
        """
        uri = self.access.uri
        try:
            return work(self.client())
        except (exceptions.NoSuchNamespaceError, exceptions.NoSuchTableError) as error:
            if absent is self._RAISE:
                raise self._refused(error) from error
            found: T = absent
            return found
        except (
            exceptions.CommitFailedException,
            exceptions.NamespaceAlreadyExistsError,
            exceptions.NamespaceNotEmptyError,
        ) as error:
            raise RestConflict(_first_line(error)) from error
        except RequestException as error:
            raise StoreError(
                f"the REST catalog at {uri} cannot be reached: {type(error).__name__}",
                hint=_SETTING,
            ) from error
        except ImportError as error:
            raise UsageError(
                f"the REST catalog at {uri} needs a package that is not installed: {error}",
                hint="install boto3 for SigV4, google-auth for Google, azure-identity for Entra",
            ) from error
        except UsageError:
            raise
        except Exception as error:  # PyIceberg's errors have no common class
            raise self._refused(error) from error

    def make(self, **properties: Any) -> RestClient:
        return RestClient("rest", **properties)

    def client(self) -> RestClient:
        with self._lock:
            if self._known is None:
                made = self.make(**for_pyiceberg(self.access))
                _require_branches_of_tables(self.access.uri, made.properties)
                self._known = made
            return self._known

    def _refused(self, error: Exception) -> StoreError:
        reason = _first_line(error)
        return StoreError(
            f"the REST catalog at {self.access.uri} refused the request: {reason}", hint=_SETTING
        )


def _require_branches_of_tables(uri: str, config: Mapping[str, str]) -> None:
    if config.get("nessie.is-nessie-catalog") == "true":
        base = config.get("nessie.core-base-uri", "http://…/api/").rstrip("/")
        raise UsageError(
            f"{uri} is Nessie's endpoint for Iceberg REST, which does not store tables' branches",
            hint=f"use Nessie's own API: "
            f'uri = "{base}/v2" under [tool.vde.nessie], not [tool.vde.rest]',
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def parts(namespace: str) -> tuple[str, ...]:
    """Split a namespace's name: `'a.b'` -> `('a', 'b')`."""
    return tuple(namespace.split("."))


def _place(what: str, ref: TableRef) -> tuple[tuple[str, ...], str]:
    return parts(ref.namespace), f"{what}/{quote(ref.name, safe='')}"
