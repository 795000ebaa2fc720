"""Iceberg's own test server of the REST protocol; every user takes a namespace of its own in it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyiceberg.typedef import EMPTY_DICT

from vde_dagster.lakehouse.catalogs.rest_server import RestClient, RestServer
from vde_dagster.project.settings import RestSettings
from vde_dagster_tests.orchestration.servers import free_port

MAIN = "org.apache.iceberg.rest.RESTCatalogServer"
JARS = Path(__file__).parent.parent / "fixtures" / "lakehouse" / "rest_server_jars.txt"
MAVEN = "https://repo1.maven.org/maven2"
CACHE = Path.home() / ".cache" / "vde-dagster" / "iceberg-rest"
SECONDS = 60


class Part(RestServer):
    """A namespace of a server, as if it were all of it.

    Args:
        access: The server.
        root: The namespace.
    """

    def __init__(self, access: RestSettings, root: str) -> None:
        super().__init__(access)
        self.root = root

    def make(self, **properties: Any) -> RestClient:
        """Make a client that knows no other namespace."""
        return Inside(self.root, **properties)

    def move(self, uri: str) -> None:
        """Be at another place from now on."""
        self.access, self._known = RestSettings(uri), None

    def namespaces(self, parent: Sequence[str] = ()) -> list[tuple[str, ...]]:
        """Return the namespaces directly in another one, or in all of it."""
        return self.reach(lambda client: client.list_namespaces(tuple(parent)), absent=[])

    def create_namespace(self, namespace: Sequence[str], properties: Mapping[str, str]) -> None:
        """Make a namespace."""
        said = dict(properties)
        self.reach(lambda client: client.create_namespace(tuple(namespace), said))

    def names(self, namespace: Sequence[str], what: str) -> list[str]:
        """Return the names of a namespace's `tables` or `views`."""
        where = tuple(namespace)
        found = self.reach(
            lambda client: (client.list_tables if what == "tables" else client.list_views)(where),
            absent=[],
        )
        return [name for *_, name in found]

    def post(self, namespace: Sequence[str], place: str, body: Any) -> None:
        """Send what makes a table or view."""
        self.reach(lambda client: client.ask("POST", namespace, place, body))


class Inside(RestClient):
    """A client of one namespace of a server."""

    def __init__(self, root: str, **properties: Any) -> None:
        self.root = root
        super().__init__("part", **properties)

    def list_namespaces(self, namespace: Any = ()) -> list[Any]:
        """List what lies in another one, or in all of it."""
        return [found[1:] for found in super().list_namespaces(namespace or ("",))]

    def create_namespace(self, namespace: Any, properties: Any = EMPTY_DICT) -> None:
        """Make a namespace."""
        super().create_namespace((self.root, *namespace), properties)

    def _encode_namespace_path(self, namespace: Any) -> str:
        return super()._encode_namespace_path((self.root, *filter(None, namespace)))


@contextmanager
def running_rest_server(port: int | None = None) -> Iterator[str]:
    """Run a server whose contents lie in a file; yields its base."""
    port = port or free_port()
    spark = Path(pyspark.__file__).parent / "jars"
    hadoop = [str(jar) for name in ("hadoop-client-*", "slf4j-api-*") for jar in spark.glob(name)]
    path = os.pathsep.join([*map(str, fetch()), *hadoop])
    with tempfile.TemporaryDirectory(prefix="vde-rest-") as folder:
        settings = {
            "CATALOG_REST_PORT": str(port),
            "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db",
            "CATALOG_CLIENTS": "1",
            "CATALOG_WAREHOUSE": f"file://{folder}/warehouse",
        }
        log = Path(folder) / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [_java(), "-Xmx300m", "-cp", path, MAIN],
                cwd=folder,
                stdout=stream,
                stderr=stream,
                env={**os.environ, **settings},
            )
        try:
            uri = f"http://127.0.0.1:{port}"
            _wait(uri, process, log)
            yield uri
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def new_part(uri: str) -> Part:
    """Make an empty namespace, and return it."""
    root = f"t{uuid.uuid4().hex[:12]}"
    server = RestServer(RestSettings(uri))
    server.reach(lambda client: client.create_namespace((root,)))
    return Part(server.access, root)


def pointers_in(uri: str, root: str = "") -> list[tuple[str, str, str, str]]:
    """Read (namespace, name, metadata file, kind) of every table and view, by plain HTTP."""
    found = []
    for what, kind in (("tables", "TABLE"), ("views", "VIEW")):
        for parts, name in names_in(uri, what, root):
            place = f"{uri}/v1/namespaces/{'.'.join(parts)}"
            at = _ask(f"{place}/{what}/{name}")["metadata-location"]
            if at.startswith("file:") and not at.startswith("file://"):
                at = f"file://{at.removeprefix('file:')}"  # as the oracle reads them
            found.append((".".join(parts[1:] if root else parts), name, at, kind))
    return found


def names_in(uri: str, what: str, root: str = "") -> Iterator[tuple[list[str], str]]:
    """List the namespace and name of all `tables` or `views`, also those whose files are gone."""
    waiting: list[Any] = [[root]] if root else [*_ask(f"{uri}/v1/namespaces")["namespaces"]]
    while waiting:
        parts = waiting.pop()
        at = ".".join(parts)
        waiting += _ask(f"{uri}/v1/namespaces?parent={at}")["namespaces"]
        for one in _ask(f"{uri}/v1/namespaces/{at}/{what}")["identifiers"]:
            yield parts, one["name"]


def fetch() -> list[Path]:
    """Return the server's archives, from Maven Central where they are not there yet (32 MB)."""
    found = []
    for line in JARS.read_text().splitlines():
        wanted, name = line.split()
        jar = CACHE / Path(name).name
        if not jar.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            part = jar.with_name(f"{jar.name}.{os.getpid()}")
            url = f"{MAVEN}/{name}"
            with urllib.request.urlopen(url, timeout=600) as answer, part.open("wb") as file:
                shutil.copyfileobj(answer, file)
            assert hashlib.sha256(part.read_bytes()).hexdigest() == wanted, name
            part.rename(jar)
        found.append(jar)
    return found


def _java() -> str:
    """Find the Java that Spark finds: Hadoop's files need one below 24."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    assert found is not None, "there is no java"
    return found


def _ask(url: str) -> dict[str, list[dict[str, str]]]:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        found: dict[str, list[dict[str, str]]] = json.load(answer)
        return found


def _wait(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < SECONDS:
        try:
            _ask(f"{uri}/v1/config")
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")
