"""Bodies of requests that nobody reads are taken off the line before they are answered.

A client that is still sending when the connection ends gets an error of its socket, and never sees
that its write was refused, nor why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import move_on_after

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MOST_BYTES = 16_000_000
_MOST_SECONDS = 5
"""Who sends more, or more slowly, is cut off."""


class TakeBodies:
    """Middleware that reads what is left of a request's body before the answer begins.

    Args:
        app: What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        ended = False

        async def heard() -> Message:
            nonlocal ended
            message = await receive()
            ended = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        async def said(message: Message) -> None:
            if message["type"] == "http.response.start":
                taken = 0
                with move_on_after(_MOST_SECONDS):
                    while not ended and taken < _MOST_BYTES:
                        taken += len((await heard()).get("body", b""))
            await send(message)

        await self._app(scope, heard, said)
