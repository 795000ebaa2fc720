"""Servers of this machine that answer as REST APIs of forges do, in the shapes of their pages.

https://docs.github.com/en/rest/issues/comments, …/rest/checks/runs, …/rest/pulls/pulls;
https://docs.gitlab.com/api/notes/, …/api/merge_requests/, …/api/commits/
"""

from __future__ import annotations

import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

TOKEN = "ghs_of-a-test"
"""What every server takes for its token."""

Answer = tuple[int, Any]
_NOT_FOUND = (404, {"message": "404 Not Found"})


@dataclass
class FakeForge(ABC):
    """What a server has and was asked.

    Args:
        per_page: Comments on a page, however many are asked for.
        user: The login that `/user` answers with.
        failures: How many of the next requests fail with 502.
        merges: The number of what a commit merged, by commit.
        odd: Answers to the next requests, in place of the real ones: code, headers, body.
    """

    variables: ClassVar[dict[str, str]]
    """The variables of a job."""
    addresses: ClassVar[str]
    """The variable that has the API's address."""
    name: ClassVar[str]
    url: str = ""
    per_page: int = 2
    user: str | None = None
    failures: int = 0
    heads: dict[int, str] = field(default_factory=dict)
    merged: set[int] = field(default_factory=set)
    closed: set[int] = field(default_factory=set)
    merges: dict[str, int] = field(default_factory=dict)
    comments: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    odd: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)

    @property
    @abstractmethod
    def login(self) -> str:
        """The user that the token is of."""

    @abstractmethod
    def add_comment(self, number: int, login: str, body: str) -> dict[str, Any]:
        """Let somebody write a comment."""

    @abstractmethod
    def refused(self, headers: Any) -> Answer | None:
        """Say what is wrong with a request's headers."""

    @abstractmethod
    def answer(self, method: str, path: str, body: Any) -> Answer | list[dict[str, Any]]:
        """Return the code and the JSON, or comments, of which a page is sent."""

    @abstractmethod
    def author(self, comment: dict[str, Any]) -> str:
        """Return who made a comment."""

    def of(self, number: int) -> list[dict[str, Any]]:
        """Return the comments of a pull request, as they were made."""
        return [one for one in self.comments if one["number"] == number]

    def bodies(self, number: int, login: str = "") -> list[str]:
        """Return what a user has written on a pull request; by default the token's."""
        who = login or self.login
        return [one["body"] for one in self.of(number) if self.author(one) == who]

    def change(self, comment: dict[str, Any], body: dict[str, Any]) -> Answer:
        """Put another text in a comment's place, if it is the token's user's."""
        if self.author(comment) != self.login:
            return 403, {"message": "403 Forbidden"}
        comment["body"] = body["body"]
        return 200, comment


class FakeGitHub(FakeForge):
    """GitHub's REST API; `user` None refuses, as for a workflow's token."""

    variables = {"GITHUB_REPOSITORY": "acme/shop", "GITHUB_TOKEN": TOKEN}
    addresses = "GITHUB_API_URL"
    name = "github"

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[dict[str, Any]] = []

    @property
    def login(self) -> str:
        """The user that the token is of."""
        return self.user or "github-actions[bot]"

    def add_comment(self, number: int, login: str, body: str) -> dict[str, Any]:
        """Let somebody write a comment."""
        known = {"id": 1000 + len(self.comments), "node_id": "IC_x", "number": number}
        self.comments.append({**known, "user": {"login": login, "type": "User"}, "body": body})
        return self.comments[-1]

    def author(self, comment: dict[str, Any]) -> str:
        """Return who made a comment."""
        return str(comment["user"]["login"])

    def refused(self, headers: Any) -> Answer | None:
        """Say what is wrong with a request's headers."""
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"message": "Bad credentials"}
        if headers.get("Accept") != "application/vnd.github+json":
            return 415, {"message": "Unsupported 'Accept' header"}
        return None

    def answer(self, method: str, path: str, body: Any) -> Answer | list[dict[str, Any]]:
        """Return the code and the JSON, or comments, of which a page is sent."""
        repo = "/repos/acme/shop"
        if path == "/user":
            refused = {"message": "Resource not accessible by integration", "status": "403"}
            return (200, {"login": self.user, "id": 7}) if self.user else (403, refused)
        if found := re.fullmatch(rf"{repo}/pulls/(\d+)", path):
            number = int(found[1])
            if number not in self.heads:
                return _NOT_FOUND
            head, merged = {"sha": self.heads[number]}, number in self.merged
            state = "closed" if merged or number in self.closed else "open"
            return 200, {"number": number, "head": head, "state": state, "merged": merged}
        if found := re.fullmatch(rf"{repo}/commits/(\w+)/pulls", path):
            number = self.merges.get(found[1], 0)
            pull = {"number": number, "merged_at": "2026-01-02T03:04:05Z"}
            return 200, [{**pull, "merge_commit_sha": found[1]}] if number else []
        if found := re.fullmatch(rf"{repo}/issues/(\d+)/comments", path):
            number = int(found[1])
            if method == "POST":
                if len(body["body"]) > 65_536:
                    return 422, {"message": "Validation Failed"}
                return 201, self.add_comment(number, self.login, body["body"])
            return self.of(number)
        if found := re.fullmatch(rf"{repo}/issues/comments/(\d+)", path):
            (one,) = [one for one in self.comments if one["id"] == int(found[1])]
            return self.change(one, body) if method == "PATCH" else _NOT_FOUND
        if method == "POST" and path == f"{repo}/check-runs":
            if len(body["output"]["annotations"]) > 50:
                return 422, {"message": "Invalid request.\n\nNo more than 50 items are allowed"}
            self.runs.append({"id": len(self.runs) + 1, **body})
            return 201, self.runs[-1]
        if found := re.fullmatch(rf"{repo}/check-runs/(\d+)", path):
            run = self.runs[int(found[1]) - 1]
            run["output"]["annotations"] += body["output"]["annotations"]
            return 200, run
        return _NOT_FOUND


