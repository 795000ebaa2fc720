"""A TCP proxy in front of PostgreSQL that can lose the answer to one COMMIT, or the COMMIT."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Literal

Loss = Literal["answer", "request"]


class LossyProxy:
    """Passes bytes on, until it is told to lose the next commit of a publication.

    A publication's transaction is known by the SQL text that only it sends.
    """

    MARK = b"INSERT INTO vde_environment_versions"

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lose: Loss | None = None
        self.lost = 0
        self._closing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        publishing = False
        with client, socket.create_connection(self._target) as server, contextlib.suppress(OSError):
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if server in ready:
                    data = server.recv(65536)
                    if not data:
                        return
                    client.sendall(data)
                if client in ready:
                    data = client.recv(65536)
                    if not data:
                        return
                    publishing = publishing or self.MARK in data
                    if publishing and b"COMMIT" in data:
                        if self.lose is not None:
                            self._lose(server, data)
                            return
                        publishing = False
                    server.sendall(data)

    def _lose(self, server: socket.socket, data: bytes) -> None:
        loss, self.lose = self.lose, None
        self.lost += 1
        if loss == "answer":
            server.sendall(data)
            server.recv(65536)
