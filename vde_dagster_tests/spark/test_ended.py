"""What is said when Spark's JVM is gone, told from its process and from what it wrote."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from vde_dagster.errors import ExecutionError, StoreError
from vde_dagster.spark import sessions
from vde_dagster.spark.session import jvm_failure
from vde_dagster.spark.session.failures import execution_error
from vde_dagster.spark.session.jvm_failure import LaunchedJvm, forget_ended, has_ended, remember
from vde_dagster.spark.session.settings import WarmSettings, context_config
from vde_dagster.spark.session.warm import WarmEngine, exit_code_path, log_path
from vde_dagster_tests.conftest import small_spark

REFUSED = ConnectionRefusedError(111, "Connection refused")
OUT_OF_MEMORY = "Terminating due to java.lang.OutOfMemoryError: Java heap space\n"


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the JVM that tests share where it is noted."""
    monkeypatch.setattr(jvm_failure, "_current_jvm", [])


def launched(tmp_path: Path, code: str, log: str = "", *, local: bool = True) -> LaunchedJvm:
    """Note a process in the JVM's place."""
    (tmp_path / "spark.log").write_text(log)
    process = subprocess.Popen([sys.executable, "-c", code])
    found = LaunchedJvm(process, tmp_path / "spark.log", "700m", local)
    remember(found)
    return found


def told(error: Exception) -> StoreError:
    """Return what is raised in place of an error."""
    raised = execution_error(error, "db.big failed")
    assert type(raised) is StoreError
    return raised


def test_memory_is_named_with_what_to_set(tmp_path: Path) -> None:
    launched(tmp_path, "raise SystemExit(3)", f"starting\n{OUT_OF_MEMORY}")
    raised = told(Py4JNetworkError("Answer from Java side is empty"))
    assert raised.message == (
        "Spark ran out of memory and was ended: its JVM, in which tasks run, has 700m "
        "(Java heap space)"
    )
    assert raised.hint is not None
    assert "spark.driver.memory under [tool.vde.spark.config]" in raised.hint
    assert str(tmp_path / "spark.log") in raised.hint


def test_on_a_cluster_it_is_the_driver(tmp_path: Path) -> None:
    launched(tmp_path, "raise SystemExit(3)", OUT_OF_MEMORY, local=False)
    assert told(REFUSED).message.startswith("Spark's driver ran out of memory")


def test_a_kill_from_outside_is_told_from_an_end_of_its_own(tmp_path: Path) -> None:
    one = launched(tmp_path, "import time; time.sleep(60)")
    one.process.send_signal(signal.SIGKILL)
    one.process.wait()
    assert "SIGKILL" in told(REFUSED).message
    launched(tmp_path, "raise SystemExit(1)").process.wait()
    assert "exit code 1" in told(REFUSED).message


def test_the_error_that_ended_spark_is_quoted_from_its_log(tmp_path: Path) -> None:
    log = (
        "26/11/28 22:15:18 ERROR SparkUncaughtExceptionHandler: Uncaught exception in thread "
        "Thread[#91,Executor task launch worker-1,5,main]\n"
        "java.lang.VirtualMachineError: Out of space in CodeCache for adapters\n\tat java.base/x\n"
    )
    launched(tmp_path, "raise SystemExit(50)", log).process.wait()
    assert told(REFUSED).message == (
        "Spark's JVM stopped unexpectedly (exit code 50): "
        "java.lang.VirtualMachineError: Out of space in CodeCache for adapters"
    )


def test_code_that_spark_compiles_has_room_for_sessions_that_last(tmp_path: Path) -> None:
    """One compiler alone reserves 48 MB, which ten minutes of work fill."""
    options = context_config(small_spark(tmp_path))["spark.driver.defaultJavaOptions"].split()
    assert "-XX:ReservedCodeCacheSize=512m" in options