class FakeGitLab(FakeForge):
    """GitLab's REST API; notes are sent newest first where no other order is asked for."""

    variables = {
        "GITLAB_CI": "true",
        "GITLAB_TOKEN": TOKEN,
        "CI_JOB_TOKEN": "glcbt-of-a-job",
        "CI_PROJECT_ID": "35",
    }
    addresses = "CI_API_V4_URL"
    name = "gitlab"

    @property
    def login(self) -> str:
        """The user that the token is of."""
        return self.user or "project_35_bot_c0ffee"

    def add_comment(self, number: int, login: str, body: str) -> dict[str, Any]:
        """Let somebody write a note; the server keeps no blank at its end."""
        known = {"id": 300 + len(self.comments), "noteable_type": "MergeRequest", "number": number}
        author = {"id": 1, "username": login, "state": "active"}
        self.comments.append({**known, "author": author, "body": body.rstrip(), "system": False})
        return self.comments[-1]

    def author(self, comment: dict[str, Any]) -> str:
        """Return who made a note."""
        return str(comment["author"]["username"])

    def refused(self, headers: Any) -> Answer | None:
        """Say what is wrong with a request's headers."""
        if headers.get("PRIVATE-TOKEN") != TOKEN:
            return 401, {"message": "401 Unauthorized"}
        return None

    def answer(self, method: str, path: str, body: Any) -> Answer | list[dict[str, Any]]:
        """Return the code and the JSON, or comments, of which a page is sent."""
        project = "/projects/35"
        if path == "/user":
            return 200, {"id": 7, "username": self.login, "bot": True}
        if found := re.fullmatch(rf"{project}/merge_requests/(\d+)", path):
            number = int(found[1])
            if number not in self.heads:
                return _NOT_FOUND
            state = "closed" if number in self.closed else "opened"
            state = "merged" if number in self.merged else state
            return 200, {"iid": number, "sha": self.heads[number], "state": state}
        if found := re.fullmatch(rf"{project}/repository/commits/(\w+)/merge_requests", path):
            number = self.merges.get(found[1], 0)
            merged = {"iid": number, "state": "merged", "squash_commit_sha": found[1]}
            other = {"iid": 99, "state": "opened", "sha": found[1], "merge_commit_sha": None}
            return 200, [other, {**merged, "merge_commit_sha": None}] if number else []
        if found := re.fullmatch(rf"{project}/merge_requests/(\d+)/notes", path):
            number = int(found[1])
            if method == "POST":
                return 201, self.add_comment(number, self.login, body["body"])
            return self.of(number)
        if found := re.fullmatch(rf"{project}/merge_requests/(\d+)/notes/(\d+)", path):
            (one,) = [one for one in self.of(int(found[1])) if one["id"] == int(found[2])]
            return self.change(one, body) if method == "PUT" else _NOT_FOUND
        return _NOT_FOUND


@contextmanager
def served(found: FakeForge) -> Iterator[FakeForge]:
    """Serve a forge until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            parts = urlsplit(self.path)
            found.asked.append((self.command, self.path))
            link = ""
            if found.odd:
                self._send(*found.odd.pop(0))
                return
            if found.failures:
                found.failures -= 1
                answer: Any = 502, {"message": "Server Error"}
            else:
                answer = found.refused(self.headers) or found.answer(self.command, parts.path, body)
            if isinstance(answer, list):
                answer, link = self._page(answer, parse_qs(parts.query))
            code, said = answer
            self._send(code, {"Link": link} if link else {}, json.dumps(said).encode())

        def _send(self, code: int, headers: dict[str, str], data: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PATCH = do_PUT = do_GET

        def _page(self, listed: list[Any], query: dict[str, list[str]]) -> tuple[Answer, str]:
            if found.name == "gitlab" and query.get("sort") != ["asc"]:
                listed = listed[::-1]
            page, size = int(query.get("page", ["1"])[0]), found.per_page
            path = urlsplit(self.path).path
            asked = "".join(f"{key}={values[0]}&" for key, values in query.items() if key != "page")
            following = f'<{found.url}{path}?{asked}page={page + 1}>; rel="next"'
            more = len(listed) > page * size
            return (200, listed[(page - 1) * size : page * size]), following if more else ""

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
