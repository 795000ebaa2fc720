"""A receiver: an HTTP server that takes Apprise's `json://` notifications."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiving:
    """What came, in order.

    Args:
        refuses: Whether it answers with an error.
    """

    port: int
    got: list[dict[str, Any]] = field(default_factory=list)
    refuses: bool = False

    def url(self, path: str = "") -> str:
        """Return the address as Apprise has it."""
        return f"json://127.0.0.1:{self.port}/{path}"

    def titles(self, path: str = "") -> list[str]:
        """Return the subjects of what came to a path."""
        return [one["title"] for one in self.got if one["path"] == f"/{path}"]


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiving]:
    """Listen at a port of this machine."""
    found = Receiving(0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not found.refuses:
                found.got.append({**said, "path": self.path})
            self.send_response(503 if found.refuses else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    found.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
