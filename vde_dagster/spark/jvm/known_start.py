"""The command that starts a JVM with Spark, stored for later starts.

PySpark starts a JVM by scripts: a first JVM builds the command of a second JVM, and the second JVM
resolves the packages by Ivy. This takes seconds, with the same result each time, so the command is
stored.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlparse

from vde_dagster.base.hashing import digest
from vde_dagster.spark.jvm.java import find_java

JAR_CACHE_VARIABLE = "VDE_JAR_CACHE"
"""Environment variable with the directory for downloaded jars."""

_START_PROPERTIES = ("spark.driver.", "spark.jars")
"""Prefixes of properties that determine the options and jars of a JVM's start."""
_SCRIPT_PROPERTIES = ("spark.archives", "spark.files", "spark.jars.excludes", "spark.submit.")
"""Properties for which Spark's scripts do more than start a JVM."""
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_SCRIPT_VARIABLES = (
    *("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH"),
    *("SPARK_TESTING", "SPARK_PREPEND_CLASSES", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
)
_MAIN = "org.apache.spark.api.python.PythonGatewayServer"
_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class StartCommand:
    """A stored command that starts a JVM for Spark."""

    java: str
    options: tuple[str, ...]
    class_path: tuple[str, ...]
    spark_home: str

    @classmethod
    def find(cls, place: Path) -> StartCommand | None:
        """Read a stored command; return None if the command or one of its files is missing."""
        # By hand: a typed decoder takes as long to import as this saves.
        with suppress(OSError, ValueError, LookupError, TypeError):  # Missing or damaged.
            found = cls.from_json(json.loads(place.read_text(encoding="utf-8")))
            if all(map(os.path.isfile, (found.java, *found.class_path))):
                return found
        return None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StartCommand:
        options, class_path = (tuple(data[key]) for key in ("options", "class_path"))
        return cls(data["java"], options, class_path, data["spark_home"])

    @classmethod
    def store(cls, place: Path, jvm: Any) -> None:
        """Store the command of a JVM that Spark's scripts started."""
        from pyspark.find_spark_home import _find_spark_home

        java, runtime = find_java(), jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
        jars = jvm.java.lang.System.getProperty("spark.jars") or ""
        paths = [
            *filter(os.path.exists, runtime.getClassPath().split(os.pathsep)),
            *(unquote(urlparse(jar).path) for jar in jars.split(",") if jar),
        ]
        if java is None or not all(map(os.path.isfile, paths)):
            return  # Spark's scripts read a configuration folder, too.
        home, given = os.path.abspath(_find_spark_home()), runtime.getInputArguments()
        # By index: PySpark's error handling misreads an iterator's end as a session's error.
        options = tuple(given[index] for index in range(len(given)))
        found = cls(str(java), options, tuple(paths), home)
        with suppress(OSError):  # It only saves time.
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as file:
                json.dump(asdict(found), file)
            os.replace(file.name, place)

    def start(self, log: IO[bytes], *options: str) -> Gateway | None:
        """Start the JVM, and wait for its gateway. Return None if the JVM ends first."""
        folder = Path(tempfile.mkdtemp(prefix="vde-gateway-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # If the process ends first.
        try:
            process = subprocess.Popen(
                [self.java, *self.options, *options, "-Dspark.submit.deployMode=client", _MAIN],
                stdin=subprocess.PIPE,  # The JVM ends when this is closed.
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "CLASSPATH": os.pathsep.join(self.class_path),
                    "SPARK_HOME": self.spark_home,
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "gateway"),
                },
                start_new_session=True,  # Only Python receives Ctrl-C.
            )
            import pyspark.sql  # noqa: F401  (while it starts)

            while not (folder / "gateway").exists():
                if process.poll() is not None:
                    return None
                time.sleep(_POLL_SECONDS)
            connection = (folder / "gateway").read_bytes()
        finally:
            shutil.rmtree(folder)
        port, size = struct.unpack("!ii", connection[:8])
        return Gateway(process, port, connection[8 : 8 + size].decode())


@dataclass(frozen=True, slots=True)
class Gateway:
    """A started JVM that waits for PySpark to connect."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str

    @contextmanager
    def offer_to_pyspark(self) -> Iterator[None]:
        """Make PySpark's `launch_gateway` use this JVM instead of starting another JVM."""
        os.environ |= {
            "PYSPARK_GATEWAY_PORT": str(self.port),
            "PYSPARK_GATEWAY_SECRET": self.secret,
        }
        try:
            yield
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def start_path(visible: Mapping[str, str]) -> Path | None:
    """Return the path of the stored command for a configuration.

    Return None if only Spark's scripts can start a JVM with this configuration.
    """
    java, spec = find_java(), find_spec("pyspark")
    if java is None or spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent
    if (
        os.name != "posix"
        or not visible["spark.master"].startswith("local")
        or any(key.startswith(_SCRIPT_PROPERTIES) for key in visible)
        or any(name in os.environ for name in _SCRIPT_VARIABLES)
        or os.environ.get("SPARK_HOME", str(home)) != str(home)
        or (home / "conf").exists()
    ):
        return None
    decides = sorted(item for item in visible.items() if item[0].startswith(_START_PROPERTIES))
    variables = [(name, os.environ.get(name)) for name in _VARIABLES]
    name = digest(
        *("start", json.dumps(decides), json.dumps(variables)),
        *(str(java), str(java.resolve()), str(home), version("pyspark")),
    )
    return cache_folder() / f"{name}.json"


def cache_folder() -> Path:
    """Return the folder for stored commands: below `VDE_JAR_CACHE`, or else the user's cache."""
    jars = os.environ.get(JAR_CACHE_VARIABLE)
    if jars:
        return Path(jars).expanduser().absolute() / "starts"
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "vde-dagster"
