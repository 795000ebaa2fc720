"""What `vde serve` takes: 1,000 models listed and loaded, and 50 clients while publications go on.

    python -m benchmarks.serve_catalog [--models 1000] [--clients 50] [--publications 10]
    python -m benchmarks.serve_catalog --postgres

Goals: all models listed in 0.1 s, a table loaded in 20 ms once it was loaded before, no torn read.

A real server process is asked over HTTP. Its state is in SQLite, or in a PostgreSQL server that is
started for it and whose CPU is not counted. The publications swap the tables of all models back and
forth; each client begins a session, loads two tables of it, and looks whether both are of the same
publication. Wall-clock, and the server's CPU for each request, which says more on a busy machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.large_state import Built, build, make_project
from vde_dagster.execution.apply.publish import define_views
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster_tests.state.postgres_server import PostgresServer

LISTED_SECONDS, LOADED_SECONDS = 0.1, 0.02


class Client:
    """A client that keeps its connection, as engines do.

    Args:
        url: The server's.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

    def ask(self, path: str) -> Any:
        """Return the JSON that a path answers."""
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {content.decode()}")
        return json.loads(content)

    def prefix(self) -> str:
        """Begin a session on production."""
        return str(self.ask("/v1/config?warehouse=prod")["overrides"]["prefix"])

    def load(self, prefix: str, built: Built) -> Any:
        """Load a model's table."""
        name = built.snapshot.name
        return self.ask(f"/v1/{prefix}/namespaces/{name.namespace}/tables/{name.name}")


def publish(workspace: Workspace, models: Sequence[Built]) -> None:
    """Publish a version of production that shows some tables."""
    resolver = Resolver(
        "prod",
        {built.snapshot.name: built.entry for built in models},
        {built.snapshot.id: built.snapshot for built in models},
        {built.table.id: built.table for built in models},
    )
    base = workspace.store.environments.current_version("prod") or 0
    now = datetime.now(timezone.utc)
    environment = Environment(
        "prod", base, dict(resolver.entries), uuid.uuid4().hex, now, "benchmark"
    )
    views = define_views(resolver, workspace)
    workspace.lakehouse.publish(Publication(environment, base, views))


def listed(client: Client, prefix: str) -> int:
    """List every table of every namespace; return how many there are."""
    path = f"/v1/{prefix}/namespaces"
    names = [name for (name,) in client.ask(path)["namespaces"]]
    return sum(len(client.ask(f"{path}/{name}/tables")["identifiers"]) for name in names)


def many_clients(
    url: str, count: int, models: Sequence[Built], ended: threading.Event
) -> tuple[list[float], int, int]:
    """Let clients load pairs of tables; return the seconds of each request, pairs and torn ones."""
    seconds: list[float] = []
    pairs: list[bool] = []

    def work() -> None:
        client = Client(url)
        while not ended.is_set():
            chosen = random.sample(models, 2)
            began = time.perf_counter()
            prefix = client.prefix()
            found = [client.load(prefix, built)["metadata"]["location"] for built in chosen]
            seconds.append((time.perf_counter() - began) / 3)
            own = [at.endswith(b.table.id) for at, b in zip(found, chosen, strict=True)]
            pairs.append(own[0] == own[1])

    clients = [threading.Thread(target=work) for _ in range(count)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    return seconds, len(pairs), pairs.count(False)


def cpu_seconds(process: int) -> float:
    """Return the CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def told(name: str, seconds: float, goal: float) -> None:
    """Print a figure beside its goal."""
    print(f"{name:54} {seconds * 1000:8.1f} ms  goal {goal * 1000:.0f} ms", flush=True)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--publications", type=int, default=10)
    parser.add_argument("--postgres", action="store_true", help="have the state in PostgreSQL")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        root = Path(temporary)
        make_project(root)
        if chosen.postgres:
            postgres = PostgresServer()
            stack.callback(postgres.stop)
            url = postgres.url(postgres.create_database())
            (root / "pyproject.toml").write_text(f'[tool.vde]\nstate_url = "{url}"\n')
        with Workspace.open(root) as workspace:
            workspace.lakehouse.catalog.create_namespaces({"vde_physical": {}})
            first = [build(workspace, number, 1) for number in range(chosen.models)]
            second = [build(workspace, number, 2) for number in range(chosen.models)]
            publish(workspace, first)
            command = [sys.executable, "-m", "vde_dagster.cli", "serve", "--port", "0", "--json"]
            server = subprocess.Popen(
                [*command, "--project", str(root), "--log", str(root / "log")],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert server.stdout is not None
            try:
                text = server.stdout.readline()
                while not text.rstrip().endswith("}"):
                    text += server.stdout.readline()
                measure(workspace, json.loads(text)["url"], server.pid, (first, second), chosen)
            finally:
                server.terminate()
                server.wait()


def measure(
    workspace: Workspace,
    url: str,
    process: int,
    variants: tuple[Sequence[Built], Sequence[Built]],
    chosen: argparse.Namespace,
) -> None:
    """Ask a server, alone and then with others."""
    models, client = variants[0], Client(url)
    prefix = client.prefix()
    for name in ("listed, the first time", "listed again"):
        before, began = cpu_seconds(process), time.perf_counter()
        assert listed(client, prefix) == chosen.models
        told(f"{chosen.models} models {name}", time.perf_counter() - began, LISTED_SECONDS)
        cpu = cpu_seconds(process) - before
        told(f"{chosen.models} models {name}, the server's CPU", cpu, LISTED_SECONDS)
    for name in ("for the first time", "again"):
        seconds = []
        before = cpu_seconds(process)
        for built in models[:200]:
            began = time.perf_counter()
            client.load(prefix, built)
            seconds.append(time.perf_counter() - began)
        cpu = (cpu_seconds(process) - before) / len(seconds)
        told(f"a table loaded {name}, median", statistics.median(seconds), LOADED_SECONDS)
        told(f"a table loaded {name}, the server's CPU", cpu, LOADED_SECONDS)
    ended = threading.Event()
    found: list[tuple[list[float], int, int]] = []
    clients = threading.Thread(
        target=lambda: found.append(many_clients(url, chosen.clients, models, ended))
    )
    before, began = cpu_seconds(process), time.perf_counter()
    clients.start()
    for number in range(chosen.publications):
        publish(workspace, variants[(number + 1) % 2])
    ended.set()
    clients.join()
    took, cpu = time.perf_counter() - began, cpu_seconds(process) - before
    seconds, pairs, torn = found[0]
    print(
        f"{chosen.clients} clients during {chosen.publications} publications of {chosen.models} "
        f"models, {took:.1f} s: {pairs} sessions of 3 requests, {torn} torn; a request "
        f"{statistics.median(seconds) * 1000:.0f} ms (median), {cpu / pairs / 3 * 1000:.1f} ms of "
        "the server's CPU"
    )
    if torn:
        raise SystemExit("torn reads")


if __name__ == "__main__":
    main()
