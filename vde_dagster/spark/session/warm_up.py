"""What a warm engine does while nobody asks it for anything: it makes itself and the next fast."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.spark.jvm.class_data import archive_of, make_archive
from vde_dagster.spark.jvm.exercise import exercise
from vde_dagster.spark.jvm.known_start import KnownStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_ROUNDS = 3
_IDLE_SECONDS = 1.0
"""After how long without a statement it does the next of its own."""
_ARCHIVE_SECONDS = 20.0
"""After how long without one it archives its classes, which then are those of real work."""
_LOOK_SECONDS = 0.1
_END_SECONDS = 5.0


class WarmUp(threading.Thread):
    """Exercises the JVM of this process, and archives its classes where no archive is there.

    Args:
        session: A session that nobody else uses.
        folder: Where its tables lie meanwhile.
        idle_seconds: Says for how long no statement of others ran.
        known: The start by which the JVM was started; None where Spark's scripts did it.
    """

    def __init__(
        self,
        session: SparkSession,
        folder: Path,
        idle_seconds: Callable[[], float],
        known: KnownStart | None,
    ) -> None:
        super().__init__(name="vde-warm-up", daemon=True)
        self._session, self._folder = session, folder
        self._idle_seconds, self._known = idle_seconds, known
        self._ending = threading.Event()

    def run(self) -> None:
        """Do it, a statement at a time."""
        try:
            exercise(self._session, self._folder, _ROUNDS, lambda: self._is_free(_IDLE_SECONDS))
            jvm: Any = self._session._jvm
            jvm.java.lang.System.gc()  # It gives back the memory that this took.
            known = self._known
            if known is None or archive_of(known).exists() or not self._is_free(_ARCHIVE_SECONDS):
                return
            make_archive(known, jvm)
        except Exception:  # It serves whatever happens here.
            if not self._ending.is_set():
                logger.warning("warming up ended early", exc_info=True)

    def _is_free(self, seconds: float) -> bool:
        """Wait until nobody asked for anything for some time; False where it is to end."""
        while self._idle_seconds() < seconds:
            if self._ending.wait(_LOOK_SECONDS):
                return False
        return not self._ending.is_set()

    def end(self) -> None:
        """Begin no further statement, and remove what there is of the last ones."""
        self._ending.set()
        if self.is_alive():
            self.join(_END_SECONDS)
