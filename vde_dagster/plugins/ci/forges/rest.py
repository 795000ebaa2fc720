"""Access to a forge's REST API: JSON, paging, retries, and a token that no message contains."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urljoin, urlsplit

from vde_dagster.api.errors import ExecutionError, UsageError
from vde_dagster.api.values import mask

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

_TIMEOUT = 30.0
_ATTEMPTS = 4
_RETRIED_STATUSES = (429, 500, 502, 503, 504)
_MOST_PAGES = 100
_MOST_REDIRECTS = 5
_LONGEST_ERROR = 200


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that is sent in a header and never shown in messages."""

    header: str
    value: str = field(repr=False)

    @classmethod
    def from_variable(cls, header: str, prefix: str, name: str) -> Token:
        """Read a token from an environment variable.

        Raises:
            UsageError: The variable is not set, or its value is invalid in a header.
        """
        value = os.environ.get(name, "").strip()
        hint = f"pass a token to the job in {name}, see `vde help ci`"
        if not value:
            raise UsageError(f"the job's token is missing: {name} is not set", hint=hint)
        if not (value.isascii() and value.isprintable()) or " " in value:
            raise UsageError(f"{name} is not a valid token: it has invalid characters", hint=hint)
        return cls(header, f"{prefix}{value}")

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Add the token to a request's headers; called by the library `requests`."""
        # The token is the request's `auth`, so that `.netrc` is not read.
        request.headers[self.header] = self.value
        return request


@dataclass(frozen=True, slots=True)
class Rest:
    """A client of a REST API.

    Args:
        base: The API's URL, without a trailing slash.
        headers: Headers of every request.
        backoff: `backoff_factor` of urllib3's `Retry`, in seconds.
    """

    base: str
    token: Token
    headers: Mapping[str, str] = field(default_factory=dict)
    backoff: float = 0.5

    def get(self, path: str, *, or_none: tuple[int, ...] = ()) -> Any:
        """Send a GET request and return the response's JSON, or None for a status in `or_none`."""
        answer = self._send("GET", path, None, or_none)
        return None if answer is None else _read_json(answer, dict)

    def pages(self, path: str) -> Iterator[Any]:
        """Yield the items of a list, page after page, following `Link` headers."""
        next_path: str | None = path
        for _ in range(_MOST_PAGES):
            if next_path is None:
                return
            answer = self._send("GET", next_path, None, ())
            assert answer is not None
            yield from _read_json(answer, list)
            next_path = answer.links.get("next", {}).get("url")

    def send(
        self, method: str, path: str, body: Mapping[str, Any], *, or_none: tuple[int, ...] = ()
    ) -> Any:
        """Send JSON and return the JSON of the response, or None for a status in `or_none`."""
        # A POST is not retried, because it might be executed twice.
        answer = self._send(method, path, body, or_none)
        return None if answer is None else _read_json(answer, dict)

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        or_none: tuple[int, ...],
        redirects: int = _MOST_REDIRECTS,
    ) -> Response | None:
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        url = path if "://" in path else f"{self.base}{path}"
        if urlsplit(url)[:2] != urlsplit(self.base)[:2]:
            # The server chooses the address of the next page and of a redirect: the token must not
            # be sent elsewhere.
            server = "://".join(urlsplit(url)[:2])
            raise ExecutionError(
                f"{self.base} refers to another server: {server}",
                hint="check the API's address in the job's variables",
            )
        retry = Retry(
            total=_ATTEMPTS - 1,
            backoff_factor=self.backoff,
            status_forcelist=_RETRIED_STATUSES,
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
                    json=None if body is None else mask(body),
                    auth=self.token,
                    headers=self.headers,
                    timeout=_TIMEOUT,
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                raise ExecutionError(
                    f"{what} failed: {type(error).__name__}",
                    hint="check that the forge can be reached from here, and run the job again",
                ) from None
        if method == "GET" and answer.is_redirect and redirects:
            target = urljoin(url, answer.headers["Location"])
            return self._send(method, target, body, or_none, redirects - 1)
        said = _error_suffix(answer)
        if _is_rate_limit(answer, said):
            raise ExecutionError(
                f"{what} failed: the forge's rate limit is reached ({answer.status_code}{said})",
                hint="run the job again later",
            )
        if answer.status_code in or_none:
            return None
        if answer.ok and not answer.is_redirect:
            return answer
        if answer.status_code in (401, 403, 404):
            raise UsageError(
                f"{what} is refused ({answer.status_code}{said})",
                hint="check the job's token, its rights, and the pull request's number",
            )
        hint = "run the job again"
        if answer.is_redirect:
            hint = "correct the repository, or the API's address, in the job's variables"
        raise ExecutionError(f"{what} failed ({answer.status_code}{said})", hint=hint)


@dataclass(frozen=True)
class RestForge(ABC):
    """A forge with a REST API, where the token's user writes one comment on each pull request."""

    rest: Rest
    login: str = ""
    update: ClassVar[str] = "PATCH"
    """The HTTP method for replacing a comment."""
    author: ClassVar[tuple[str, str]] = ("user", "login")
    """The fields of a comment's author, and of the author's login."""
    oldest_first: ClassVar[str] = ""
    """Query parameters that list the oldest comments first, with a trailing `&`."""

    def comment(self, number: int, marker: str) -> str | None:
        """Return the comment that the token's user wrote with this marker, or None."""
        found = self._find_comment(number, marker)
        return None if found is None else str(found["body"])

    def write_comment(self, number: int, marker: str, text: str) -> None:
        found, body = self._find_comment(number, marker), {"body": text}
        if found is None:
            self.rest.send("POST", self.comments_path(number), body)
        elif found["body"] != text:
            self.rest.send(self.update, self.comment_path(number, found["id"]), body)

    def _find_comment(self, number: int, marker: str) -> Any:
        for one in self.rest.pages(f"{self.comments_path(number)}?{self.oldest_first}per_page=100"):
            author = (one.get(self.author[0]) or {}).get(self.author[1])
            if author == self.user and str(one.get("body") or "").startswith(marker):
                return one
        return None

    @property
    @abstractmethod
    def user(self) -> str:
        """The login of the token's user."""

    @abstractmethod
    def comments_path(self, number: int) -> str: ...

    @abstractmethod
    def comment_path(self, number: int, key: int) -> str: ...


def _read_json(answer: Response, kind: type) -> Any:
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, kind):
        raise ExecutionError(
            f"{answer.request.method} {urljoin(answer.url, urlsplit(answer.url).path)} answered "
            f"without the expected JSON ({answer.status_code})",
            hint="check the API's address in the job's variables, and whether a proxy answers",
        )
    return found


def _is_rate_limit(answer: Response, said: str) -> bool:
    # GitHub also sends 403: https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
    left = answer.headers.get("X-RateLimit-Remaining")
    limited = left == "0" or "Retry-After" in answer.headers or "rate limit" in said.lower()
    return answer.status_code == 429 or (answer.status_code == 403 and limited)


def _error_suffix(answer: Response) -> str:
    try:
        said = answer.json()
    except ValueError:
        return ""
    text = said.get("message") or said.get("error") if isinstance(said, dict) else None
    return f": {str(text)[:_LONGEST_ERROR]}" if text else ""
