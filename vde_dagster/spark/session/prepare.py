"""Preparing fast starts of Spark in advance, for example in an image."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from vde_dagster.errors import NoSparkError, UsageError
from vde_dagster.spark.jvm.class_data import archive_path
from vde_dagster.spark.jvm.class_list import failure_path
from vde_dagster.spark.jvm.known_start import StartCommand, start_path
from vde_dagster.spark.session.settings import (
    SessionSettings,
    WarmSettings,
    command_line_config,
    context_config,
)
from vde_dagster.spark.session.warm import join_engine, stop_engines

_POLL_SECONDS = 0.5
_MOST_SECONDS = 900.0


def prepare_starts(settings: SessionSettings) -> tuple[Path, bool]:
    """Create an archive of Spark's classes with a temporary engine, unless the archive exists.

    The archive makes later starts of Spark fast.

    Returns:
        The path of the archive, and whether this call created it.

    Raises:
        UsageError: With this configuration, only Spark's own scripts can start Spark.
        NoSparkError: Spark does not start, or cannot create an archive.
    """
    place = start_path(command_line_config(context_config(settings)))
    if place is None:
        raise UsageError(
            "only Spark's own scripts can start Spark with this configuration",
            hint="`vde help operations` lists the reasons: SPARK_CONF_DIR, spark.files, …",
        )
    with tempfile.TemporaryDirectory(prefix="vde-prepare-") as name:
        folder = Path(name)
        warm = WarmSettings(folder, by_itself=True, idle_seconds=_MOST_SECONDS)
        try:
            known = StartCommand.find(place)
            if known is None:
                join_engine(settings, warm, start=True)
                stop_engines(folder)
                known = StartCommand.find(place)
            if known is None:
                raise NoSparkError(
                    "the command that starts Spark here could not be stored",
                    hint=f"make {place.parent} writable, and Spark's folders readable",
                )
            archive = archive_path(known)
            if archive.exists():
                return archive, False
            failed = failure_path(archive)
            failed.unlink(missing_ok=True)
            engine = join_engine(settings, warm, start=True)
            assert engine is not None
            until = time.monotonic() + _MOST_SECONDS
            while not archive.exists():
                late = time.monotonic() > until
                if late or failed.exists() or not engine.is_alive(folder):
                    raise NoSparkError(
                        "this Java did not create an archive of Spark's classes",
                        hint="use OpenJDK 17 or newer; Spark also starts without an archive of its "
                        "classes",
                    )
                time.sleep(_POLL_SECONDS)
        finally:
            stop_engines(folder)
    return archive, True
