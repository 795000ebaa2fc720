"""Work in a thread: its events arrive in order, its errors after them, and it can be stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.execution.events import ModelFailed
from vde_dagster.orchestration.events.applying import stream_events

LOCATION = SourceLocation(Path("models/a.sql"))


def event(name: str) -> ModelFailed:
    return ModelFailed(ModelName("a", name), ValueError(), ())


def test_events_come_in_order_in_the_callers_thread_and_the_result_last() -> None:
    result: Future[str] = Future()

    def work(put: Callable[[Any], None]) -> str:
        assert threading.current_thread() is not threading.main_thread()
        put(event("one"))
        put(event("two"))
        return "done"

    found = [e.name.name for e in stream_events(work, lambda: None, result)]  # type: ignore[union-attr]
    assert found == ["one", "two"]
    assert result.result() == "done"


def test_an_error_is_raised_after_the_last_event() -> None:
    def work(put: Callable[[Any], None]) -> None:
        put(event("one"))
        raise ValueError("no")

    stream = stream_events(work, lambda: None, Future())
    assert next(stream).name.name == "one"  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="no"):
        next(stream)


def test_an_interrupt_cancels_until_the_work_has_ended() -> None:
    stop, begun = threading.Event(), threading.Event()
    calls = []

    def work(put: Callable[[Any], None]) -> None:
        time.sleep(0.5)  # what is to be cancelled is not yet there
        begun.set()
        put(event("one"))
        stop.wait(20)

    def cancel() -> None:
        calls.append(begun.is_set())
        if begun.is_set():
            stop.set()

    stream = stream_events(work, cancel, Future())
    start = time.monotonic()
    next(stream)
    stream.close()
    assert stop.is_set()
    assert time.monotonic() - start < 10
