"""A server of this machine that answers as GitHub's REST API does, in the shapes of its pages.

https://docs.github.com/en/rest/issues/comments, …/rest/checks/runs, …/rest/pulls/pulls
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "ghs_of-a-test"
REPOSITORY = "acme/shop"
BOT = "github-actions[bot]"


@dataclass
class FakeGitHub:
    """What the server has and was asked.

    Args:
        per_page: Comments on a page, however many are asked for.
        user: The login that `/user` answers with; None refuses, as for a workflow's token.
        failures: How many of the next requests fail with 502.
    """

    url: str = ""
    per_page: int = 2
    user: str | None = None
    failures: int = 0
    heads: dict[int, str] = field(default_factory=dict)
    merged: set[int] = field(default_factory=set)
    merges: dict[str, int] = field(default_factory=dict)
    comments: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def add_comment(self, number: int, login: str, body: str) -> None:
        """Let somebody write a comment."""
        known = {"id": 1000 + len(self.comments), "node_id": "IC_x", "issue": number}
        self.comments.append({**known, "user": {"login": login, "type": "User"}, "body": body})

    def bodies(self, number: int, login: str = BOT) -> list[str]:
        """Return what a user has written on a pull request."""
        own = [one for one in self.comments if one["issue"] == number]
        return [one["body"] for one in own if one["user"]["login"] == login]

    def answer(self, method: str, path: str, query: Any, body: Any) -> tuple[int, Any, str]:
        """Return the code, the JSON, and the value of the header `Link`."""
        repo = f"/repos/{REPOSITORY}"
        login = self.user or BOT
        if path == "/user":
            refused = {"message": "Resource not accessible by integration", "status": "403"}
            return (200, {"login": self.user, "id": 7}, "") if self.user else (403, refused, "")
        if found := re.fullmatch(rf"{repo}/pulls/(\d+)", path):
            number = int(found[1])
            if number not in self.heads:
                return 404, {"message": "Not Found", "status": "404"}, ""
            head, merged = {"sha": self.heads[number]}, number in self.merged
            return 200, {"number": number, "head": head, "merged": merged}, ""
        if found := re.fullmatch(rf"{repo}/commits/(\w+)/pulls", path):
            number = self.merges.get(found[1], 0)
            pull = {"number": number, "merged_at": "2026-01-02T03:04:05Z"}
            return 200, [{**pull, "merge_commit_sha": found[1]}] if number else [], ""
        if found := re.fullmatch(rf"{repo}/issues/(\d+)/comments", path):
            number = int(found[1])
            if method == "POST":
                self.add_comment(number, login, body["body"])
                return 201, self.comments[-1], ""
            page = int(query.get("page", ["1"])[0])
            own = [one for one in self.comments if one["issue"] == number]
            shown = own[(page - 1) * self.per_page : page * self.per_page]
            more = len(own) > page * self.per_page
            link = f'<{self.url}{path}?per_page=100&page={page + 1}>; rel="next"' if more else ""
            return 200, shown, link
        if found := re.fullmatch(rf"{repo}/issues/comments/(\d+)", path):
            (one,) = [one for one in self.comments if one["id"] == int(found[1])]
            if method != "PATCH" or one["user"]["login"] != login:
                return 403, {"message": "Must have admin rights to Repository."}, ""
            one["body"] = body["body"]
            return 200, one, ""
        if method == "POST" and path == f"{repo}/check-runs":
            if len(body["output"]["annotations"]) > 50:
                return 422, {"message": "Invalid request.\n\nNo more than 50 items are allowed"}, ""
            self.runs.append({"id": len(self.runs) + 1, **body})
            return 201, self.runs[-1], ""
        if found := re.fullmatch(rf"{repo}/check-runs/(\d+)", path):
            run = self.runs[int(found[1]) - 1]
            run["output"]["annotations"] += body["output"]["annotations"]
            return 200, run, ""
        return 404, {"message": "Not Found", "status": "404"}, ""


@contextmanager
def fake_github() -> Iterator[FakeGitHub]:
    """Serve one until the end of the block."""
    found = FakeGitHub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            parts = urlsplit(self.path)
            found.asked.append((self.command, self.path))
            if found.failures:
                found.failures -= 1
                code, said, link = 502, {"message": "Server Error"}, ""
            elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
                code, said, link = 401, {"message": "Bad credentials"}, ""
            elif self.headers.get("Accept") != "application/vnd.github+json":
                code, said, link = 415, {"message": "Unsupported 'Accept' header"}, ""
            else:
                code, said, link = found.answer(
                    self.command, parts.path, parse_qs(parts.query), body
                )
            data = json.dumps(said).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            if link:
                self.send_header("Link", link)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PATCH = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
