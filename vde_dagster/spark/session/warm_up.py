"""Warming up an idle engine by building a small project, and archiving the classes of its JVM."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.spark.jvm.class_list import ClassList
from vde_dagster.spark.jvm.local_files import use_plain_files
from vde_dagster.spark.session.connect_service import EXERCISE_USER, ConnectService
from vde_dagster.spark.session.warm import environment_without_client

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)

_EXERCISE = "vde_dagster.execution.exercise"
_ROUNDS = 3
_TRIES = 3
"""Maximum number of attempts; each ends early if a user needs the engine."""
_IDLE_SECONDS = 1.0
"""Seconds without users' statements before the warm-up begins."""
_ARCHIVE_SECONDS = 20.0
"""Seconds without users' statements before the classes in use are archived."""
_POLL_SECONDS = 0.1
_END_SECONDS = 5.0


def exercise_environment() -> dict[str, str]:
    """Return the warm-up project's environment, without `VDE_…` variables."""
    before = environment_without_client()
    return {key: value for key, value in before.items() if not key.startswith("VDE_")}


class WarmUp(threading.Thread):
    """A thread that warms up this process's JVM, and archives its classes if needed.

    Args:
        folder: Place for the project that the warm-up builds.
        listed: The list of the JVM's classes, or None if no archive will be made.
    """

    def __init__(
        self,
        context: SparkContext,
        master: str,
        folder: Path,
        service: ConnectService,
        listed: ClassList | None,
    ) -> None:
        super().__init__(name="vde-warm-up", daemon=True)
        self._context, self._master, self._folder = context, master, folder
        self._service, self._listed = service, listed
        self._ending = threading.Event()

    def run(self) -> None:
        """Build a small project, then archive the classes that the JVM has loaded.

        Each of the two steps waits until Spark is idle.
        """
        try:
            use_plain_files(self._context)
            for _ in range(_TRIES):
                if not self._wait_until_idle(_IDLE_SECONDS) or self._exercise():
                    break
            jvm: Any = self._context._jvm
            jvm.java.lang.System.gc()  # Releases the memory that this took.
            if self._listed is not None and self._wait_until_idle(_ARCHIVE_SECONDS):
                self._listed.archive_in_background()
                self._listed = None  # The process that makes the archive removes the list.
        except Exception:  # The engine keeps serving whatever happens here.
            if not self._ending.is_set():
                logger.warning("warming up ended early", exc_info=True)

    def _exercise(self) -> bool:
        """Build a project in another process. Return False if a user needed the engine."""
        request = {
            "folder": str(self._folder),
            "master": f"{self._master};user_id={EXERCISE_USER}",
            "rounds": _ROUNDS,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", _EXERCISE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=exercise_environment(),
            text=True,
        )
        try:
            assert process.stdin is not None
            with process.stdin:
                process.stdin.write(json.dumps(request))
            while process.poll() is None:
                if (
                    self._ending.wait(_POLL_SECONDS)
                    or self._service.users_idle_seconds() < _IDLE_SECONDS
                ):
                    return False
            assert process.stderr is not None
            if process.returncode:
                output = process.stderr.read().strip().splitlines()
                logger.warning(
                    "warming up failed: %s", output[-1] if output else process.returncode
                )
            return True
        finally:
            process.kill()
            process.wait()
            if not self._ending.is_set():
                self._service.close_exercise()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _wait_until_idle(self, seconds: float) -> bool:
        while self._service.users_idle_seconds() < seconds:
            if self._ending.wait(_POLL_SECONDS):
                return False
        return not self._ending.is_set()

    def end(self) -> None:
        """Stop the warm-up, and delete the small project's files."""
        self._ending.set()
        if self.is_alive():
            self.join(_END_SECONDS)
        listed = self._listed
        if listed is not None:
            listed.remove()
