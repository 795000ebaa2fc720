"""Work in a thread: its events arrive in order, its errors after them, and it can be stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.execution.events import ModelFailed
from vde_dagster.orchestration.events.applying import Work, stream_events
from vde_dagster.orchestration.events.records import AssetEvent
from vde_dagster.orchestration.resource import lend
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.orchestration.conftest import run_job
from vde_dagster_tests.projects import ProjectFolder

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

    found = [e.name.name for _, e in stream_events(work, lambda: None, result)]  # type: ignore[union-attr]
    assert found == ["one", "two"]
    assert result.result() == "done"


def test_an_error_is_raised_after_the_last_event() -> None:
    def work(put: Callable[[Any], None]) -> None:
        put(event("one"))
        raise ValueError("no")

    stream = stream_events(work, lambda: None, Future())
    assert next(stream)[1].name.name == "one"  # type: ignore[union-attr]
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


def test_lines_of_the_log_have_the_times_of_their_events(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main thread is busy, for instance with earlier events, while the work goes on."""
    new_events = Work.new_events

    def slow(work: Work) -> Iterator[AssetEvent]:
        time.sleep(0.3)
        return new_events(work)

    monkeypatch.setattr(Work, "new_events", slow)
    text = "MODEL (name db.{}, kind FULL); SELECT 1{} AS n"
    parts = {"a": "", "b": " + 1 AS m FROM db.a", "c": " + 2 AS m FROM db.b"}
    files = {f"models/{name}.sql": text.format(name, read) for name, read in parts.items()}
    folder = ProjectFolder(tmp_path / "project", files)
    with open_fake(folder.root, FakeSpark(seconds=0.1)) as workspace, lend(workspace):
        config = {"environment": "prod"}
        ended = run_job(folder, instance, "vde_plan_and_apply", config, op="plan_and_apply")
    lines = {entry.user_message: entry.timestamp for entry in instance.all_logs(ended.run_id)}
    for name in parts:
        begun, filled = (
            next(at for line, at in lines.items() if line.startswith(f"db.{name}: {word}"))
            for word in ("filling", "2")
        )
        assert filled - begun >= 0.1, f"{name}: {lines}"
