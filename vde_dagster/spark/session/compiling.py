"""Spark's compilation of queries, turned off while a session runs only small fills.

Spark generates Java code for each query and compiles it. In a new JVM this takes longer than
running the query over few rows by Spark's interpreter, which returns the same rows.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OFF = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class Compiling:
    """Counts the users of each session, and turns its compilation off or on.

    Args:
        config: The project's Spark configuration. If it sets whether Spark compiles queries,
            nothing is changed.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._is_fixed = bool(config.keys() & _OFF)
        self._lock = threading.Lock()
        self._small, self._other = Counter[int](), Counter[int]()
        self._before: dict[int, dict[str, str]] = {}

    @contextmanager
    def using(self, session: SparkSession, *, small: bool) -> Iterator[None]:
        """Use a session. It compiles no queries while all its users are `small`."""
        if self._is_fixed:
            yield
            return
        users = self._small if small else self._other
        with self._lock:
            users[id(session)] += 1
        try:
            with self._lock:
                self._adapt(session)
            yield
        finally:
            with self._lock:
                users[id(session)] -= 1
                # Its JVM may have ended, of which the block has an error.
                with suppress(Exception):
                    self._adapt(session)

    def _adapt(self, session: SparkSession) -> None:
        key = id(session)
        if self._small[key] and not self._other[key]:
            if key not in self._before:
                self._before[key] = {name: str(session.conf.get(name)) for name in _OFF}
                for name, value in _OFF.items():
                    session.conf.set(name, value)
        elif before := self._before.pop(key, None):
            for name, value in before.items():
                session.conf.set(name, value)
