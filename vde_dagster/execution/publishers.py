"""Publishers: plug-ins of `vde serve` that serve environments to other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vde_dagster.base.plugins import Seam

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of a server that publishes environments.

    Args:
        port: The port; 0 for any free port.
        log: File with a line per request; None for stderr.
        writes_metadata: Whether served metadata is also written to a file.
        connections: Maximum number of connections at a time. `by_address` is the maximum per
            address.
    """

    host: str = "127.0.0.1"
    port: int = 0
    log: Path | None = None
    writes_metadata: bool = False
    connections: int = 500
    by_address: int = 250


class Server(Protocol):
    """Server that accepts requests while its `with` block runs."""

    @property
    def url(self) -> str: ...

    def run(self) -> None:
        """Serve until Ctrl-C."""

    def __enter__(self) -> Server: ...

    def __exit__(self, *details: object) -> None: ...


class Publisher(Protocol):
    """Plug-in that serves environments to other programs, such as Trino."""

    def open(self, workspace: Workspace, options: ServerOptions) -> Server:
        """Create the server without starting it."""

    def check_filter(self, text: str) -> None:
        """Check that a condition such as `country = 'DE'` can be evaluated for each row.

        A token with such a condition may only read matching rows.

        Raises:
            UsageError: The condition cannot be evaluated per row.
        """


PUBLISHERS: Seam[Publisher] = Seam("publishers")
