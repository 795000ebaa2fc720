"""Processes that publish, roll back, freeze and clean up, and are stopped at random moments.

Some go on after a while (`SIGSTOP`, then `SIGCONT`), some are killed and begun anew. Whoever was
told that it has published finds its version in the history, as its own and with its definitions; no
two have the same one, none is missing; tables hold what is recorded of them, and `fsck` finds
nothing. On PostgreSQL the others go on while one is stopped for good. Waiting is as in the
product, with shorter times.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import time
import traceback
from collections import Counter
from functools import cache
from inspect import unwrap
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.state.db import database
from vde_dagster.state.db.leases import DEFAULT_TTL_SECONDS, LeaseStore
from vde_dagster.state.store import StateStore
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.execution.workers import start
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.postgres_server import PostgresServer

IDLE_SECONDS, TTL_SECONDS = 1.5, 3.0
WORKERS = 3
PATIENCE = 60.0
"""Within which the others have gone on, on a busy machine."""
FILES = {
    "models/base.sql": "MODEL (name m.base, start '2024-01-01', kind INCREMENTAL_BY_TIME_RANGE "
    "(time_column ts, batch_size 200)); SELECT @start_dt AS ts, 0 AS n",
    "models/total.sql": "MODEL (name m.total, kind FULL); SELECT sum(n) AS n FROM m.base",
}


def _hurry(patch: pytest.MonkeyPatch) -> None:
    """Let what a vanished process holds end after seconds."""
    patch.setattr(database.make_engine, "__defaults__", (IDLE_SECONDS,))
    for work in map(unwrap, (LeaseStore.acquire, LeaseStore.heartbeat, LeaseStore.holding)):
        given: tuple[Any, ...] = work.__defaults__ or ()
        hurried = tuple(TTL_SECONDS if one == DEFAULT_TTL_SECONDS else one for one in given)
        patch.setattr(work, "__defaults__", hurried)


def _folder(root: Path, name: str, url: str) -> Path:
    settings = (
        f'[tool.vde]\nid = "aaaa"\nstate_url = "{url}"\nwarehouse = "{root / "warehouse"}"\n'
        "history_versions = 1000\n"
    )
    return ProjectFolder(root / name, {**FILES, "pyproject.toml": settings}).root


def _publish(workspace: Workspace, some: random.Random, who: str) -> Any:
    model = some.choice(sorted(FILES))
    file = workspace.root / model
    file.write_text(file.read_text().replace(" AS n", f" + {some.randrange(9)} AS n"))
    environment = some.choice(("prod", "prod", "dev"))
    plan = workspace.plan(environment)
    done = workspace.apply(plan, who=who, lease_wait_seconds=some.choice((0, TTL_SECONDS)))
    return done.environment if done.published else None


def _run(workspace: Workspace, some: random.Random, who: str) -> Any:
    done = workspace.apply(workspace.plans.due("prod", full=True), who=who)
    return done.environment if done.published else None


def _rollback(workspace: Workspace, some: random.Random, who: str) -> Any:
    return workspace.environments.rollback("prod", who=who).environment


def _freeze(workspace: Workspace, some: random.Random, who: str) -> Any:
    workspace.environments.freeze("prod", f"kept{some.getrandbits(60)}", who=who)


def _clean(workspace: Workspace, some: random.Random, who: str) -> Any:
    failed = workspace.maintenance.janitor().failures
    assert not [one for one in failed if "unexpected" in str(one.error)], failed


WORK = (_publish, _publish, _run, _rollback, _freeze, _clean)


def work(folder: Path, log: Path, end: Path, seed: int) -> None:
    """Do one thing after another until told to end; note what was acknowledged."""
    _hurry(pytest.MonkeyPatch())
    some = random.Random(seed)
    for number in range(10**6):
        if end.exists():
            return
        do, who = some.choice(WORK), f"{log.stem}-{seed}-{number}"
        said: dict[str, Any] = {"do": do.__name__, "who": who}
        try:
            with open_fake(folder, FakeSpark(seconds=some.choice((0.0, 0.2)))) as workspace:
                shown = do(workspace, some, who)
                if shown is not None:
                    entries = {str(name): e.snapshot_id for name, e in shown.entries.items()}
                    said |= {"shown": [shown.name, shown.version], "entries": entries}
        except VdeError as error:
            said["error"] = f"{type(error).__name__}: {error}"
        except BaseException:
            said["unexpected"] = traceback.format_exc(limit=-4)
        with log.open("a") as file:
            file.write(json.dumps(said) + "\n")


def _lines(log: Path) -> list[dict[str, Any]]:
    found = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in found if line.endswith("}")]


def attack(root: Path, seed: int, url: str | None = None, seconds: float = 8.0) -> Counter[str]:
    """Let processes work and stop some of them; return how often what was done.

    Args:
        url: The state's database, up to date; by default a file.
        seconds: How long they are stopped now and then.

    Raises:
        AssertionError: Something was lost, or nobody went on; says the seed.
    """
    some, counts = random.Random(seed), Counter[str]()
    state = url or f"sqlite:///{root / 'vde.db'}"
    main = _folder(root, "main", state)
    with open_fake(main) as workspace:
        workspace.apply(workspace.plan("prod"))
    logs = [root / f"w{number}.jsonl" for number in range(WORKERS)]
    folders = [_folder(root, log.stem, state) for log in logs]
    end = root / "end"

    def begin(number: int) -> BaseProcess:
        return start(work, folders[number], logs[number], end, some.getrandbits(32))

    processes = [begin(number) for number in range(WORKERS)]
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(some.uniform(0.05, 0.8))
            number = some.randrange(WORKERS)
            _send(processes[number], signal.SIGSTOP)
            time.sleep(some.choice((0.01, 0.3, IDLE_SECONDS * 1.5, TTL_SECONDS * 1.3)))
            counts["stopped"] += 1
            if some.random() < 0.3:
                _send(processes[number], signal.SIGKILL)
                processes[number].join(PATIENCE)
                processes[number] = begin(number)
                counts["killed"] += 1
            else:
                _send(processes[number], signal.SIGCONT)
        number = some.randrange(WORKERS)
        _send(processes[number], signal.SIGSTOP)
        if url is not None:
            _wait_for_progress(seed, [log for log in logs if log is not logs[number]])
        _send(processes[number], signal.SIGCONT)
        end.touch()
        for process in processes:
            process.join(PATIENCE)
            assert process.exitcode == 0, f"seed {seed}: a process ended with {process.exitcode}"
    finally:
        for process in processes:
            process.kill()
    _check(seed, main, [line for log in logs for line in _lines(log)], counts)
    return counts


@cache
def _server() -> tuple[PostgresServer, str]:
    """Start a server; name an up-to-date database on it to copy."""
    server = PostgresServer()
    atexit.register(server.stop)
    empty = server.create_database()
    StateStore.open(server.url(empty)).close()
    return server, empty


def attack_both(root: Path, seed: int) -> Counter[str]:
    """Attack a file and then, with the same seed, a server."""
    (root / "file").mkdir()
    counts = attack(root / "file", seed)
    server, empty = _server()
    name = server.create_database(empty)
    counts += attack(root / "server", seed, server.url(name))
    server.drop_database(name)
    return counts


def _send(process: BaseProcess, number: signal.Signals) -> None:
    assert process.pid is not None
    if process.is_alive():
        os.kill(process.pid, number)


def _wait_for_progress(seed: int, logs: list[Path]) -> None:
    """Wait until each has done two more things, the first of which may have waited for a lock."""
    before = {log: len(_lines(log)) for log in logs}
    until = time.monotonic() + PATIENCE
    while any(len(_lines(log)) < known + 2 for log, known in before.items()):
        assert time.monotonic() < until, f"seed {seed}: others wait for one that is stopped"
        time.sleep(0.2)


def _check(seed: int, main: Path, lines: list[dict[str, Any]], counts: Counter[str]) -> None:
    """Compare what was acknowledged with what is there."""
    bad = [line for line in lines if "unexpected" in line]
    assert not bad, f"seed {seed}: {bad[0]['do']}\n{bad[0]['unexpected']}"
    counts.update(line["do"].strip("_") for line in lines if "error" not in line)
    counts["refused"] += sum("error" in line for line in lines)
    acknowledged = [line for line in lines if "shown" in line]
    winners = Counter(tuple(line["shown"]) for line in acknowledged)
    assert not winners or max(winners.values()) == 1, f"seed {seed}: two winners {winners}"
    with pytest.MonkeyPatch.context() as patch:
        _hurry(patch)
        _check_state(seed, main, acknowledged)


def _check_state(seed: int, main: Path, acknowledged: list[dict[str, Any]]) -> None:
    with open_fake(main) as workspace:
        workspace.lakehouse.recover()
        store = workspace.store
        for name in ("prod", "dev"):
            numbers = sorted(one.version for one in store.versions.history(name))
            assert numbers == list(range(1, len(numbers) + 1)), f"seed {seed}: {name} {numbers}"
        for line in acknowledged:
            kept = store.versions.at(*line["shown"])
            known = [one.version for one in store.versions.history(line["shown"][0])]
            assert kept is not None, f"seed {seed}: lost {line}, of {known}"
            entries = {str(name): e.snapshot_id for name, e in kept.entries.items()}
            assert (kept.published_by, entries) == (line["who"], line["entries"]), (seed, line)
        prod = store.environments.get("prod")
        assert prod is not None
        for table in store.tables.load(prod.tables).values():
            metadata = workspace.lakehouse.table_metadata(table.ref)
            head = head_of(metadata, table.branch)
            (text,) = [
                one["summary"].get("fake.content", "[]")
                for one in metadata["snapshots"]
                if one["snapshot-id"] == head
            ]
            held = IntervalSet.of(Interval.parse(part) for part, _ in json.loads(text))
            lacks = table.intervals - held
            assert not lacks, f"seed {seed}: {table.ref} lacks {lacks}, which is recorded"
        damage = [one for one in workspace.maintenance.fsck() if one.is_damage]
        assert not damage, f"seed {seed}: {damage}"
