"""A real HTTP server that takes batches as docs/sync.md says, and fails as a test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str]]
OK: Answer = (200, {})
DIES: Answer = (0, {})
"""Closes the connection without an answer, after it has taken the batch."""


class Receiver:
    """What has come, and how the next batches are answered.

    Args:
        answers: Say of a batch how it is answered, in turn; None where the next one is asked.
        remembers: Whether batches are known by their idempotency keys.
    """

    def __init__(self) -> None:
        self.answers: list[Callable[[dict[str, Any]], Answer | None]] = []
        self.rows: dict[str, dict[str, Any]] = {}
        self.log: list[dict[str, Any]] = []
        self.taken: list[dict[str, Any]] = []
        self.keys: dict[str, dict[str, Any]] = {}
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
        self._full: set[str] = set()
        self.url = ""

    def fail(self, *answers: Answer) -> None:
        """Answer the next batches so, and then as before."""
        left = list(answers)
        self.answers.insert(0, lambda body: left.pop(0) if left else None)

    def take(self, key: str, headers: dict[str, str], body: dict[str, Any]) -> Answer:
        """Answer a batch, and take it unless it is refused or was taken before."""
        self.times.append(time.monotonic())
        self.headers.append(headers)
        self.log.append(body)
        found = (answer(body) for answer in self.answers)
        status, more = next((one for one in found if one is not None), OK)
        assert self.keys.setdefault(key, body) == body, "one key is of one batch"
        if status in (OK[0], DIES[0]) and body not in self.taken:
            self.taken.append(body)
            self._apply(body)
        return status, more

    def _apply(self, body: dict[str, Any]) -> None:
        if body["batch"] == "1" and body["full"]:
            self._full = set()
        for one in body["changes"]:
            values = one.get("row") or one["key"]
            place = next(str(value) for name, value in values.items() if name.lower() == "customer")
            if one["change"] == "delete":
                self.rows.pop(place, None)
            else:
                self.rows[place] = values
                self._full.add(place)
        if body["batch"] == "end":
            self.rows = {place: self.rows[place] for place in self._full}


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on a free port."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = dict(self.headers.items())
            status, more = receiver.take(self.headers["Idempotency-Key"], headers, body)
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {"Content-Length": "2", **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"no" if status >= 300 else b"ok")

        def log_message(self, *said: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/changes"
    yield receiver
    server.shutdown()
    server.server_close()
