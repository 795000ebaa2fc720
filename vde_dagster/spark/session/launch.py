"""Starting a JVM with Spark: by a stored command, or by PySpark's scripts."""

from __future__ import annotations

import atexit
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from vde_dagster.errors import StoreError
from vde_dagster.spark.jvm.class_data import archive_options, archive_path
from vde_dagster.spark.jvm.class_list import ClassList
from vde_dagster.spark.jvm.known_start import StartCommand, start_path
from vde_dagster.spark.session.failures import hush_pyspark
from vde_dagster.spark.session.jvm_failure import LaunchedJvm, remember
from vde_dagster.spark.session.numpy_arguments import convert_numpy_only
from vde_dagster.spark.session.settings import command_line_config, describe_memory, is_local


def launch(
    config: dict[str, str], log_file: Path | None, *, archives: bool = False
) -> ClassList | None:
    """Start a JVM for this process, and Spark in the JVM.

    Args:
        config: Spark's configuration, which may contain secrets.
        log_file: File for the JVM's output; a temporary file if None.
        archives: Whether the JVM lists its loaded classes, if no archive of them exists.

    Returns:
        The list of classes, or None if no archive will be made.

    Raises:
        StoreError: The JVM does not start.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    pyspark = sys.modules.get("pyspark")
    gateway, listed = pyspark.SparkContext._gateway if pyspark else None, None
    if gateway is None:
        log_file = log_file or _temporary_log()
        gateway, listed = _launch_gateway(config, log_file, archives)
        if gateway.proc is not None:
            master = config["spark.master"]
            remember(LaunchedJvm(gateway.proc, log_file, describe_memory(config), is_local(master)))
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    hush_pyspark()
    convert_numpy_only()
    conf = SparkConf(loadDefaults=False).setAll(list(config.items()))
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)
    SparkSession.builder.config(conf=conf).getOrCreate()
    return listed


def _launch_gateway(
    config: dict[str, str], log_file: Path, archives: bool
) -> tuple[Any, ClassList | None]:
    """Start a JVM by its stored command, or else by Spark's scripts; return PySpark's gateway."""
    visible = command_line_config(config)
    place = start_path(visible)
    log_file.parent.mkdir(parents=True, exist_ok=True)
    stored = StartCommand.find(place) if place is not None else None
    if stored is not None and (started := _run_stored_command(stored, log_file, archives)):
        return started
    with package_lock(config):
        known = StartCommand.find(place) if place is not None else None
        if known is not None and known != stored:  # Another process stored it meanwhile.
            started = _run_stored_command(known, log_file, archives)
            if started is not None:
                return started
        return _run_scripts(visible, place, log_file), None


def _run_stored_command(
    known: StartCommand, log_file: Path, archives: bool
) -> tuple[Any, ClassList | None] | None:
    """Start a JVM by a stored command. Return None if the command fails."""
    sharing = archive_options(known)
    listed = ClassList.begin(known) if archives else None
    with log_file.open("wb") as log:
        started = known.start(log, *sharing, *(listed.options if listed else ()))
    if started is None:
        if sharing:  # A damaged archive can end a JVM.
            archive_path(known).unlink(missing_ok=True)
        if listed:
            listed.remove()
        return None
    from pyspark.java_gateway import launch_gateway

    with started.offer_to_pyspark():
        gateway = launch_gateway()
    gateway.proc = started.process
    return gateway, listed


def _run_scripts(visible: dict[str, str], place: Path | None, log_file: Path) -> Any:
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(visible.items()))
    try:
        with log_file.open("wb") as log:
            gateway = launch_gateway(conf, popen_kwargs={"stdout": log, "stderr": log})
    except PySparkRuntimeError as error:
        raise _launch_failure(log_file, visible["spark.master"]) from error
    if place is not None:
        StartCommand.store(place, gateway.jvm)
    return gateway


@contextmanager
def package_lock(config: Mapping[str, str]) -> Iterator[None]:
    """Hold a lock, so that only one process at a time downloads Spark's packages."""
    ivy = config.get("spark.jars.ivy")
    folder = Path(ivy) if ivy else Path.home() / ".ivy2.5.2"  # Spark's default.
    with ExitStack() as stack:
        # Ivy does not lock the jars that it downloads.
        with suppress(ImportError, OSError):  # Not on POSIX, or Ivy's folder is read-only.
            import fcntl

            folder.mkdir(parents=True, exist_ok=True)
            fcntl.flock(stack.enter_context((folder / "vde.lock").open("ab")), fcntl.LOCK_EX)
        yield


def _temporary_log() -> Path:
    handle, name = tempfile.mkstemp(prefix="vde-spark-", suffix=".log")
    os.close(handle)
    path = Path(name)
    atexit.register(path.unlink, missing_ok=True)
    return path


def _launch_failure(log_file: Path, master: str) -> StoreError:
    text = log_file.read_text(errors="replace")
    missing = re.findall(r"unresolved dependency: ([^:\s]+[^:]*)", text)
    if missing:
        return StoreError(
            "Spark's packages could not be downloaded: " + ", ".join(sorted(set(missing))),
            hint="check the network and the coordinates in spark.packages; or set "
            "VDE_JAR_CACHE to the directory of an earlier download",
        )
    found = re.search(r"^.*(?:Exception|Error).*(?:\n(?!\s*at ).+)?", text, re.M)
    reason = " ".join(found.group().split())[:300] if found else "it ended without a message"
    return StoreError(
        f"Spark did not start: {reason}",
        hint=f"the JVM's output is in {log_file}; the master is '{master}'",
    )
