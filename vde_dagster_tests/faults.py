"""Failing on purpose at a named side effect, in this process or in one that a test starts."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError

from vde_dagster.errors import ExecutionError
from vde_dagster.state.db.database import TRANSACTION
from vde_dagster.state.db.effects import Clock, Effects, NoEffects, SystemClock

VARIABLE = "VDE_TEST_EFFECTS"
"""Environment variable with the JSON form of a `Fault` for a process that a test starts."""

Mode = Literal["kill_before", "kill_after", "fail_once", "fail_always", "lose_answer", "stall"]
MODES: tuple[Mode, ...] = (
    "kill_before",
    "kill_after",
    "fail_once",
    "fail_always",
    "lose_answer",
    "stall",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure to provoke.

    Args:
        point: The side effect's name; empty for none (the points are only listed).
        mode: What happens there.
        occurrence: At which passage of the point, from 1.
        stall_seconds: How long a stall lasts, on the injector's clock.
        log: A file that every passed point is appended to, one a line, or None.
    """

    point: str = ""
    mode: Mode = "kill_before"
    occurrence: int = 1
    stall_seconds: float = 0.0
    log: str | None = None


class ProcessKilled(BaseException):
    """Stands for SIGKILL where a test runs in one process: no handler may do work after it."""


class FaultInjector:
    """The port that makes one named side effect fail.

    Args:
        fault: What to provoke.
        clock: Whose time a stall spends.
        in_process: Raise `ProcessKilled` in place of a real SIGKILL.
    """

    def __init__(
        self, fault: Fault | None = None, clock: Clock | None = None, in_process: bool = False
    ) -> None:
        self.fault = fault or Fault()
        self.passed: list[str] = []
        self.fired = False
        self._clock = clock or SystemClock()
        self._in_process = in_process
        self._dead = False
        self._lock = threading.Lock()

    @classmethod
    def from_json(cls, text: str) -> FaultInjector:
        """Build an injector from the JSON object of a `Fault`."""
        return cls(Fault(**json.loads(text)))

    def at(self, point: str, detail: str = "") -> AbstractContextManager[None]:
        """Return a context that fails as the fault says."""
        return self._at(point)

    @contextmanager
    def _at(self, point: str) -> Iterator[None]:
        active = self._passes(point)
        mode = self.fault.mode
        if active and mode == "kill_before":
            self._kill()
        if active and mode in ("fail_once", "fail_always"):
            raise _failure(point)
        if active and mode == "stall":
            self._clock.sleep(self.fault.stall_seconds)
        yield
        if active and mode == "kill_after":
            self._kill()
        if active and mode == "lose_answer":
            raise _failure(point, lost=True)

    def _passes(self, point: str) -> bool:
        with self._lock:
            if self._dead:
                raise ProcessKilled(point)
            self.passed.append(point)
            if self.fault.log:
                with Path(self.fault.log).open("a", encoding="utf-8") as log:
                    log.write(point + "\n")
            if point != self.fault.point:
                return False
            count = self.passed.count(point)
            if self.fault.mode == "fail_always":
                active = count >= self.fault.occurrence
            else:
                active = count == self.fault.occurrence
            self.fired = self.fired or active
            return active

    def _kill(self) -> None:
        if not self._in_process:
            os.kill(os.getpid(), signal.SIGKILL)
        self._dead = True
        raise ProcessKilled(self.fault.point)


def effects_from_environment() -> Effects:
    """Return the port of a process that a test started, which fails as the variable says."""
    specification = os.environ.get(VARIABLE)
    return FaultInjector.from_json(specification) if specification else NoEffects()


def _failure(point: str, lost: bool = False) -> Exception:
    """Return what a real failure of this kind of effect would raise."""
    if " " in point and lost:  # a statement's: the connection is gone, and its transaction too
        broken = ConnectionResetError(f"the answer of {point} was lost (injected)")
        return OperationalError(point, None, broken, connection_invalidated=True)
    if " " in point or point.endswith(".commit"):
        if lost:
            cause: Exception = ConnectionResetError(f"the answer of {point} was lost (injected)")
        else:
            cause = sqlite3.OperationalError(f"{point}: database is locked (injected)")
        return OperationalError(point, None, cause)
    if point == "virtual_update.run":  # an engine's: what it raises is told apart by then
        return ExecutionError(f"{point} failed (injected)")
    return OSError(f"{point} failed (injected)")


_CHANGES = re.compile(
    r"""\s*(INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\s
    (?:(?:INTO|FROM|UNIQUE|TABLE|INDEX|IF|NOT|EXISTS)\s+)*["`]?(\w+)""",
    re.IGNORECASE | re.VERBOSE,
)


@event.listens_for(Engine, "before_cursor_execute")
def _before(
    conn: Connection, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
) -> None:
    """Let a transaction's statements pass the port as `<transaction>.<verb> <table>`."""
    effects, transaction = conn.get_execution_options().get(TRANSACTION, (NoEffects(), ""))
    change = None if isinstance(effects, NoEffects) else _CHANGES.match(statement)
    if change is None:
        return
    verb, table = change.groups()
    passage: AbstractContextManager[None] = effects.at(f"{transaction}.{verb.lower()} {table}")
    passage.__enter__()
    context.vde_passage = passage


@event.listens_for(Engine, "after_cursor_execute")
def _after(
    connection: Connection, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
) -> None:
    passage = getattr(context, "vde_passage", None)
    if passage is None:
        return
    try:
        passage.__exit__(None, None, None)
    except BaseException:
        # The connection is given up with its cursor open, which would keep SQLite's lock.
        cursor.close()
        raise
