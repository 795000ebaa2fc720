"""Starting Spark: one JVM per process, one session per engine."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vde_dagster.base.names import quote
from vde_dagster.errors import NoSparkError, StoreError, UsageError
from vde_dagster.spark.session.connect import (
    check_master,
    connect,
    is_remote,
    is_server,
    require_client,
    use_catalog,
)
from vde_dagster.spark.session.failures import hush_pyspark
from vde_dagster.spark.session.jvm_failure import Launched, forget_ended, has_ended, remember
from vde_dagster.spark.session.settings import (
    SessionSettings,
    command_line_config,
    context_config,
    is_local,
    memory_of,
    packages,
    session_config,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


logger = logging.getLogger(__name__)

_lock = threading.Lock()
_users: set[int] = set()
_started_here = False
_ignored: set[str] = set()
"""Settings of which this process has said that they come too late."""

T = TypeVar("T")


def start_session(
    settings: SessionSettings, join: Callable[[], SparkSession] | None = None
) -> SparkSession:
    """Return a session of its own for a project, in the process's one JVM.

    The first call, in any thread, starts the JVM, which takes seconds; its output goes to
    `settings.log_file`. Later ones share it, each with its own catalog, configuration and views.

    Args:
        join: Starts or returns a session of somebody else, in whose JVM this one is made.
    """
    with _lock:
        session = _off_main_thread(lambda: _start(settings, join))
        _users.add(id(session))
        return session


def require_spark(settings: SessionSettings) -> None:
    """Make sure that Spark can be started for a project, or reached, without doing it."""
    if is_server(settings.master):
        require_client(settings.master)
        check_master(settings.master)
        return
    from pyspark import SparkContext

    check_master(context_config(settings)["spark.master"])
    if SparkContext._gateway is None:
        check_java()


def new_session(root: SparkSession, settings: SessionSettings) -> SparkSession:
    """Return a session beside another one, with a project's catalog and configuration."""
    session = connect(settings) if is_remote(root) else root.newSession()
    _configure(session, settings)
    return session


def _configure(session: SparkSession, settings: SessionSettings) -> None:
    """Configure a new session, with one warning for what only a new JVM could change."""
    from pyspark.errors import PySparkException

    for key, value in session_config(settings).items():
        if session.conf.get(key, None) == value:
            continue
        try:
            session.conf.set(key, value)
        except PySparkException as error:
            if "CANNOT_MODIFY" not in str(error):
                raise
            if key not in _ignored:
                _ignored.add(key)
                logger.warning("%s is ignored: Spark was already started without it", key)
    # Spark loads a catalog by the configuration of the thread's active session, which is this one
    # only inside of `sql`; later calls of Iceberg's API find it loaded.
    if is_remote(session):
        use_catalog(session, settings)
    else:
        session.sql(f"USE {quote(settings.catalog)}")


def stop_session(session: SparkSession) -> None:
    """Give a session back; the last one of a JVM that was started here stops Spark."""
    global _started_here
    with _lock:
        _users.discard(id(session))
        if is_remote(session):
            session.stop()
            return
        if not _users and _started_here:
            if not has_ended():
                session.sparkContext.stop()
            _started_here = False


def _start(settings: SessionSettings, join: Callable[[], SparkSession] | None) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    global _started_here
    if settings.iceberg.database is not None:
        Path(settings.iceberg.database).parent.mkdir(parents=True, exist_ok=True)
    if join is None and is_server(settings.master):
        require_spark(settings)
        session = connect(settings)
        _configure(session, settings)
        return session
    if join is not None:
        root = join()
        if is_remote(root):
            raise UsageError(
                "the session to join is one of Spark Connect, which has no JVM to join",
                hint="set spark.master under [tool.vde.spark] to its sc://… URL, and give none",
            )
        check_catalog(root.conf.getAll, settings)
    else:
        if has_ended():
            forget_ended()
            _users.clear()
        if SparkContext._active_spark_context is None:
            _launch(settings)
            _started_here = True
        root = SparkSession.builder.getOrCreate()
    _check_packages(root, settings)
    return new_session(root, settings)


def _launch(settings: SessionSettings) -> None:
    began, config = time.monotonic(), context_config(settings)
    logger.info("starting Spark (%s) with %s …", settings.master, memory_of(config))
    require_spark(settings)
    launch(config, settings.log_file)
    logger.info("Spark started in %.1f s", time.monotonic() - began)


def launch(config: dict[str, str], log_file: Path | None) -> None:
    """Start the JVM with its streams in a file, by `launch_gateway`, as PySpark itself does."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = config["spark.master"]
    conf = SparkConf(loadDefaults=False).setAll(list(config.items()))
    visible = SparkConf(loadDefaults=False).setAll(list(command_line_config(config).items()))
    gateway = SparkContext._gateway
    if gateway is None:
        if log_file is None:
            handle, name = tempfile.mkstemp(prefix="vde-spark-", suffix=".log")
            os.close(handle)
            log_file = Path(name)
            atexit.register(log_file.unlink, missing_ok=True)
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("wb") as log:
            try:
                gateway = launch_gateway(visible, popen_kwargs={"stdout": log, "stderr": log})
            except PySparkRuntimeError as error:
                raise _launch_failure(log_file, master) from error
        if gateway.proc is not None:
            remember(Launched(gateway.proc, log_file, memory_of(config), is_local(master)))
    hush_pyspark()
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)
    SparkSession.builder.config(conf=conf).getOrCreate()


def _off_main_thread(function: Callable[[], T]) -> T:
    """Call a function where PySpark does not replace the caller's handler of SIGINT."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="vde-spark-start", daemon=True).start()
    return future.result()


