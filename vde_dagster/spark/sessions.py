"""One engine's sessions: a shared one, and private ones for work that changes session state."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from vde_dagster.base.installing import how_to_install
from vde_dagster.errors import NoSparkError, StoreError
from vde_dagster.spark.jvm.local_files import use_plain_files
from vde_dagster.spark.session.compiling import Compiling
from vde_dagster.spark.session.connect import has_client, is_remote, was_closed
from vde_dagster.spark.session.jvm_failure import (
    LaunchedJvm,
    engine_jvm,
    has_own_jvm,
    is_gone,
    use_engine,
)
from vde_dagster.spark.session.session import (
    new_session,
    require_spark,
    start_session,
    stop_session,
)
from vde_dagster.spark.session.settings import SessionSettings, WarmSettings, is_local
from vde_dagster.spark.session.usage import UNKNOWN, Usage, read_usage
from vde_dagster.spark.session.warm import EngineProcess, WarmEngine, join_engine
from vde_dagster.spark.tables.iceberg import iceberg_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

RETRY_SECONDS = 10.0
"""Minimum seconds between a failed start of Spark and the next attempt.

Threads that need Spark in between get the same error at once.
"""

PROBE_SECONDS = 60.0
"""Seconds after which a server is asked again whether it has closed the shared session."""


class Sessions:
    """Starts Spark when it is first needed, and lends sessions."""

    def __init__(
        self, settings: SessionSettings, join: Callable[[], SparkSession] | None = None
    ) -> None:
        self._settings = self._joined = settings
        self._join = join
        self._engine: EngineProcess | None = None
        self._engine_jvm: LaunchedJvm | None = None
        self._lock = threading.Lock()
        self._given_up = threading.Event()
        self._shared: SparkSession | None = None
        self._probed = 0.0
        self._guest: SparkSession | None = None
        self._guests = ExitStack()
        self._idle: list[SparkSession] = []
        self._failed: tuple[float, StoreError] | None = None
        self._preparing = threading.Lock()
        self._prepared: SparkSession | None = None
        self._compiling = Compiling(settings.config)

    @property
    def started(self) -> SparkSession | None:
        """The shared session if Spark was started, else None."""
        return self._shared

    @property
    def shared(self) -> SparkSession:
        """The shared session, for work that leaves it unchanged. Replaced after its end."""
        with self._lock:
            known = self._shared
            if known is not None and not self._join and self._is_gone(known):
                self._shared = self._guest = None
                self._guests.close()
                self._idle.clear()
            if self._shared is None:
                if self._failed and time.monotonic() - self._failed[0] < RETRY_SECONDS:
                    raise self._failed[1]
                try:
                    with ExitStack() as joining:
                        self._join_engine(joining)
                        use_engine(self._engine_jvm)
                        self._shared = start_session(self._joined, self._join)
                        self._probed = time.monotonic()
                except StoreError as error:
                    self._failed = (time.monotonic(), error)
                    raise
            use_engine(self._engine_jvm)
            return self._shared

    def prepare_writes(self) -> None:
        """Make Spark write local files without child processes, if tasks run in this JVM."""
        shared = self.shared
        with self._preparing:
            if self._prepared is shared:
                return
            self._prepared = shared
            own = self._join is None and not is_remote(shared)
            if own and is_local(self._settings.master) and os.name == "posix":
                use_plain_files(shared.sparkContext)

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Keep the joined warm engine running during several statements."""
        _ = self.shared
        with self._engine.keep_alive() if self._engine is not None else nullcontext():
            yield

    @property
    def has_lost_engine(self) -> bool:
        return self._engine is not None and self._engine.poll() is not None

    @property
    def guest(self) -> SparkSession:
        """The session for user code, which may change the session in any way."""
        shared = self.shared
        with self._lock:
            if self._guest is not None and is_remote(self._guest) and was_closed(self._guest):
                self._guest = None
                self._guests.close()
            if self._guest is None:
                self._guest = new_session(shared, self._joined)
                if self._engine is not None:  # Such code may compute between statements.
                    self._guests.enter_context(self._engine.keep_alive())
            return self._guest

    @contextmanager
    def private(self, *, reuse: bool) -> Iterator[SparkSession]:
        """Yield a session that no other thread uses meanwhile.

        `reuse` means that the block leaves the session unchanged, so that it can be lent again.
        """
        shared = self.shared
        with self._lock:
            # The first statement of a new session takes some hundred milliseconds.
            session = self._idle.pop() if self._idle else None
        if session is not None and is_remote(session) and was_closed(session):
            session = None
        if session is None:
            session = new_session(shared, self._joined)
        clean = False
        try:
            with self.kept_alive():
                yield session
            clean = reuse
        finally:
            if clean:
                with self._lock:
                    self._idle.append(session)
            else:
                self._close_catalog(session)

    @contextmanager
    def session_for(self, private: bool, reuse: bool) -> Iterator[SparkSession]:
        """Yield a session as `private` does, or else the shared session."""
        if private:
            with self.private(reuse=reuse) as session:
                yield session
        else:
            yield self.shared

    @contextmanager
    def using(self, session: SparkSession, *, small: bool = False) -> Iterator[None]:
        """Use a session for statements that read few rows (`small`), or any number of rows."""
        with nullcontext() if is_remote(session) else self._compiling.using(session, small=small):
            yield

    def usage(self, session: SparkSession, tag: str) -> Usage:
        """Return the usage of a tag's jobs; unknown on servers other than a warm engine."""
        if not is_remote(session):
            return read_usage(session.sparkContext, tag)
        return UNKNOWN if self._engine is None else self._engine.usage(tag)

    def close(self, *, process_ends: bool = False) -> None:
        """Release all sessions, and end a warm engine that is still starting.

        With `process_ends`, this does not wait for the end of a JVM that the process started: the
        JVM ends when the process closes the JVM's input.
        """
        self._given_up.set()
        warm = self._settings.warm
        if process_ends and self._lock.locked() and (warm is None or not warm.by_itself):
            return  # It is still starting.
        with self._lock:
            self._given_up.clear()
            self._failed = None
            shared, self._shared = self._shared, None
            idle, self._idle = self._idle, []
            guest, self._guest = self._guest, None
            self._guests.close()
        if shared is None:
            return
        for session in [*idle, guest, shared]:
            if session is not None:
                self._close_catalog(session)
        # Spark ends with its last user.
        stop_session(shared, process_ends=process_ends)

    def _join_engine(self, joining: ExitStack) -> None:
        """Join the warm engine if the settings allow it. `joining` keeps the engine running."""
        had, self._joined, self._engine = self._engine, self._settings, None
        self._engine_jvm = None
        warm = self._settings.warm
        if warm is None or self._join is not None or has_own_jvm():
            return
        if not has_client():
            _warn_without_client()
            return
        # A process that joined an engine cannot start a JVM of its own.
        start = warm.by_itself or had is not None
        try:
            while (found := self._find_engine(warm, start)) is not None:
                engine = EngineProcess(found, warm.folder)
                with ExitStack() as alive:
                    alive.enter_context(engine.keep_alive())
                    if engine.accepts_users:  # Otherwise it is ending.
                        joining.push(alive.pop_all())
                        break
        except (NoSparkError, OSError) as error:
            if had is not None or self._given_up.is_set():
                raise
            logger.warning("Spark is started for this command alone: %s", error)
            return
        if found is not None:
            self._joined = replace(self._settings, master=found.master)
            self._engine = engine
            self._engine_jvm = engine_jvm(engine, self._settings)

    def _find_engine(self, warm: WarmSettings, start: bool) -> WarmEngine | None:
        found = join_engine(self._settings, warm, start=False)
        if found is None and start:
            require_spark(self._settings)
            given_up = self._given_up
            found = join_engine(self._settings, warm, start=True, given_up=given_up)
        return found

    def _is_gone(self, session: SparkSession) -> bool:
        if not is_remote(session):
            return is_gone(session)
        if self.has_lost_engine:
            return True
        if time.monotonic() - self._probed < PROBE_SECONDS:
            return False
        self._probed = time.monotonic()
        return was_closed(session)

    def _close_catalog(self, session: SparkSession) -> None:
        if is_remote(session):
            if session is not self._shared:
                session.stop()
            return
        if self._is_gone(session):
            return
        # Nothing else would close these connections.
        iceberg_catalog(session, self._settings.catalog).close()


@cache
def _warn_without_client() -> None:
    logger.warning(
        "Spark is started for this command alone, because PySpark's client of Spark Connect is "
        "not installed; %s",
        how_to_install(),
    )
