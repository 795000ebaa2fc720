"""Worker processes: what they get and return, however large it is."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from vde_dagster.base import workers as workers_module
from vde_dagster.base.workers import Results, Workers

LARGE = 3_000_000
"""Bytes of a request or result; a pipe holds 64 KB, or 1 MB where it can be enlarged."""


def wait_and_echo(request: tuple[str, bytes]) -> list[bytes | None]:
    """Return the request's bytes when the file has been created. Runs in a worker."""
    file, data = request
    while file and not Path(file).exists():
        time.sleep(0.01)
    return [data]


def all_results(workers: Workers) -> list[Results]:
    found: list[Results] = []
    while workers.busy:
        found += workers.receive(wait=True)
    return found


def test_large_requests_are_sent_while_the_worker_is_busy(tmp_path: Path) -> None:
    file = tmp_path / "go on"
    with Workers(2) as workers:
        workers.start()

        def send() -> None:
            for number, where in enumerate((str(file), "", "")):
                data = bytes([number]) * LARGE
                workers.send(0, wait_and_echo, (where, data), [number])

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        sender.join(60)
        assert not sender.is_alive(), "sending waits for the worker"
        assert workers.receive(wait=False) == []
        file.touch()
        found = all_results(workers)
    assert [(one.items, one.values) for one in found] == [
        ([number], [bytes([number]) * LARGE]) for number in range(3)
    ]


def test_requests_of_an_ended_worker_come_back_without_results() -> None:
    with Workers(2) as workers:
        workers.start()
        workers.send(0, wait_and_echo, ("", b"first"), ["first"])
        assert all_results(workers)[0].values == [b"first"]
        (worker,) = workers._workers
        worker._process.kill()
        worker._process.wait()
        workers.send(0, wait_and_echo, ("", b"x" * LARGE), ["second", "third"])
        (found,) = all_results(workers)
    assert (found.items, found.values) == (["second", "third"], [None, None])


def test_closing_ends_workers_with_waiting_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "_SECONDS_TO_END", 0.2)
    workers = Workers(2)
    workers.start()
    (worker,) = workers._workers
    for number in range(3):
        workers.send(0, wait_and_echo, (str(tmp_path / "never"), b"x" * LARGE), [number])
    workers.close()
    assert worker._process.returncode is not None
    worker._reader.join(60)
    assert not worker._reader.is_alive()