def _check_packages(root: SparkSession, settings: SessionSettings) -> None:
    """Refuse a JVM that lacks Iceberg or the driver, where every statement would fail obscurely."""
    from py4j.protocol import Py4JJavaError

    if "iceberg" not in (root.conf.get("spark.sql.extensions", "") or "").lower():
        raise StoreError(
            "this process has a Spark session without Iceberg",
            hint="stop it first, or start it with spark.jars.packages="
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
            hint="start it first for the project that needs it, or name both drivers in "
            "spark.packages",
        ) from None


def _launch_failure(log_file: Path, master: str) -> StoreError:
    text = log_file.read_text(errors="replace")
    missing = re.findall(r"unresolved dependency: ([^:\s]+[^:]*)", text)
    if missing:
        return StoreError(
            "Spark's packages could not be fetched: " + ", ".join(sorted(set(missing))),
            hint="check the network and the coordinates in spark.packages; "
            "VDE_JAR_CACHE names a directory with jars fetched before",
        )
    found = re.search(r"^.*(?:Exception|Error).*(?:\n(?!\s*at ).+)?", text, re.M)
    reason = " ".join(found.group().split())[:300] if found else "it ended without a message"
    return StoreError(
        f"Spark did not start: {reason}",
        hint=f"the JVM's output is in {log_file}; the master is '{master}'",
    )


_SECRET = "password|secret|token|credential|key"
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
_SECRET_PART = re.compile(rf"((?:{_SECRET})[^=&;]*=)[^&;]*", re.IGNORECASE)


def check_catalog(theirs: Mapping[str, str], settings: SessionSettings) -> None:
    """Check that a session means the same tables by the catalog's name as the project does."""
    prefix = f"spark.sql.catalog.{settings.catalog}"
    ours = session_config(settings)
    keys = sorted(key for key in {*ours, *theirs} if key == prefix or key.startswith(prefix + "."))
    differing = [key for key in keys if ours.get(key) != theirs.get(key)]
    if not differing:
        return
    parts = [
        f"{key} is {_shown(key, theirs.get(key))}, the project's is {_shown(key, ours.get(key))}"
        for key in differing
    ]
    raise UsageError(
        f"the Spark session to join has another catalog '{settings.catalog}' than the project: "
        + "; ".join(parts),
        hint="start it with vde_dagster.orchestration.spark_config(project_root), or give no "
        "session: the project has one",
    )


def _shown(key: str, value: str | None) -> str:
    if value is None:
        return "not set"
    if _SECRET_NAME.search(key.rpartition(".")[2]):
        return "another one"
    return "'{}'".format(_SECRET_PART.sub(r"\1…", value))


OLDEST = 17
_HINT = f"install Java {OLDEST} or newer (a JRE is enough) and put it on PATH or in JAVA_HOME"


def check_java() -> int:
    """Return the major version of the Java that Spark will start; raise where it is too old."""
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME is '{home}', which has no bin/java" if home else "there is none on PATH"
        raise NoSparkError(f"Spark needs Java, and {where}", hint=_HINT)
    version = _version_from_release(java) or _version_from_run(java)
    if version is None:
        raise NoSparkError(f"'{java}' does not run: it prints no version", hint=_HINT)
    if version < OLDEST:
        raise NoSparkError(f"Spark needs Java {OLDEST}, and '{java}' is Java {version}", hint=_HINT)
    return version


def find_java() -> Path | None:
    """Return the `java` that Spark's scripts start: that of JAVA_HOME, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / ("java.exe" if os.name == "nt" else "java")
        return java if java.exists() else None
    found = shutil.which("java")
    return Path(found) if found else None


def major_version(text: str) -> int | None:
    """Read the major version of `17.0.15`, `1.8.0_412` or `openjdk version "21" …`."""
    match = re.search(r"(?<![\d.])(\d+)(?:\.(\d+))?[\d._]*", text)
    if match is None:
        return None
    first = int(match.group(1))
    return int(match.group(2) or 0) if first == 1 else first


def _version_from_release(java: Path) -> int | None:
    """Read the `release` file beside a JDK's `bin`: a hundred times faster than starting it."""
    release = java.resolve().parent.parent / "release"
    if not release.is_file():
        return None
    match = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.M)
    return major_version(match.group(1)) if match else None


def _version_from_run(java: Path) -> int | None:
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSparkError(f"'{java}' does not run: {error}", hint=_HINT) from error
    match = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return major_version(match.group(1)) if match else None
