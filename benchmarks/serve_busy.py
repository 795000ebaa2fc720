"""What `vde serve` bears: 50 clients for a minute while its environments change below it.

    python -m benchmarks.serve_busy [--seconds 60] [--clients 50]
    python -m benchmarks.serve_busy --postgres

Clients begin sessions, load tables and read rows of a small project, while one process after
another publishes, freezes, rolls back, drops and cleans up. In the middle the database goes away:
PostgreSQL is started again, a SQLite file is locked for five seconds. Every answer has to be right,
or a 503 while the database is away, and a session must see one publication. Printed are answers by
status, and the server's memory before and after.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.duck_engine import open_duck
from vde_dagster_tests.serve.served_process import Served, serving
from vde_dagster_tests.serve.shops import noon, publish, run
from vde_dagster_tests.state.postgres_server import PostgresServer

DAYED = """
    MODEL (name marts.{}, start '2024-01-01',
      kind INCREMENTAL_BY_TIME_RANGE (time_column day));
    SELECT CAST(@end_ds AS DATE) AS day, 1 AS made
"""
FILES = {f"models/{name}.sql": DAYED.format(name) for name in ("left", "right")}


class Busy:
    """What clients were answered.

    Args:
        server: The server.
    """

    def __init__(self, server: Served) -> None:
        self.server = server
        self.answers: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.ended = threading.Event()
        self._lock = threading.Lock()

    def client(self) -> None:
        """Begin sessions until the end."""
        while not self.ended.is_set():
            try:
                self._session()
            except Exception as error:
                with self._lock:
                    self.wrong.append(repr(error))

    def _session(self) -> None:
        prefix = self._ask("/v1/config?warehouse=prod")
        if prefix is None:
            return
        at = prefix["overrides"]["prefix"]
        loaded = [
            self._ask(f"/v1/{at}/namespaces/marts/tables/{name}") for name in ("left", "right")
        ]
        pages = [self._ask(f"/data/{at}/marts.{name}?sort=day") for name in ("left", "right")]
        shown = {
            one["metadata"]["properties"]["vde.version"] for one in loaded if one is not None
        } | {str(one["version"]) for one in pages if one is not None}
        rows = {json.dumps(one["rows"]) for one in pages if one is not None}
        if len(shown) > 1 or len(rows) > 1:
            with self._lock:
                self.wrong.append(f"torn: {at} {shown} {rows}")

    def _ask(self, path: str) -> Any:
        answer = self.server.ask(path)
        with self._lock:
            self.answers[f"{answer.status} {path.split('/')[1].partition('?')[0]}"] += 1
            if answer.status not in (200, 503):
                self.wrong.append(f"{path} {answer.status} {answer.body[:300]!r}")
        return answer.json if answer.status == 200 else None


def changes(folder: ProjectFolder) -> Iterator[str]:
    """Change production in every way, again and again."""
    day = 4
    while True:
        run(folder, day)
        yield "run"
        made = day % 7
        for name in ("left", "right"):
            text = FILES[f"models/{name}.sql"].replace("1 AS made", f"{made + 2} AS made")
            folder.write(f"models/{name}.sql", text)
        publish(folder, day)
        yield "publish"
        with open_duck(folder.root) as workspace:
            newest = workspace.store.environments.current_version("prod")
            workspace.environments.freeze(f"prod@{newest}", f"close{day}")
            yield "freeze"
            workspace.environments.rollback("prod", definitions_only=day % 2 == 0)
            yield "rollback"
            workspace.environments.drop(f"close{day}")
            workspace.maintenance.janitor()
            yield "janitor"
            assert workspace.plan("prod", now=noon(day)) is not None
        day += 1


def away(root: Path, postgres: PostgresServer | None) -> None:
    """Take the database away for a while."""
    if postgres is not None:
        postgres.restart()
        return
    (path,) = root.rglob("vde.db")
    with sqlite3.connect(path, isolation_level=None, timeout=60) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        time.sleep(5)
        connection.execute("ROLLBACK")


def memory(process: int) -> float:
    """Return the MiB of memory that a process has."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    """Print what was answered; exit with 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--postgres", action="store_true", help="have the state in PostgreSQL")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = ProjectFolder(Path(temporary) / "shop", FILES)
        postgres = None
        if chosen.postgres:
            postgres = PostgresServer()
            stack.callback(postgres.stop)
            url = postgres.url(postgres.create_database())
            folder.write("pyproject.toml", f'[tool.vde]\nstate_url = "{url}"\n')
        publish(folder)
        server = stack.enter_context(serving(folder.root, "--log", str(Path(temporary) / "log")))
        busy = Busy(server)
        warm = threading.Timer(3, busy.ended.set)
        warm.start()
        busy.client()
        before = memory(server.process)
        busy.ended.clear()
        clients = [threading.Thread(target=busy.client) for _ in range(chosen.clients)]
        for one in clients:
            one.start()
        done: Counter[str] = Counter()
        began, gone = time.monotonic(), False
        for what in changes(folder):
            done[what] += 1
            if not gone and time.monotonic() - began > chosen.seconds / 2:
                gone = True
                away(folder.root, postgres)
                done["database away"] += 1
            if time.monotonic() - began > chosen.seconds:
                break
        busy.ended.set()
        for one in clients:
            one.join()
        print(f"{chosen.clients} clients, {time.monotonic() - began:.0f} s; meanwhile {dict(done)}")
        print(f"answers: {dict(sorted(busy.answers.items()))}; wrong: {len(busy.wrong)}")
        print(f"the server's memory: {before:.0f} MiB before, {memory(server.process):.0f} after")
        for wrong in busy.wrong[:5]:
            print(wrong)
        if busy.wrong:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
