"""An Iceberg REST catalog's server: its configuration, who we are there, and its routes.

Source: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from vde_dagster.errors import StoreError, UsageError

if TYPE_CHECKING:
    from requests import Response, Session

Json = dict[str, Any]
_SECONDS = 60
_EARLY = 30
"""How long before its end (in seconds) a token is replaced."""
_SETTING = "check uri, token and credential under [tool.vde.rest], and that the server runs"
HEADER = "header."
"""Begins the properties that are sent as headers, as in Iceberg's own clients."""


class RestConflict(Exception):
    """What was asked for does not fit what the server has: somebody else was faster."""


@dataclass(frozen=True, slots=True)
class RestAccess:
    """Where a server is, and who we are there.

    Args:
        uri: Its base, without the `/v1` of its routes.
        warehouse: What the server calls the warehouse; None where it has one only.
        credential: `id:secret`, for which the server or `oauth2_uri` gives a token.
        oauth2_uri: Who gives tokens; the server itself by default.
        scope: What the token is asked for.
        properties: Iceberg's other properties of a REST catalog, for Spark as they are;
            `header.…` are headers of our own requests, too.
    """

    uri: str
    warehouse: str | None = None
    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    oauth2_uri: str | None = None
    scope: str = "catalog"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def for_spark(self) -> dict[str, str]:
        """Return the properties of a Spark catalog that say the same."""
        found = {"type": "rest", "uri": self.uri}
        if self.warehouse is not None:
            found["warehouse"] = self.warehouse
        if self.token is not None:
            found["token"] = self.token
        if self.credential is not None:
            found |= {"credential": self.credential, "scope": self.scope}
        if self.oauth2_uri is not None:
            found["oauth2-server-uri"] = self.oauth2_uri
        return {**found, **self.properties}


