"""Unexpected ends of Spark's JVM: the cause and the remedy."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.errors import StoreError
from vde_dagster.spark.session.settings import (
    MEMORY,
    SessionSettings,
    context_config,
    describe_memory,
)
from vde_dagster.spark.session.warm import EngineProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MEMORY_HINT = f"give Spark more memory: {MEMORY} under [tool.vde.spark.config]"
_OUT_OF_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError: ?([^\r\n]*)")
_UNCAUGHT = re.compile(r"Uncaught exception in thread [^\r\n]*\r?\n([^\r\n]+)")
"""The error after which Spark's own handler ends a JVM with exit code 50."""
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
_OUT_OF_MEMORY_CODE = 52
"""Exit code of Spark's own handler in a JVM (`org.apache.spark.util.SparkExitCode`)."""
_END_SECONDS = 5.0
"""Time for a JVM to end after its last connection broke, in seconds."""
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class LaunchedJvm:
    """The JVM that this process started, or the JVM of the warm engine that it joined."""

    process: subprocess.Popen[bytes] | EngineProcess
    log_file: Path
    memory: str
    local: bool


_current_jvm: list[LaunchedJvm] = []
"""The JVM that this process started."""
_used_engine: ContextVar[LaunchedJvm | None] = ContextVar("used_engine", default=None)
"""The warm engine that this thread used last; each project may have its own warm engine."""
_last_end: list[StoreError] = []
"""Error for the previous JVM's end, which a thread may notice after the next JVM has started."""


def remember(launched: LaunchedJvm) -> None:
    """Remember the JVM that this process started, to explain its end later."""
    _current_jvm[:] = [launched]


def engine_jvm(process: EngineProcess, settings: SessionSettings) -> LaunchedJvm:
    """Return the JVM of the warm engine that this process joined."""
    return LaunchedJvm(process, process.log_file, describe_memory(context_config(settings)), True)


def use_engine(launched: LaunchedJvm | None) -> None:
    """Set the JVM whose end explains this thread's errors; None means the process's own."""
    _used_engine.set(launched)


def has_own_jvm() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


def has_ended() -> bool:
    """Return whether the JVM that this process started has ended."""
    return bool(_current_jvm) and _current_jvm[0].process.poll() is not None


def is_gone(session: SparkSession) -> bool:
    """Return whether the JVM of a session has ended or was replaced."""
    from pyspark import SparkContext

    return has_ended() or session.sparkContext is not SparkContext._active_spark_context


def forget_ended() -> None:
    """Reset PySpark after the end of its JVM, so that the next session starts a new JVM."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    _last_end[:] = [_end_error(_current_jvm.pop())]
    context = SparkContext._active_spark_context
    if context is not None:
        context._jsc = None  # Otherwise it would tell the JVM to stop.
        context.stop()
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    SparkSession._instantiatedSession = None
    if gateway is not None:
        with suppress(OSError, Py4JError):
            gateway.shutdown()


def ended_error(error: BaseException) -> StoreError | None:
    """Return the error that explains why the JVM ended, or None for other exceptions."""
    launched = _used_engine.get() or next(iter(_current_jvm), None)
    if launched is not None:
        if _is_broken_connection(error):
            with suppress(subprocess.TimeoutExpired):
                launched.process.wait(_END_SECONDS)
        if launched.process.poll() is not None:
            return _end_error(launched)
    return copy(_last_end[0]) if _last_end and _is_broken_connection(error) else None


def _end_error(launched: LaunchedJvm) -> StoreError:
    code = launched.process.returncode
    tail = _read_tail(launched.log_file)
    found = _OUT_OF_MEMORY.findall(tail)
    see = f"its output is in {launched.log_file}"
    lacks_memory = True
    if found or code == _OUT_OF_MEMORY_CODE:
        what = found[-1].strip() if found else ""
        who = "Spark" if launched.local else "Spark's driver"
        tasks = ", in which tasks run," if launched.local else ""
        message = f"{who} ran out of memory and was ended: its JVM{tasks} has {launched.memory}"
        message += f" ({what})" if what else ""
        hint = (
            f"{MEMORY_HINT}, or compute less at a time (batch_size, fewer batches at once); "
            f"{see}. Finished work is kept; apply again: vde apply ENV"
        )
    elif code in _KILLED:
        message = "Spark was killed (SIGKILL), which systems do when they run out of memory"
        hint = (
            f"see the system's log; lower {MEMORY} ({launched.memory}) if the machine or "
            "the container has less, then apply again: vde apply ENV; finished work is kept"
        )
    else:
        lacks_memory = False
        message = f"Spark's JVM stopped unexpectedly (exit code {code})"
        if uncaught := _UNCAUGHT.findall(tail):
            message += f": {uncaught[-1].strip()}"
        hint = f"{see}; finished work is kept; apply again: vde apply ENV"
    error = StoreError(message, hint=hint)
    error.lacks_memory = lacks_memory
    error.by_others = isinstance(launched.process, EngineProcess)
    return error


def _is_broken_connection(error: BaseException) -> bool:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        kind = type(current).__name__
        if isinstance(current, ConnectionError | EOFError) or kind == "Py4JNetworkError":
            return True
        code = getattr(current, "code", None)  # of gRPC
        if callable(code) and getattr(code(), "name", None) == "UNAVAILABLE":
            return True
        if kind == "SparkConnectGrpcException" and "UNAVAILABLE" in str(current):
            return True
        if kind == "Py4JError" and "Answer from Java side is empty" in str(current):
            return True
        current = current.__cause__ or current.__context__
    return False


def _read_tail(path: Path) -> str:
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - _READ_BYTES))
            return log.read().decode(errors="replace")
    except OSError:
        return ""
