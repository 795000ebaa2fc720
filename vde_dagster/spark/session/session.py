"""Starting Spark: one JVM per process, with separate sessions for each engine."""

from __future__ import annotations

import atexit
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vde_dagster.base.names import quote
from vde_dagster.errors import StoreError, UsageError
from vde_dagster.spark.jvm.java import check_java, require_pyspark
from vde_dagster.spark.session.connect import (
    check_master,
    connect,
    is_connect_url,
    is_remote,
    require_client,
    use_catalog,
)
from vde_dagster.spark.session.jvm_failure import forget_ended, has_ended, has_own_jvm
from vde_dagster.spark.session.settings import (
    SessionSettings,
    context_config,
    describe_memory,
    packages,
    session_config,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


logger = logging.getLogger(__name__)

_lock = threading.Lock()
_open_sessions: set[int] = set()
_started_here = False
_logged_settings: set[str] = set()
"""Settings that this process has logged as ignored."""

T = TypeVar("T")


def start_session(
    settings: SessionSettings, join: Callable[[], SparkSession] | None = None
) -> SparkSession:
    """Create a session for a project. The first call starts the process's only JVM.

    The JVM's output goes to `settings.log_file`. Sessions share the JVM, each with its own catalog,
    configuration and views. If `join` is given, the new session uses the JVM of the session that
    `join` returns.
    """
    with _lock:
        session = _call_in_thread(lambda: _start(settings, join))
        _open_sessions.add(id(session))
        return session


def require_spark(settings: SessionSettings) -> None:
    """Raise NoSparkError if Spark cannot be started or reached, without starting it."""
    require_pyspark()
    if is_connect_url(settings.master):
        require_client(settings.master)
        check_master(settings.master)
        return
    check_master(context_config(settings)["spark.master"])
    pyspark = sys.modules.get("pyspark")
    if pyspark is None or pyspark.SparkContext._gateway is None:
        check_java()


def new_session(root: SparkSession, settings: SessionSettings) -> SparkSession:
    """Create a session in the same JVM or server, with a project's catalog and settings."""
    session = connect(settings) if is_remote(root) else root.newSession()
    _configure(session, settings)
    return session


def _configure(session: SparkSession, settings: SessionSettings) -> None:
    """Configure a new session, and warn once about settings that need a new JVM."""
    from pyspark.errors import PySparkException

    # A server needs one call per setting; for Spark in this process one batch is slower.
    known = session.conf.getAll if is_remote(session) else session.conf
    for key, value in session_config(settings).items():
        if known.get(key, None) == value:
            continue
        try:
            session.conf.set(key, value)
        except PySparkException as error:
            if "CANNOT_MODIFY" not in str(error):
                raise
            if key not in _logged_settings:
                _logged_settings.add(key)
                logger.warning("%s is ignored: Spark was already started without it", key)
    # Spark loads a catalog by the configuration of the thread's active session, which is this one
    # only inside of `sql`; later calls of Iceberg's API find it loaded.
    if is_remote(session):
        use_catalog(session, settings)
    else:
        session.sql(f"USE {quote(settings.catalog)}")


def stop_session(session: SparkSession, *, process_ends: bool = False) -> None:
    """Release a session. The last session of a JVM that this process started stops Spark.

    With `process_ends`, the JVM stops Spark after the process has ended.
    """
    global _started_here
    with _lock:
        _open_sessions.discard(id(session))
        if is_remote(session):
            session.stop()
            return
        if not _open_sessions and _started_here:
            if not has_ended() and not process_ends:
                session.sparkContext.stop()
            _started_here = False


def _start(settings: SessionSettings, join: Callable[[], SparkSession] | None) -> SparkSession:
    global _started_here
    if settings.iceberg.database is not None:
        Path(settings.iceberg.database).parent.mkdir(parents=True, exist_ok=True)
    if join is None and is_connect_url(settings.master):
        require_spark(settings)
        session = connect(settings)
        _configure(session, settings)
        return session
    if join is not None:
        root = join()
        if is_remote(root):
            raise UsageError(
                "the session to join is a Spark Connect session, which has no JVM to join",
                hint="set `master` under [tool.vde.spark] to the server's sc://… URL instead",
            )
        check_catalog(root.conf.getAll, settings)
    else:
        if has_ended():
            forget_ended()
            _open_sessions.clear()
        if not has_own_jvm():
            _launch(settings)
            _started_here = True
        from pyspark.sql import SparkSession

        root = SparkSession.builder.getOrCreate()
    _check_packages(root, settings)
    return new_session(root, settings)


def _launch(settings: SessionSettings) -> None:
    began, config = time.monotonic(), context_config(settings)
    logger.info("starting Spark (%s) with %s …", settings.master, describe_memory(config))
    require_spark(settings)
    from vde_dagster.spark.session.launch import launch

    archives = settings.warm is not None and settings.warm.warm_up
    if listed := launch(config, settings.log_file, archives=archives):
        atexit.register(listed.archive_in_background)
    logger.info("Spark started in %.1f s", time.monotonic() - began)


def _call_in_thread(function: Callable[[], T]) -> T:
    """Call a function in a new thread, because PySpark changes the main thread's SIGINT handler."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(
        target=copy_context().run, args=(run,), name="vde-spark-start", daemon=True
    ).start()
    return future.result()


def _check_packages(root: SparkSession, settings: SessionSettings) -> None:
    # Otherwise statements would fail with unclear errors.
    from py4j.protocol import Py4JJavaError

    if "iceberg" not in (root.conf.get("spark.sql.extensions", "") or "").lower():
        raise StoreError(
            "this process has a Spark session without Iceberg",
            hint="stop the session first, or start it with spark.jars.packages="
            + ",".join(packages(settings))
            + " and Iceberg's session extensions",
        )
    driver = settings.iceberg.driver
    if driver is None:
        return
    jvm: Any = root._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(driver)
    except Py4JJavaError:
        raise StoreError(
            f"Spark was started in this process without the database driver {driver}",
            hint="restart the process and open the project that needs this driver first, or list "
            "the drivers of all projects in spark.packages",
        ) from None


_SECRET = "password|secret|token|credential|key"
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
_SECRET_PART = re.compile(rf"((?:{_SECRET})[^=&;]*=)[^&;]*", re.IGNORECASE)


def check_catalog(theirs: Mapping[str, str], settings: SessionSettings) -> None:
    """Raise UsageError if `theirs` configures the project's catalog otherwise than `settings`."""
    prefix = f"spark.sql.catalog.{settings.catalog}"
    ours = session_config(settings)
    keys = sorted(key for key in {*ours, *theirs} if key == prefix or key.startswith(prefix + "."))
    differing = [key for key in keys if ours.get(key) != theirs.get(key)]
    if not differing:
        return
    parts = [
        f"{key} is {_mask_value(key, theirs.get(key))}, "
        f"the project's is {_mask_value(key, ours.get(key))}"
        for key in differing
    ]
    raise UsageError(
        f"the session to join configures the catalog '{settings.catalog}' differently: "
        + "; ".join(parts),
        hint="start the session with vde_dagster.orchestration.spark_config(project_root), or "
        "pass no "
        "session: the project starts its own",
    )


def _mask_value(key: str, value: str | None) -> str:
    if value is None:
        return "not set"
    if _SECRET_NAME.search(key.rpartition(".")[2]):
        return "a different one"
    return "'{}'".format(_SECRET_PART.sub(r"\1…", value))