class RestServer:
    """A server's namespaces, tables and views; threads may share one.

    Args:
        access: Where it is, and who we are there.
    """

    def __init__(self, access: RestAccess) -> None:
        self.access = access
        self._local = threading.local()
        self._lock = threading.Lock()
        self._config: Mapping[str, str] | None = None
        self._token, self._until = access.token, float("inf")

    def namespaces(self, parent: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
        """Yield the namespaces directly in another one, or at the top."""
        more = {"parent": self._separator().join(parent)} if parent else {}
        for answer in self._pages("namespaces", more):
            yield from (tuple(parts) for parts in answer["namespaces"])

    def has_namespace(self, namespace: Sequence[str]) -> bool:
        """Say whether there is a namespace."""
        return self._send("GET", self._place(namespace), absent=None) is not None

    def create_namespace(self, namespace: Sequence[str], properties: Mapping[str, str]) -> None:
        """Make a namespace.

        Raises:
            RestConflict: There is one.
        """
        body = {"namespace": list(namespace), "properties": dict(properties)}
        self._send("POST", "namespaces", body)

    def drop_namespace(self, namespace: Sequence[str]) -> None:
        """Remove a namespace, if it is there.

        Raises:
            RestConflict: It is not empty.
        """
        self._send("DELETE", self._place(namespace), absent=None)

    def names(self, namespace: Sequence[str], what: str) -> Iterator[str]:
        """Yield the names of a namespace's `tables` or `views`; none where it is not there."""
        for answer in self._pages(f"{self._place(namespace)}/{what}", {}):
            yield from (str(one["name"]) for one in answer["identifiers"])

    def load(
        self, namespace: Sequence[str], what: str, name: str, *, whole: bool = True
    ) -> Json | None:
        """Load one of a namespace's `tables` or `views`.

        Args:
            what: `tables` or `views`.
            whole: Whether all of a table's snapshots are wanted, or only those of its branches.

        Returns:
            `metadata-location` and `metadata`; None where there is none.
        """
        parameters = {} if whole or what != "tables" else {"snapshots": "refs"}
        place = f"{self._place(namespace)}/{what}/{quote(name, safe='')}"
        answer = self._send("GET", place, parameters=parameters, absent=None)
        return answer.json() if answer is not None else None

    def register(self, namespace: Sequence[str], name: str, location: str) -> None:
        """Make a table of a metadata file that lies there.

        Raises:
            RestConflict: Something has the name.
        """
        body = {"name": name, "metadata-location": location}
        self._send("POST", f"{self._place(namespace)}/register", body)

    def create_view(self, namespace: Sequence[str], body: Json) -> None:
        """Make a view.

        Raises:
            RestConflict: Something has the name.
        """
        self._send("POST", f"{self._place(namespace)}/views", body)

    def commit(
        self,
        namespace: Sequence[str],
        what: str,
        name: str,
        requirements: Sequence[Json],
        updates: Sequence[Json],
    ) -> Json:
        """Change one of a namespace's `tables` or `views`.

        Returns:
            `metadata-location` and `metadata` of what became of it.

        Raises:
            RestConflict: A requirement does not hold, or there is none.
        """
        body = {
            "identifier": {"namespace": list(namespace), "name": name},
            "requirements": list(requirements),
            "updates": list(updates),
        }
        place = f"{self._place(namespace)}/{what}/{quote(name, safe='')}"
        answer = self._send("POST", place, body, absent=None)
        if answer is None:
            raise RestConflict(f"there is no {name} any more")
        made: Json = answer.json()
        return made

    def drop(self, namespace: Sequence[str], what: str, name: str) -> bool:
        """Remove one of a namespace's `tables` or `views`, but no file; say whether it did."""
        parameters = {"purgeRequested": "false"} if what == "tables" else {}
        place = f"{self._place(namespace)}/{what}/{quote(name, safe='')}"
        return self._send("DELETE", place, parameters=parameters, absent=None) is not None

    def _place(self, namespace: Sequence[str]) -> str:
        separator = quote(self._separator(), safe="")
        return f"namespaces/{separator.join(quote(part, safe='') for part in namespace)}"

    def _separator(self) -> str:
        return unquote(self._configured().get("namespace-separator", "%1F"))

    def _pages(self, place: str, parameters: Mapping[str, str]) -> Iterator[Json]:
        wanted = dict(parameters)
        while True:
            answer = self._send("GET", place, parameters=wanted, absent=None)
            if answer is None:
                return
            found: Json = answer.json()
            yield found
            page = found.get("next-page-token")
            if not page:
                return
            wanted["pageToken"] = page

    def _configured(self) -> Mapping[str, str]:
        with self._lock:
            if self._config is None:
                asked = {"warehouse": self.access.warehouse} if self.access.warehouse else {}
                answer = self._request("GET", self._url("config"), None, asked)
                if not answer.ok:
                    raise self._refused(answer)
                found: Json = answer.json()
                config = {**found.get("defaults", {}), **found.get("overrides", {})}
                _require_branches_of_tables(self.access.uri, config)
                self._config = config
            return self._config

    def _url(self, place: str, prefix: str = "", base: str = "") -> str:
        inner = f"{prefix.strip('/')}/" if prefix else ""
        return f"{(base or self.access.uri).rstrip('/')}/v1/{inner}{place}"

    _RAISE = object()

    def _send(
        self,
        method: str,
        place: str,
        body: Json | None = None,
        parameters: Mapping[str, str] | None = None,
        absent: object = _RAISE,
    ) -> Response | None:
        """Send a request; None for what is not there, where the caller expects that."""
        config = self._configured()
        url = self._url(place, config.get("prefix", ""), config.get("uri", ""))
        answer = self._request(method, url, body, parameters or {})
        if answer.status_code == 404 and absent is None:
            return None
        if answer.status_code == 409:
            raise RestConflict(_reason(answer))
        if not answer.ok:
            raise self._refused(answer)
        return answer

    def _request(
        self, method: str, url: str, body: Json | None, parameters: Mapping[str, str]
    ) -> Response:
        headers = {
            key.removeprefix(HEADER): value
            for key, value in self.access.properties.items()
            if key.startswith(HEADER)
        }
        token = self._current_token()
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self._reach(method, url, json=body, params=parameters, headers=headers)

    def _current_token(self) -> str | None:
        access = self.access
        if access.credential is None:
            return access.token
        if self._token is None or time.monotonic() > self._until:
            user, _, secret = access.credential.rpartition(":")
            form = {"grant_type": "client_credentials", "client_secret": secret}
            form |= {"client_id": user, "scope": access.scope}
            url = access.oauth2_uri or self._url("oauth/tokens")
            answer = self._reach("POST", url, data=form)
            if not answer.ok:
                raise self._refused(answer)
            found: Json = answer.json()
            self._token = str(found["access_token"])
            lasts = found.get("expires_in")
            self._until = time.monotonic() + float(lasts) - _EARLY if lasts else float("inf")
        return self._token

    def _reach(self, method: str, url: str, **said: Any) -> Response:
        import requests

        session: Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = requests.Session()
        try:
            return session.request(method, url, timeout=_SECONDS, **said)
        except requests.RequestException as error:
            raise StoreError(
                f"the REST catalog at {self.access.uri} cannot be reached: {type(error).__name__}",
                hint=_SETTING,
            ) from error

    def _refused(self, answer: Response) -> StoreError:
        return StoreError(
            f"the REST catalog at {self.access.uri} refused: {_reason(answer)}", hint=_SETTING
        )


def _require_branches_of_tables(uri: str, config: Mapping[str, str]) -> None:
    if config.get("nessie.is-nessie-catalog") == "true":
        base = config.get("nessie.core-base-uri", "http://…/api/").rstrip("/")
        raise UsageError(
            f"{uri} is Nessie's endpoint for Iceberg REST, which keeps no branches of tables",
            hint=f'use its own API: uri = "{base}/v2" under [tool.vde.nessie], not [tool.vde.rest]',
        )


def _reason(answer: Response) -> str:
    try:
        return str(answer.json()["error"]["message"]).splitlines()[0]
    except (ValueError, KeyError, IndexError, TypeError):
        return f"HTTP {answer.status_code}"
