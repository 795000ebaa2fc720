"""Looking at what a client of Spark Connect calls, whichever client it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]

Check = Callable[[], None]
_watchers: list[tuple[Check, Check]] = []
_RELEASES = "ReleaseExecute"
"""Calls by which a client says what it has read: they do nothing that outlives it."""


class _Watched(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        if details.method.endswith(_RELEASES):
            return continuation(details, request)
        _ask(before=True)
        answer = continuation(details, request)
        answer.exception()  # Waits for it.
        _ask(before=False)
        return answer

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        _ask(before=True)
        return _Answers(continuation(details, request))


class _Answers:
    """The answers of a call, after each of which is looked."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __iter__(self) -> _Answers:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._call)
        finally:
            _ask(before=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


def _ask(*, before: bool) -> None:
    for watcher in list(_watchers):
        watcher[0 if before else 1]()


@contextmanager
def calls_watched(before: Check, after: Check) -> Iterator[None]:
    """Look before and after each call of this process, on channels that `watch_channels` saw."""
    watcher = (before, after)
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def watch_channels() -> None:
    """See to it that channels which this process opens from now on can be watched."""
    for name in ("secure_channel", "insecure_channel"):
        open_channel = getattr(grpc, name)

        def opened(*args: Any, _open: Any = open_channel, **named: Any) -> Any:
            return grpc.intercept_channel(_open(*args, **named), _Watched())

        setattr(grpc, name, opened)
