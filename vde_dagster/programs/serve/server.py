from __future__ import annotations

import asyncio
import re
import socket
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vde_dagster.errors import UsageError
from vde_dagster.programs.serve.access import is_loopback
from vde_dagster.programs.serve.app import make_app

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from vde_dagster.execution.publishers import ServerOptions
    from vde_dagster.execution.workspace import Workspace


class Server:
    """Serves a project's environments over HTTP when used in `with`."""

    def __init__(self, workspace: Workspace, asked: ServerOptions) -> None:
        self._limits = Limits(connections=asked.connections, by_address=asked.by_address)
        try:
            self._log = asked.log.open("a", encoding="utf-8") if asked.log is not None else None
        except OSError as error:
            raise UsageError(
                f"cannot write {asked.log}: {error.strerror}", hint="pass another --log FILE"
            ) from error
        self._app = make_app(
            workspace,
            may_be_open=is_loopback(asked.host),
            log=self._log,
            writes_metadata=asked.writes_metadata,
        )
        self._tokens = workspace.store.tokens
        self._host, self._port = asked.host, asked.port
        self._socket: socket.socket | None = None

    def __enter__(self) -> Server:
        """Begin to listen.

        Raises:
            UsageError: The address is not one of this machine, the port is in use, or other
                machines could reach the server without a token.
        """
        if not is_loopback(self._host) and not self._tokens.any():
            raise UsageError(
                f"{self._host} can be reached by other machines, which would need no token",
                hint="create a token first: vde token create prod; or listen on 127.0.0.1",
            )
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self._host, self._port))
        except OSError as error:
            listening.close()
            raise UsageError(
                f"cannot listen on {self._host}, port {self._port}: {error.strerror or error}",
                hint="pass another --port or --host",
            ) from error
        listening.listen(256)
        self._socket = listening
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._log is not None:
            self._log.close()

    @property
    def url(self) -> str:
        assert self._socket is not None
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._socket.getsockname()[1]}"

    def run(self) -> None:
        """Serve requests until SIGINT or SIGTERM, and then finish requests in progress."""
        assert self._socket is not None
        uvicorn.Server(uvicorn_config(self._app, self._limits)).run(sockets=[self._socket])


