"""A line for every request: when, from where, who, what, and how it ended; never a secret."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timezone
from typing import Any, TextIO
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class AccessLog:
    """Writes a line for every request that it hands on.

    Args:
        app: What answers.
        file: Where the lines go; by default to stderr.
    """

    def __init__(self, app: ASGIApp, file: TextIO | None = None) -> None:
        self._app = app
        self._file = file or sys.stderr

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and write the line when the answer has ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        begun, seen = time.monotonic(), {"status": 500, "bytes": 0}

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen["status"] = message["status"]
            elif message["type"] == "http.response.body":
                seen["bytes"] += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            took = (time.monotonic() - begun) * 1000
            print(_line(scope, seen, took), file=self._file, flush=True)


def _line(scope: Scope, seen: dict[str, int], took: float) -> str:
    state: dict[str, Any] = scope.get("state", {})
    # A proxy says whose request it is, and whoever is on this machine can be one.
    client = quote((scope.get("client") or ["-"])[0], safe=":.%[]") or "-"
    at = datetime.now(timezone.utc)
    # What a client sends stays on one line, and in ASCII.
    path = quote(scope["path"], safe="/@+~:=,")
    query = quote(scope["query_string"], safe="/@+~:=,&%")
    asked = f"{path}?{query}" if query else path
    return (
        f"{at:%Y-%m-%dT%H:%M:%SZ} {client} {state.get('who', '-')} {scope['method']} {asked} "
        f"{seen['status']} {seen['bytes']}B {took:.0f}ms"
    )
