"""The one narrow port that every side effect passes by name.

A side effect is whatever outlives the process: a database commit, a file written or deleted, an
Iceberg commit, a lease. Code wraps each in `with effects.at("publish.commit"):` directly around
the one call that acts, so that a test can stop the process before it, after it, let it fail, or
lose its answer. In production the port does nothing and costs one method call.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol


class Effects(Protocol):
    """Where side effects announce themselves."""

    def at(self, point: str, detail: str = "") -> AbstractContextManager[None]:
        """Return a context to run one side effect in.

        Args:
            point: The effect's name, dotted, the same for every execution of the line.
            detail: What it acts on (a path, a table), for logs.
        """
        ...


class _Nothing:
    """A context that does nothing; one instance serves everybody."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


_NOTHING = _Nothing()


class NoEffects:
    """The port in production: every side effect just happens."""

    __slots__ = ()

    def at(self, point: str, detail: str = "") -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return _NOTHING