def uvicorn_config(app: ASGIApp, limits: Limits) -> uvicorn.Config:
    """Return Uvicorn's configuration, with limits for an open network."""
    return uvicorn.Config(
        app,
        # The parser in C does not limit headers.
        http=make_protocol(limits),
        h11_max_incomplete_event_size=limits.head_bytes,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on requests and connections.

    Args:
        head_bytes: Bytes of a request's line and headers.
        head_seconds: Seconds from a new connection, or from the first byte of a request, to the end
            of the request's head.
        taken_seconds: Seconds for a client to receive `taken_bytes`, or the rest of the response.
        taken_bytes: Minimum number of bytes per `taken_seconds`.
        by_address: Maximum number of connections from one address.
    """

    head_bytes: int = 65_536
    head_seconds: float = 10
    body_bytes: int = 16_000_000
    body_seconds: float = 20
    taken_seconds: float = 30
    taken_bytes: int = 65_536
    connections: int = 500
    by_address: int = 250


class _StrictConnection(h11.Connection):
    """Refuses a request if servers could disagree about where its body ends."""

    # h11 accepts `Transfer-Encoding` together with `Content-Length`, joins equal lengths and folded
    # lines, and reads lines that end with LF alone. A proxy in front of this server may read any of
    # these differently (RFC 9112, 6.3 and 11.2).
    def next_event(self) -> Any:
        if self.their_state is h11.IDLE and _is_ambiguous(self.trailing_data[0]):
            raise h11.RemoteProtocolError("the request's head is ambiguous")
        return super().next_event()


_HEAD_ENDS = re.compile(rb"\n\r?\n")
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(.*?)[ \t]*", re.IGNORECASE | re.DOTALL)
_ENCODING = re.compile(rb"transfer-encoding[ \t]*:[ \t]*(.*?)[ \t]*", re.IGNORECASE | re.DOTALL)


def _is_ambiguous(received: bytes) -> bool:
    received = received.lstrip(b"\r\n")
    ends = _HEAD_ENDS.search(received)
    if ends is None:
        return False
    head = received[: ends.end()]
    if head.count(b"\n") != head.count(b"\r\n") or head.count(b"\r") != head.count(b"\r\n"):
        return True
    request, *fields = head.split(b"\r\n")[:-2]
    if any(field[:1] in (b" ", b"\t") for field in fields):
        return True
    lengths = [found[1] for field in fields if (found := _LENGTH.fullmatch(field))]
    encodings = [found[1] for field in fields if (found := _ENCODING.fullmatch(field))]
    if encodings:
        is_chunked = [one.lower() for one in encodings] == [b"chunked"]
        return bool(lengths) or not is_chunked or not request.endswith(b"HTTP/1.1")
    return len(lengths) > 1 or not all(re.fullmatch(rb"[0-9]{1,18}", one) for one in lengths)


def make_protocol(limits: Limits) -> type[H11Protocol]:
    """Return an HTTP protocol class for Uvicorn that enforces limits."""
    addresses: Counter[str] = Counter()

    class Limited(H11Protocol):
        _address: str | None = None
        _phase: str | None = None
        _timer: asyncio.TimerHandle | None = None
        _received = 0
        _progress_timer: asyncio.TimerHandle | None = None

        def __init__(self, config: uvicorn.Config, *args: Any, **kwargs: Any) -> None:
            super().__init__(config, *args, **kwargs)
            self.conn = _StrictConnection(h11.SERVER, limits.head_bytes)

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            address = self.client[0] if self.client else ""
            self._address = address
            addresses[address] += 1
            if addresses[address] > limits.by_address:
                self._refuse("429 Too Many Requests", "this address has too many connections")
            elif len(self.connections) > limits.connections:
                self._refuse("503 Service Unavailable", "there are too many connections")
            else:
                self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._address is not None:
                addresses[self._address] -= 1
                if not addresses[self._address]:
                    del addresses[self._address]
                self._address = None
            self._set_timer(None)
            self._stop_progress_check()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stop_progress_check()
            waiting = self.transport.get_write_buffer_size()
            self._progress_timer = self.loop.call_later(
                limits.taken_seconds, self._check_progress, waiting
            )

        def resume_writing(self) -> None:
            self._stop_progress_check()
            super().resume_writing()

        def _stop_progress_check(self) -> None:
            if self._progress_timer is not None:
                self._progress_timer.cancel()
                self._progress_timer = None

        def _check_progress(self, before: int) -> None:
            """Abort the connection if the client has received too little since the last check.

            `before` is the number of unsent bytes at that check.
            """
            waiting = self.transport.get_write_buffer_size()
            if waiting > before - limits.taken_bytes:
                self.transport.abort()
            else:
                self._progress_timer = self.loop.call_later(
                    limits.taken_seconds, self._check_progress, waiting
                )

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            before = self.cycle
            super().data_received(data)
            self._received = len(data) + (self._received if self.cycle is before else 0)
            taking = self.conn.their_state is h11.SEND_BODY
            if taking and self._received > limits.body_bytes + limits.head_bytes:
                self._refuse("413 Content Too Large", "this server accepts no body")
            else:
                self._watch()

        def send_400_response(self, msg: str) -> None:
            self._refuse("400 Bad Request", "this is not a valid request")
            cycle: Any = self.cycle
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def _watch(self) -> None:
            theirs = self.conn.their_state
            if self.transport.is_closing():
                self._set_timer(None)
            elif theirs is h11.SEND_BODY:
                self._set_timer("body")
            elif theirs is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
                self._set_timer("head")
            else:
                self._set_timer(None)

        def _set_timer(self, phase: str | None) -> None:
            if phase == self._phase:
                return
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._phase = phase
            if phase is not None:
                seconds = limits.head_seconds if phase == "head" else limits.body_seconds
                refusal = "408 Request Timeout", "the request took too long to send"
                self._timer = self.loop.call_later(seconds, self._refuse, *refusal)

        def _refuse(self, status: str, why: str) -> None:
            self._set_timer(None)
            if self.transport.is_closing():
                return
            cycle: Any = self.cycle
            if cycle is None or cycle.response_complete or not cycle.response_started:
                kind = {"429": "SlowDownException", "503": "ServiceUnavailableException"}.get(
                    status[:3], "BadRequestException"
                )
                text = f'{{"error":{{"message":"{why}","type":"{kind}","code":{status[:3]}}}}}'
                head = (
                    f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nretry-after: 5\r\n"
                    f"content-length: {len(text)}\r\nconnection: close\r\n\r\n"
                )
                self.transport.write(f"{head}{text}".encode())
            self.transport.close()

    return Limited
