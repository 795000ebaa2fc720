"""A forge by its REST API: JSON, a token that is in no message, pages, attempts, one comment."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urljoin, urlsplit

from vde_dagster.base.secrets import masked
from vde_dagster.errors import ExecutionError, UsageError

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

_TIMEOUT = 30.0
_ATTEMPTS = 4
_LATER = (429, 500, 502, 503, 504)
_MOST_PAGES = 100
_MOST_OF_ANSWER = 200


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that is sent in a header and shown nowhere."""

    header: str
    value: str = field(repr=False)

    @classmethod
    def of_variable(cls, header: str, prefix: str, name: str) -> Token:
        """Take an environment variable.

        Raises:
            UsageError: It is not set, or is no header's value.
        """
        value = os.environ.get(name, "").strip()
        hint = f"give the job a token in {name}, see docs/ci.md"
        if not value:
            raise UsageError(f"there is no token: {name} is not set", hint=hint)
        if not (value.isascii() and value.isprintable()) or " " in value:
            raise UsageError(f"what {name} has is no token: it has blanks in it", hint=hint)
        return cls(header, f"{prefix}{value}")

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Sign a request; as `auth` it goes before a password of `.netrc`."""
        request.headers[self.header] = self.value
        return request


@dataclass(frozen=True, slots=True)
class Rest:
    """A REST API.

    Args:
        base: Its URL, without an end.
        headers: Sent with every request.
        backoff: Seconds before the second attempt, doubled before each later one.
    """

    base: str
    token: Token
    headers: Mapping[str, str] = field(default_factory=dict)
    backoff: float = 0.5

    def get(self, path: str, *, or_none: tuple[int, ...] = ()) -> Any:
        """Return what is at a path; None where the answer is one of some codes."""
        answer = self._send("GET", path, None, or_none)
        return None if answer is None else answer.json()

    def pages(self, path: str) -> Iterator[Any]:
        """Yield the items of all pages of a list, as `Link` headers name them."""
        next_path: str | None = path
        for _ in range(_MOST_PAGES):
            if next_path is None:
                return
            answer = self._send("GET", next_path, None, ())
            assert answer is not None
            yield from answer.json()
            next_path = answer.links.get("next", {}).get("url")

    def send(
        self, method: str, path: str, body: Mapping[str, Any], *, or_none: tuple[int, ...] = ()
    ) -> Any:
        """Send JSON; a POST is sent once, as it might be done twice."""
        answer = self._send(method, path, body, or_none)
        return None if answer is None else answer.json()

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, or_none: tuple[int, ...]
    ) -> Response | None:
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        url = path if "://" in path else f"{self.base}{path}"
        if urlsplit(url)[:2] != urlsplit(self.base)[:2]:
            # The next page's address is the server's word: the token goes nowhere else.
            raise ExecutionError(f"{self.base} names a page of another server: {url}")
        retry = Retry(
            total=_ATTEMPTS - 1,
            backoff_factor=self.backoff,
            status_forcelist=_LATER,
            allowed_methods={"GET", "PATCH", "PUT"},
            redirect=False,
            raise_on_status=False,
        )
        what = f"{method} {urljoin(self.base, urlsplit(url).path)}"
        with requests.Session() as session:
            session.mount("http://", HTTPAdapter(max_retries=retry))
            session.mount("https://", HTTPAdapter(max_retries=retry))
            try:
                answer = session.request(
                    method,
                    url,
                    json=None if body is None else masked(body),
                    auth=self.token,
                    headers=self.headers,
                    timeout=_TIMEOUT,
                    allow_redirects=method == "GET",
                )
            except requests.RequestException as error:
                raise ExecutionError(
                    f"{what} failed: {type(error).__name__}",
                    hint="look whether the forge can be reached from here, and run the job again",
                ) from None
        if answer.status_code in or_none:
            return None
        if answer.ok and not answer.is_redirect:
            return answer
        said = _message(answer)
        if answer.status_code in (401, 403, 404):
            raise UsageError(
                f"{what} is refused ({answer.status_code}{said})",
                hint="look at the job's token, what it may do, and the pull request's number",
            )
        raise ExecutionError(
            f"{what} failed ({answer.status_code}{said})", hint="run the job again"
        )


@dataclass(frozen=True)
class RestForge(ABC):
    """A forge of whose comments on a pull request one is ours: the token's user made it.

    Args:
        login: The token's user; asked for when empty.
    """

    rest: Rest
    login: str = ""
    update: ClassVar[str] = "PATCH"
    """The method that puts another text in a comment's place."""
    oldest_first: ClassVar[str] = ""
    """What asks for comments in their order, before other parameters."""

    def comment(self, number: int, marker: str) -> str | None:
        """Return the text of the comment that the token's user made, or None."""
        found = self._comment(number, marker)
        return None if found is None else str(found["body"])

    def write_comment(self, number: int, marker: str, text: str) -> None:
        """Make the comment, or put another text in its place."""
        found, body = self._comment(number, marker), {"body": text}
        if found is None:
            self.rest.send("POST", self.comments(number), body)
        elif found["body"] != text:
            self.rest.send(self.update, self.comment_path(number, found["id"]), body)

    def _comment(self, number: int, marker: str) -> Any:
        """Return the oldest comment of the token's user that begins with the marker."""
        for one in self.rest.pages(f"{self.comments(number)}?{self.oldest_first}per_page=100"):
            if self.author(one) == self.user and str(one.get("body") or "").startswith(marker):
                return one
        return None

    @property
    @abstractmethod
    def user(self) -> str:
        """The user that the token is of."""

    @abstractmethod
    def comments(self, number: int) -> str:
        """Return the path of a pull request's comments."""

    @abstractmethod
    def comment_path(self, number: int, key: int) -> str:
        """Return the path of one of them."""

    @abstractmethod
    def author(self, comment: Any) -> str | None:
        """Return who made a comment."""


def _message(answer: Response) -> str:
    try:
        said = answer.json()
    except ValueError:
        return ""
    text = said.get("message") or said.get("error") if isinstance(said, dict) else None
    return f": {str(text)[:_MOST_OF_ANSWER]}" if text else ""
