"""CPU time of a run by file, and limits on what a fast test may do.

A limit counts processes and databases, never seconds, so it does not depend on the machine. The CPU
times are printed at the end of a run and fail nothing. Functions are wrapped instead of adding an
audit hook, which Python calls for every import and file, 4 % of the time of all fast tests.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest

SLOW = frozenset({"dagster", "long", "proof", "server", "spark"})
"""Markers of tests without limits."""
PROCESSES = 15
DATABASES = 100
"""How many processes a fast test may start, and how many files of SQLite it may open."""
_FILES = 10
_PRIVATE = frozenset({"", ":memory:"})
"""Names of databases that one connection has for itself, and that cost little."""
_STARTS = ((os, "fork"), (os, "forkpty"), (os, "posix_spawn"), (subprocess.Popen, "__init__"))


class SuiteBudget:
    """Plugin of pytest that counts what each test uses; workers of xdist send their counts."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.begun = self.opened = 0
        for owner, name in _STARTS:
            setattr(owner, name, self._counting(getattr(owner, name)))
        connect = sqlite3.connect

        @wraps(connect)
        def counted(database: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
            self.opened += database not in _PRIVATE
            return connect(database, *arguments, **options)

        sqlite3.connect = sqlite3.dbapi2.connect = counted

    def _counting(self, start: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that starts a process."""

        @wraps(start)
        def counted(*arguments: Any, **options: Any) -> Any:
            self.begun += 1
            return start(*arguments, **options)

        return counted

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Add the CPU time of a test to that of its file."""
        before = _cpu_seconds()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid.partition("::")[0]] += _cpu_seconds() - before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Fail a fast test that passes but exceeds a limit."""
        self.begun = self.opened = 0
        result = yield
        if not any(map(item.get_closest_marker, SLOW)):
            require_fast(self.begun, self.opened)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the counts of a worker, with those of imports and collection."""
        if hasattr(session.config, "workeroutput"):
            rest = _cpu_seconds() - sum(self.seconds.values())
            seconds = {**self.seconds, "(imports and collection)": rest}
            session.config.workeroutput["cpu_seconds"] = seconds

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the counts of a worker that ended."""
        self.seconds.update(getattr(node, "workeroutput", {}).get("cpu_seconds", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the CPU time of the whole run and of its slowest files."""
        if not self.seconds:
            return
        terminalreporter.write_line(f"{sum(self.seconds.values()):.0f} s of CPU in tests; slowest:")
        for file, seconds in self.seconds.most_common(_FILES):
            terminalreporter.write_line(f"{seconds:8.1f} s  {file}")


def require_fast(processes: int, databases: int) -> None:
    """Fail a test that started more processes or opened more databases than a fast one may."""
    if processes > PROCESSES or databases > DATABASES:
        pytest.fail(
            f"a fast test started {processes} processes (limit {PROCESSES}) and opened {databases} "
            f"databases (limit {DATABASES}): mark it `proof`, or split it"
        )


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its finished children."""
    return sum(os.times()[:4])
