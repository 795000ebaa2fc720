"""The server process: a socket, and Uvicorn on it."""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import uvicorn

from vde_dagster.errors import UsageError
from vde_dagster.serve.app import make_app
from vde_dagster.serve.limits import Limits, limited
from vde_dagster.serve.loopback import is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from vde_dagster.execution.warehouse import Warehouse


class Server:
    """Listens from when it is entered, and answers while it runs.

    Args:
        warehouse: The project's warehouse.
        host: The address to listen on.
        port: The port; 0 for one that is free.
        log: The file that gets a line for each request; None for stderr.
        writes_metadata: Whether metadata that is answered is a file, too.
        limits: What a connection may take; by default as much as `Limits` says.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        host: str,
        port: int,
        log: Path | None = None,
        writes_metadata: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._log = log.open("a", encoding="utf-8") if log is not None else None
        self._app = make_app(
            warehouse,
            may_be_open=is_loopback(host),
            log=self._log,
            writes_metadata=writes_metadata,
        )
        self._tokens = warehouse.store.tokens
        self._host, self._port = host, port
        self._socket: socket.socket | None = None

    def __enter__(self) -> Server:
        """Begin to listen.

        Raises:
            UsageError: The address is none of this machine, the port is taken, or others could
                reach it.
        """
        if not is_loopback(self._host) and not self._tokens.any():
            raise UsageError(
                f"{self._host} can be reached by others, and nobody would have to say who they are",
                hint="make a token first: vde token create prod; or listen on 127.0.0.1",
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
                hint="give another --port or --host",
            ) from error
        listening.listen(256)
        self._socket = listening
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop listening."""
        if self._socket is not None:
            self._socket.close()
        if self._log is not None:
            self._log.close()

    @property
    def url(self) -> str:
        """Where clients find it."""
        assert self._socket is not None
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._socket.getsockname()[1]}"

    def run(self) -> None:
        """Answer until SIGINT or SIGTERM; requests that are being answered end first."""
        assert self._socket is not None
        uvicorn.Server(configured(self._app, self._limits)).run(sockets=[self._socket])


def configured(app: ASGIApp, limits: Limits) -> uvicorn.Config:
    """Return how Uvicorn serves an application to the open network."""
    return uvicorn.Config(
        app,
        # The parser that is written in C has no limit of headers.
        http=limited(limits),
        h11_max_incomplete_event_size=limits.head_bytes,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
    )
