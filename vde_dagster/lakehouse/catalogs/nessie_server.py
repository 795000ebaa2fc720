"""A branch of a Nessie server, by its REST API: contents by key, and commits.

Source: https://projectnessie.org/develop/rest/, version 2 of the API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from vde_dagster.errors import StoreError

if TYPE_CHECKING:
    from requests import Response, Session

Key = tuple[str, ...]
"""A name's parts, the namespaces first."""
_KEYS_AT_ONCE = 1_000
_SECONDS = 60


class NessieConflict(Exception):
    """What a commit changes was changed by another one.

    Args:
        keys: The names that were, as far as the server says.
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__(", ".join(".".join(key) for key in keys))
        self.keys = tuple(keys)


class NessieServer:
    """One branch of a server.

    Args:
        uri: The API's base, for example `http://localhost:19120/api/v2`.
        branch: The branch.
        token: A bearer token, or None for a server that asks for none.
    """

    def __init__(self, uri: str, branch: str = "main", token: str | None = None) -> None:
        self.uri = uri.rstrip("/")
        self.branch = branch
        self._token = token
        self._session: Session | None = None

    def contents(self, keys: Iterable[Key]) -> tuple[str, dict[Key, dict[str, Any]]]:
        """Return what the branch has of some names.

        Returns:
            The commit that it was read at, and the contents; absent names are left out.

        Raises:
            StoreError: The server cannot be reached, or does not know the branch.
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
        """Yield everything that the branch has, at one commit of it.

        Raises:
            StoreError: The server cannot be reached, or does not know the branch.
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
            read_at: The commit that what is changed was read at.
            message: What people read of it.
            changes: Nessie's operations.

        Raises:
            NessieConflict: One of the names was changed since, or is in another one's way.
            StoreError: The server cannot be reached; the commit may have happened.
        """
        body = {"commitMeta": {"message": message}, "operations": list(changes)}
        self._send("POST", f"{self._tree(read_at)}/history/commit", body)

    def for_spark(self) -> dict[str, str]:
        """Return properties of a Spark catalog: where it is, and what it asks for."""
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
            answer = self._session.request(method, url, json=body, timeout=_SECONDS)
        except requests.RequestException as error:
            raise StoreError(
                f"the Nessie server at {self.uri} cannot be reached: {type(error).__name__}",
                hint="check nessie.uri under [tool.vde], and that the server runs",
            ) from error
        if answer.status_code == requests.codes.conflict:
            raise NessieConflict(_conflicting(answer))
        if not answer.ok:
            raise StoreError(
                f"the Nessie server at {self.uri} refused: {_reason(answer)}",
                hint="check nessie.ref and nessie.token under [tool.vde]",
            )
        return answer


def _reason(answer: Response) -> str:
    try:
        return str(answer.json()["message"]).splitlines()[0]
    except (ValueError, KeyError, IndexError):
        return f"HTTP {answer.status_code}"


def _conflicting(answer: Response) -> list[Key]:
    try:
        conflicts = (answer.json().get("errorDetails") or {}).get("conflicts", ())
        return [tuple(one["key"]["elements"]) for one in conflicts if one.get("key")]
    except (ValueError, KeyError, AttributeError):
        return []
