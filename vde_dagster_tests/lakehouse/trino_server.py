"""A real Trino server with Iceberg catalogs, made of two archives from Maven Central.

Trino 476 is the newest whose server lies there (later ones are published elsewhere). The server
without plugins and the Iceberg plugin, which brings PostgreSQL's driver, are 0.5 GB to download;
the whole server is 0.8 GB. They are fetched by the Ivy that ships with PySpark, as Spark's own
packages are.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pyspark

from vde_dagster.spark.jvm.java import find_java, major_version
from vde_dagster_tests.orchestration.servers import free_port
from vde_dagster_tests.processes import end

VERSION = "476"
OLDEST_JAVA = 24
SECONDS = 180.0
ARCHIVES = {"trino-server-core": "tar.gz", "trino-iceberg": "zip"}

JAVA_OPTIONS = (
    *("-Xmx2G", "--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"),
    *("--sun-misc-unsafe-memory-access=allow", "-Djdk.attach.allowAttachSelf=true"),
)


class TrinoError(Exception):
    """Trino refused a query."""


@dataclass(frozen=True, slots=True)
class TrinoRows:
    """The answer to a query.

    Args:
        columns: As Trino describes them: `name`, `type`, `typeSignature`.
        rows: Lists of JSON values.
    """

    columns: list[dict[str, Any]]
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True)
class TrinoServer:
    """A running server.

    Args:
        url: Where it listens.
    """

    url: str

    def query(self, sql: str) -> TrinoRows:
        """Run a query and return all its rows.

        Raises:
            TrinoError: Trino refused it.
        """
        columns: list[dict[str, Any]] = []
        rows: list[list[Any]] = []
        page = self._ask("/v1/statement", sql)
        while True:
            if "error" in page:
                raise TrinoError(page["error"]["message"])
            columns = page.get("columns", columns)
            rows += page.get("data", [])
            if "nextUri" not in page:
                return TrinoRows(columns, rows)
            page = self._ask(page["nextUri"].removeprefix(self.url))

    def is_ready(self) -> bool:
        """Say whether it answers queries by now."""
        try:
            return not self._ask("/v1/info")["starting"]
        except (urllib.error.URLError, ConnectionError):
            return False

    def _ask(self, path: str, body: str | None = None) -> Any:
        headers = {
            "X-Trino-User": "vde",
            "X-Trino-Time-Zone": "UTC",
            # Without it, timestamps are answered in milliseconds.
            "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME",
        }
        data = None if body is None else body.encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)


@contextmanager
def running_trino(
    home: Path, java: Path, catalogs: Mapping[str, Mapping[str, str]]
) -> Iterator[TrinoServer]:
    """Run a server on a free port of this machine only.

    Args:
        home: What `install_trino` made.
        java: The Java program.
        catalogs: The properties of catalogs, by their names in Trino.
    """
    port = free_port()
    server = TrinoServer(f"http://127.0.0.1:{port}")
    with tempfile.TemporaryDirectory(prefix="vde-trino-") as name:
        folder = Path(name)
        _write(folder / "etc" / "config.properties", _server_properties(home, folder, server.url))
        for catalog, properties in catalogs.items():
            _write(folder / "etc" / "catalog" / f"{catalog}.properties", properties)
        command = [str(java), *JAVA_OPTIONS, "-Dnode.environment=test", f"-Dnode.data-dir={folder}"]
        command += ["-Dconfig=etc/config.properties", "-cp", f"{home}/lib/*"]
        log = folder / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*command, "io.trino.server.TrinoServer"], cwd=folder, stdout=stream, stderr=stream
            )
        try:
            _wait(server, process, log)
            yield server
        finally:
            end(process)


def install_trino(cache: Path, java: Path, maven: str | None = None) -> Path:
    """Fetch and unpack the server, unless it is there already, and return its folder.

    Args:
        cache: Where it is kept.
        java: The Java program that runs Ivy.
        maven: URL of a mirror of Maven Central, or None for the real one.
    """
    home = cache / VERSION
    if home.is_dir():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    # Within the cache, so that the finished folder can be renamed into its place.
    with tempfile.TemporaryDirectory(dir=cache) as name:
        folder = Path(name)
        print(f"Fetching Trino {VERSION} from Maven Central (0.5 GB, once) into {cache}")
        _fetch(folder, java, maven)
        with tarfile.open(folder / f"trino-server-core-{VERSION}.tar.gz") as server:
            prefix = f"trino-server-core-{VERSION}/lib/"
            server.extractall(folder, [m for m in server if m.name.startswith(prefix)])
        with zipfile.ZipFile(folder / f"trino-iceberg-{VERSION}.zip") as plugin:
            plugin.extractall(folder / "plugin")
        made = folder / "home"
        made.mkdir()
        shutil.move(folder / f"trino-server-core-{VERSION}" / "lib", made / "lib")
        shutil.move(folder / "plugin", made / "plugin")
        made.rename(home)
    return home


def find_trino_java(java_home: Path | None) -> Path:
    """Return a Java that is new enough for Trino.

    Args:
        java_home: Where to look; None for JAVA_HOME, the path, and Linux's usual folder.
    """
    if java_home is not None:
        candidates = [java_home / "bin" / "java"]
    else:
        default = find_java()
        others = sorted(Path("/usr/lib/jvm").glob("*/bin/java"), reverse=True)
        candidates = [*([default] if default else []), *others]
    for java in candidates:
        if _java_version(java) >= OLDEST_JAVA:
            return java
    raise SystemExit(
        f"Trino {VERSION} needs Java {OLDEST_JAVA} or newer, and there is none in "
        f"{', '.join(map(str, candidates)) or 'the path'}: give its folder with --java"
    )


def _java_version(java: Path) -> int:
    if not os.access(java, os.X_OK):
        return 0
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return major_version(done.stderr.partition('version "')[2]) or 0


def _fetch(folder: Path, java: Path, maven: str | None) -> None:
    """Let Ivy put both archives into a folder."""
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    root = f" root={quoteattr(maven.rstrip('/') + '/')}" if maven else ""
    # Without the POMs: the parents of Trino's take minutes, and nothing in them is needed.
    (folder / "settings.xml").write_text(
        '<ivysettings><settings defaultResolver="central"/>'
        f"<caches defaultCacheDir={quoteattr(str(folder / 'ivy'))}/><resolvers>"
        f'<ibiblio name="central" m2compatible="true" usepoms="false"{root}/>'
        "</resolvers></ivysettings>"
    )
    dependencies = "".join(
        f'<dependency org="io.trino" name="{name}" rev="{VERSION}" transitive="false">'
        f'<artifact name="{name}" type="{ending}"/></dependency>'
        for name, ending in ARCHIVES.items()
    )
    (folder / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="vde" module="trino"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    arguments = ["-settings", "settings.xml", "-ivy", "ivy.xml"]
    arguments += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    done = subprocess.run(
        [java, "-jar", ivy, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"Trino could not be fetched:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _server_properties(home: Path, folder: Path, url: str) -> dict[str, str]:
    return {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "node.bind-ip": "127.0.0.1",
        "node.internal-address": "127.0.0.1",
        "http-server.http.port": url.rpartition(":")[2],
        "discovery.uri": url,
        "plugin.dir": str(home / "plugin"),
        "catalog.config-dir": str(folder / "etc" / "catalog"),
    }


def _write(path: Path, properties: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


def _wait(server: TrinoServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not server.is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"Trino did not start:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.5)
