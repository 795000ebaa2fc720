"""Sessions of Spark Connect that were closed: replaced, and no obstacle to a cancel."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException

from vde_dagster.spark import sessions
from vde_dagster.spark.session.jobs import PlanJobs
from vde_dagster.spark.sessions import Sessions
from vde_dagster_tests.spark.test_settings import settings


class Remote:
    """A session on a server that may have closed it."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self, *_: object) -> None:
        self.conf, self.closed, self.asked = self, False, 0
        self.interrupted: list[str] = []

    def get(self, key: str) -> str:
        self.asked += 1
        if self.closed:
            raise PySparkException("[INVALID_HANDLE.SESSION_CLOSED] The handle is invalid.")
        return key

    def stop(self) -> None:
        """Do nothing."""

    def interruptTag(self, tag: str) -> None:
        if self.closed:
            raise ValueError("Cannot invoke RPC on closed channel!")
        self.interrupted.append(tag)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    for name in ("start_session", "new_session"):
        monkeypatch.setattr(sessions, name, Remote)
    return Sessions(settings(master="sc://spark.example"))


def test_a_closed_shared_session_is_replaced_and_the_server_asked_once_a_minute(
    made: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: Any = made.shared
    assert made.shared is first
    assert first.asked == 0
    monkeypatch.setattr(sessions, "PROBE_SECONDS", 0.0)
    assert made.shared is first
    first.closed = True
    assert made.shared is not first


def test_closed_private_and_guest_sessions_are_replaced(made: Sessions) -> None:
    with made.private(reuse=True) as private:
        pass
    with made.private(reuse=True) as again:
        assert again is private
    guest: Any = made.guest
    assert made.guest is guest
    for one in (private, guest):
        one.closed = True  # type: ignore[attr-defined]
    with made.private(reuse=True) as again:
        assert again is not private
    assert made.guest is not guest


def test_a_session_that_closes_meanwhile_does_not_keep_a_cancel_from_the_others() -> None:
    closed, running = Remote(), Remote()
    closed.closed = True
    jobs: Any = PlanJobs()
    jobs._remote = [("plan", closed), ("plan", running), ("another", Remote())]
    jobs._running["plan"] = 1
    assert not jobs.cancel(running, "plan", 0.0)
    assert running.interrupted == ["vde-plan-plan"]
