"""A command does not wait until Spark has stopped: the JVM ends after it, and cleans up."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from vde_dagster.spark import sessions
from vde_dagster.spark.session import session as one_session
from vde_dagster.spark.session.settings import SessionSettings
from vde_dagster_tests.projects import ProjectFolder

SETTINGS = SessionSettings(
    catalog="vde", state_url="sqlite:///state.db", warehouse="file:///warehouse", master="local[2]"
)


def test_an_ending_process_does_not_wait_for_spark_that_still_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starting, may_start = threading.Event(), threading.Event()

    def start(*_: object) -> object:
        starting.set()
        assert may_start.wait(60)
        return SimpleNamespace()

    monkeypatch.setattr(sessions, "start_session", start)
    engine = sessions.Sessions(SETTINGS)
    thread = threading.Thread(target=lambda: engine.shared)
    thread.start()
    assert starting.wait(60)
    engine.close(process_ends=True)
    assert not may_start.is_set(), "it did not wait"
    may_start.set()
    thread.join()


@pytest.mark.parametrize("process_ends", [True, False])
def test_only_a_process_that_goes_on_stops_spark(
    process_ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []
    session = SimpleNamespace(sparkContext=SimpleNamespace(stop=lambda: stopped.append(True)))
    monkeypatch.setattr(one_session, "is_remote", lambda session: False)
    monkeypatch.setattr(one_session, "has_ended", lambda: False)
    monkeypatch.setattr(one_session, "_open_sessions", {id(session)})
    monkeypatch.setattr(one_session, "_started_here", True)
    one_session.stop_session(session, process_ends=process_ends)  # type: ignore[arg-type]
    assert bool(stopped) is not process_ends


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.spark
@pytest.mark.server
def test_the_jvm_of_a_command_ends_after_it_and_removes_its_folders(tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.mkdir()

    def vde(*words: str, code: int = 0) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", "vde_dagster.cli", *words, "--project", str(tmp_path / "shop")],
            env={**os.environ, "VDE_SPARK__WARM": "false", "SPARK_LOCAL_DIRS": str(local)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        return ended.stdout + ended.stderr

    wrong = "MODEL (name m.one, kind FULL); SELECT nothing FROM (SELECT 1 AS x)"
    folder = ProjectFolder(tmp_path / "shop", {"models/one.sql": wrong})
    # Spark starts before the plan is made, and the plan fails.
    failed = vde("apply", "prod", "--yes", code=2)
    assert "nothing" in failed
    assert failed.count("error:") == 1
    _wait_for_end_of_jvm(local)
    folder.write("models/one.sql", "MODEL (name m.one, kind FULL); SELECT 1 AS x")
    vde("apply", "prod", "--yes")
    assert "7" in vde("query", "prod", "SELECT x + 6 AS x FROM m.one")
    _wait_for_end_of_jvm(local)


def _wait_for_end_of_jvm(folder: Path) -> None:
    """Wait until no process has a folder in its environment, and the folder is empty."""
    until = time.monotonic() + 60
    while _processes_with(str(folder)) or any(folder.iterdir()):
        assert time.monotonic() < until, "its JVM still runs, or left folders"
        time.sleep(0.05)


def _processes_with(text: str) -> list[str]:
    """Find the processes whose environment has a text."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if text.encode() in (place / "environ").read_bytes():
                found.append(place.name)
    return found