def test_an_engines_end_explains_the_errors_of_its_own_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_failure, "_END_SECONDS", 0.1)
    monkeypatch.setattr(sessions, "has_own_jvm", lambda: False)
    monkeypatch.setattr(sessions, "start_session", lambda *_: MagicMock())
    folders = [tmp_path / "one", tmp_path / "two"]
    engines = {
        folder: WarmEngine(pid, pid, 1, "token", "digest", time.time())
        for pid, folder in enumerate(folders, 1)
    }
    monkeypatch.setattr(sessions, "join_engine", lambda _, warm, **__: engines[warm.folder])
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        threads = dict(zip(folders, (first, second), strict=True))
        records = {}
        for folder, engine in engines.items():
            folder.mkdir()
            records[folder] = engine.write(folder)
            warm = WarmSettings(folder, by_itself=True, idle_seconds=60)
            opened = sessions.Sessions(replace(small_spark(folder), warm=warm))
            threads[folder].submit(lambda opened=opened: opened.shared).result()
        ended, other = folders
        log_path(ended, 1).write_text(OUT_OF_MEMORY)
        exit_code_path(ended, 1).write_text("3")
        records[ended].close()
        raised = threads[ended].submit(told, REFUSED).result()
        assert raised.message.startswith("Spark ran out of memory")
        raised = threads[other].submit(execution_error, REFUSED, "db.big").result()
        assert isinstance(raised, ExecutionError)
        records[other].close()


def test_what_fails_while_spark_lives_is_the_models_own_failure(tmp_path: Path) -> None:
    one = launched(tmp_path, "import time; time.sleep(60)", OUT_OF_MEMORY)
    try:
        assert not has_ended()
        assert isinstance(execution_error(ValueError("of the model"), "db.big"), ExecutionError)
    finally:
        one.process.kill()
        one.process.wait()


@pytest.mark.parametrize(
    ("code", "log", "lacks"),
    [
        ("raise SystemExit(3)", OUT_OF_MEMORY, True),
        ("raise SystemExit(52)", "", True),
        ("raise SystemExit(137)", "", True),
        ("import os; os.kill(os.getpid(), 9)", "", True),
        ("raise SystemExit(1)", "", False),
    ],
)
def test_ends_for_memory_are_told_from_others_also_when_the_next_jvm_is_there(
    code: str, log: str, lacks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_failure, "_last_end", [])
    for name in ("_active_spark_context", "_gateway", "_jvm"):  # Of the JVM that tests share.
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    launched(tmp_path, code, log).process.wait()
    at_once = told(REFUSED)
    assert at_once.lacks_memory == lacks
    forget_ended()
    next_one = launched(tmp_path, "import time; time.sleep(60)")
    monkeypatch.setattr(jvm_failure, "_END_SECONDS", 0.1)
    try:
        later = told(REFUSED)
        assert (later.message, later.lacks_memory) == (at_once.message, lacks)
    finally:
        next_one.process.kill()
        next_one.process.wait()


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("Job aborted … java.lang.OutOfMemoryError: Java heap space", True),
        ("ExecutorLostFailure … Reason: Command exited with code 52", True),
        ("The executor with id 1 exited with exit code 137(SIGKILL, possible container OOM)", True),
        ("Container from a bad node … Exit status: 137. Diagnostics", True),
        ("Container killed by YARN for exceeding physical memory limits. 5.5 GB used", True),
        ("ExecutorLostFailure … Reason: Command exited with code 1", False),
        ("[DIVIDE_BY_ZERO] Division by zero in order 137", False),
    ],
)
def test_work_of_executors_that_lacked_memory_is_told_from_other_failures(
    text: str, lacks: bool
) -> None:
    assert execution_error(RuntimeError(text), "db.big").lacks_memory == lacks


def test_users_can_turn_it_off(tmp_path: Path) -> None:
    """Spark puts the default options before the users' own, and Java takes the last one."""
    off = {"spark.driver.extraJavaOptions": "-XX:-ExitOnOutOfMemoryError"}
    config = context_config(replace(small_spark(tmp_path), config=off))
    assert "-XX:+ExitOnOutOfMemoryError" in config["spark.driver.defaultJavaOptions"].split()
    assert off.items() <= config.items()
