"""Counting from outside what a process does that outlives it, and letting it die between two of it.

What Python does passes the port `state.effects`. What Spark does is seen in the catalog: whenever a
call of the JVM returns and a table's pointer has moved, that call was a step, whoever made it and
however it is written. So no strategy says what its steps are, and none can be forgotten.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vde_dagster.spark.session.connect import is_remote
from vde_dagster_tests.faults import ProcessKilled

_FORGET = "m\n"
"""How py4j's commands begin that tell the JVM of objects which Python has no more."""


class Steps:
    """The port of a process that is watched, and dies behind a step.

    Args:
        database: The SQLite file with state and catalog.
        last: The number of the step behind which it dies, from 1; None to live.
    """

    def __init__(self, database: Path, last: int | None = None) -> None:
        self.taken: list[str] = []
        self.dead = False
        self._last = last
        self._lock = threading.RLock()
        self._database = sqlite3.connect(database, check_same_thread=False)
        self._version = 0
        self._pointers: dict[str, str] = {}
        self._moved()

    @contextmanager
    def at(self, point: str, detail: str = "") -> Iterator[None]:
        """Let a side effect of Python's happen; what a transaction has not committed is none."""
        self._live()
        yield
        if " " not in point:
            with self._lock:
                self._moved()
                self._take(point)

    @contextmanager
    def watching(self, session: Any) -> Iterator[None]:
        """Look at the catalog after each call of a session's JVM, of which the dead make none."""
        if is_remote(session):
            from vde_dagster_tests.kinds.engine_calls import calls_watched

            with calls_watched(self._live, self._look):
                yield
            return
        client = session.sparkContext._gateway._gateway_client
        send = client.send_command

        def sending(command: str, *arguments: Any, **named: Any) -> Any:
            if command.startswith(_FORGET):
                return send(command, *arguments, **named)
            self._live()
            answer = send(command, *arguments, **named)
            self._look()
            return answer

        client.send_command = sending
        try:
            yield
        finally:
            del client.send_command

    def close(self) -> None:
        """Stop looking."""
        self._database.close()

    def _look(self) -> None:
        with self._lock:
            for moved in self._moved():
                self._take(moved)

    def _live(self) -> None:
        if self.dead:
            raise ProcessKilled("it is dead")

    def _take(self, name: str) -> None:
        self._live()
        self.taken.append(name)
        if len(self.taken) == self._last:
            self.dead = True
            raise ProcessKilled(name)

    def _moved(self) -> list[str]:
        """Return what changed in the catalog since the last look."""
        (version,) = self._database.execute("PRAGMA data_version").fetchone()
        if version == self._version:
            return []
        self._version = version
        sql = (
            "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables "
            "WHERE iceberg_type = 'TABLE'"
        )
        found = dict(self._database.execute(sql).fetchall())
        before, self._pointers = self._pointers, found
        return [
            f"spark.{_what(before.get(name), location)}"
            for name, location in found.items()
            if before.get(name) != location
        ]


def _what(before: str | None, after: str) -> str:
    """Say in a word or two what a commit did to a table."""
    if before is None:
        return "create_table"
    old, new = _load(before), _load(after)
    known = {item["snapshot-id"] for item in old.get("snapshots", ())}
    for item in new.get("snapshots", ()):
        if item["snapshot-id"] not in known:
            return f"commit_{item['summary']['operation']}"
    had, has = old.get("refs", {}), new.get("refs", {})
    if has.keys() - had.keys():
        return "create_branch"
    if had.keys() - has.keys():
        return "drop_branch"
    return "move_branch" if had != has else "change_table"


def _load(location: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(Path(location.removeprefix("file:")).read_bytes())
    return parsed
