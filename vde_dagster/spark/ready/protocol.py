"""The protocol between clients and the ready process, over a Unix socket."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any

SOCKET = "commands.sock"
"""Name of the socket in the engine's folder, which only its user may enter."""
_IMPORT_VARIABLES = (
    *("PYTHON", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "MKL_", "NUMEXPR_", "ARROW_", "GRPC_"),
    *("SPARK_", "PYSPARK_", "PYICEBERG_"),
)
"""Prefixes of variables that modules may read when they are imported."""
_LENGTH = struct.Struct("!I")


def engine_folder(root: Path) -> Path:
    return root / ".vde" / "engine"


def process_identity() -> list[Any]:
    """Return Python's path, version, flags and the environment variables that affect imports.

    A client can use the ready process only if their identities are equal.
    """
    read = sorted(item for item in os.environ.items() if item[0].startswith(_IMPORT_VARIABLES))
    return [sys.executable, sys.version, list(sys.flags), [list(item) for item in read]]


def send(connection: socket.socket, message: Any, files: tuple[int, ...] = ()) -> None:
    """Send a JSON value and descriptors of open files."""
    content = json.dumps(message).encode()
    head = _LENGTH.pack(len(content))
    if files:
        socket.send_fds(connection, [head], files)
        connection.sendall(content)
    else:
        connection.sendall(head + content)


def receive(connection: socket.socket, files: int = 0) -> tuple[Any, list[int]]:
    """Receive a JSON value and up to `files` descriptors.

    Raises:
        EOFError: The other side has ended.
    """
    head, received, _, _ = socket.recv_fds(connection, _LENGTH.size, files)
    head += _receive_bytes(connection, _LENGTH.size - len(head)) if head else b""
    if not head:
        raise EOFError
    return json.loads(_receive_bytes(connection, _LENGTH.unpack(head)[0])), received


def _receive_bytes(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        if not (more := connection.recv(size - len(content))):
            raise EOFError
        content += more
    return content
