"""Making starts of Spark fast before anybody waits for one: in an image, say."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from vde_dagster.errors import NoSparkError, UsageError
from vde_dagster.spark.jvm.class_data import archive_of
from vde_dagster.spark.jvm.known_start import KnownStart, place_of
from vde_dagster.spark.session.settings import (
    SessionSettings,
    WarmSettings,
    command_line_config,
    context_config,
)
from vde_dagster.spark.session.warm import join_engine, stop_engines

_LOOK_SECONDS = 0.5
_MOST_SECONDS = 900.0


def prepare_starts(settings: SessionSettings) -> tuple[Path, bool]:
    """Return the archive of classes for a project's Spark, and whether it had to be made.

    It is made by an engine of its own, and this process becomes its client.

    Raises:
        UsageError: Spark's scripts do more here than to start a JVM.
        NoSparkError: Spark does not start, or cannot make an archive.
    """
    place = place_of(command_line_config(context_config(settings)))
    if place is None:
        raise UsageError(
            "Spark's own scripts start it here, as they read more than the project's settings",
            hint="docs/operations.md says what that is: SPARK_CONF_DIR, spark.files, …",
        )
    with tempfile.TemporaryDirectory(prefix="vde-prepare-") as name:
        folder = Path(name)
        warm = WarmSettings(folder, by_itself=True, idle_seconds=_MOST_SECONDS)
        try:
            known = KnownStart.find(place)
            if known is None:
                join_engine(settings, warm, start=True)
                stop_engines(folder)
                known = KnownStart.find(place)
            if known is None:
                raise NoSparkError(
                    "how Spark starts here cannot be kept",
                    hint=f"see that {place.parent} can be written, and Spark's folders read",
                )
            archive = archive_of(known)
            if archive.exists():
                return archive, False
            engine = join_engine(settings, warm, start=True)
            assert engine is not None
            until = time.monotonic() + _MOST_SECONDS
            while not archive.exists():
                if time.monotonic() > until or not engine.is_alive(folder):
                    raise NoSparkError(
                        "this Java made no archive of Spark's classes",
                        hint="Java 17 and newer of OpenJDK can; Spark starts without it as before",
                    )
                time.sleep(_LOOK_SECONDS)
        finally:
            stop_engines(folder)
    return archive, True
