"""The Spark Connect server within the JVM of this process: its address and its sessions."""

from __future__ import annotations

import time
from typing import Any

EXERCISE_USER = "vde-exercise"
"""User of the sessions that only warm up an engine, see `warm_up.py`."""
_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"


class ConnectService:
    """The Spark Connect server in this process's JVM, and the statements of its users.

    Methods raise Py4JError or OSError once the JVM has ended.
    """

    def __init__(self) -> None:
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm
        self._java = jvm.java.lang
        loader = self._java.Thread.currentThread().getContextClassLoader()
        kind = self._java.Class.forName(_SERVICE, True, loader)
        self._object = kind.getField("MODULE$").get(None)
        self._last_use = 0.0
        self.port = int(self._object.localPort())

    def idle_seconds(self) -> float:
        """Return the seconds since the last statement ended, or 0 while a statement runs."""
        running = self._object.listActiveExecutions()
        if not running.isLeft():
            return 0.0
        since: int = self._java.System.nanoTime() - running.swap().toOption().get()
        return since / 1e9

    def users_idle_seconds(self) -> float:
        """Return the seconds since a user's last statement, or 0 while such a statement runs."""
        now, running = time.time(), self._object.listActiveExecutions()
        executions = [] if running.isLeft() else _to_list(running.toOption().get())
        if any(one.userId() != EXERCISE_USER for one in executions):
            self._last_use = now
        for one in self._sessions():
            if one.userId() != EXERCISE_USER:
                last = one.lastAccessTimeMs() / 1000
                self._last_use = max(self._last_use, last)
        return now - self._last_use

    def close_exercise(self) -> None:
        """Close the sessions that warm up the engine, and cancel their statements."""
        for one in self._sessions():
            if one.userId() == EXERCISE_USER:
                self._object.sessionManager().closeSession(one.key(), False)

    def _sessions(self) -> list[Any]:
        return _to_list(self._object.sessionManager().listActiveSessions())


def _to_list(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]
