"""Real processes of a shop that get a real SIGKILL at a random moment, on any engine and state.

Each trial starts one operation in a process of its own, kills it (or the engine's own process)
somewhere within the time that the operation usually takes, and repeats it at once, as a person
does. Then: the repetition was not refused for the dead process, what was acknowledged is in the
history, the versions are without a gap, every model's rows are what its definition makes of the
source, a receiver holds what the view shows, and `fsck` finds no damage.
"""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from sqlalchemy import text

import vde_dagster.spark.engine
from vde_dagster.errors import ConflictError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.ci.checking import check_pull_request
from vde_dagster.plugins.ci.deploying import deploy
from vde_dagster.plugins.ci.forges.choose import choose_forge
from vde_dagster.plugins.sync.definitions import read_syncs
from vde_dagster.plugins.sync.syncs import Syncs
from vde_dagster.spark.session.warm import find_engines
from vde_dagster.state.db.schema import SCHEMA_VERSION, VERSION_TABLE
from vde_dagster.state.store import StateStore
from vde_dagster_tests.ci.conftest import git
from vde_dagster_tests.conftest import SMALL_SPARK
from vde_dagster_tests.execution.kill_sinks import Sinks
from vde_dagster_tests.execution.workers import start
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.duck_engine import DuckEngine, open_duck
from vde_dagster_tests.serve.shops import noon
from vde_dagster_tests.state.released_states import (
    RELEASED,
    restore_in_postgres,
    restore_in_sqlite,
)
from vde_dagster_tests.sync.world import FILES, ROWS

Engine = Literal["duck", "spark"]
PATIENCE = 300.0
LAST_DAY = 9
"""The last day on which something happens; the source has rows of six."""
REFUSED = ("is in use by", "since the plan was made")
"""Words of the refusals of an approval that comes second."""
SOURCE: list[tuple[str, int, float]] = sorted(ast.literal_eval(f"[{ROWS}]"))
"""The rows of the source: day, customer, amount."""


@dataclass
class World:
    """A shop, its state, and the file in which its processes note what was acknowledged.

    Args:
        root: An empty folder.
        state_url: The state's database; `sqlite:///…` or a server's.
        sinks: The targets of its syncs.
        engine: The engine: DuckDB in the process, or a warm Spark.
        chance: Decides each moment.
    """

    root: Path
    state_url: str
    sinks: Sinks
    engine: Engine
    chance: random.Random
    day: int = 3
    factor: int = 1
    usual: dict[str, float] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        spark = "\n".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in SMALL_SPARK.items())
        settings = (
            f'[tool.vde]\nid = "shop"\nstate_url = "{self.state_url}"\n'
            f'warehouse = "{self.root / "warehouse"}"\nhistory_versions = 1000\n'
            "janitor_grace_hours = 1\n"
            f'[tool.vde.spark]\nmaster = "local[1]"\n[tool.vde.spark.config]\n{spark}\n'
        )
        files = {
            **FILES,
            "pyproject.toml": settings,
            ".gitignore": ".vde/\n",
            "syncs.yaml": yaml.safe_dump(self.sinks.definitions()),
        }
        self.folder = ProjectFolder(self.root / "shop", files)
        with self.open() as workspace:
            workspace.apply(workspace.plan("prod", now=noon(self.day)))

    def open(self, root: Path | None = None) -> Workspace:
        """Open the project, on this world's engine."""
        return open_engine(root or self.folder.root, self.engine)

    def edit(self) -> None:
        """Write another definition of a model."""
        written = FILES["models/latest.sql"]
        self.factor += 1
        self.folder.write("models/latest.sql", written.replace("* 1", f"* {self.factor}"))


def open_engine(root: Path, engine: Engine) -> Workspace:
    """Open a project on DuckDB, or on a Spark that stays in the background."""
    return open_duck(root) if engine == "duck" else Workspace.open(root)


def _apply(workspace: Workspace, said: dict[str, Any]) -> Any:
    return workspace.apply(workspace.plan("prod", now=noon(said["day"])), who=said["who"])


def _run(workspace: Workspace, said: dict[str, Any]) -> Any:
    return workspace.apply(workspace.plans.due("prod", now=noon(said["day"])), who=said["who"])


def _rollback(workspace: Workspace, said: dict[str, Any]) -> Any:
    if workspace.store.environments.get("prod") is None:
        return None
    return workspace.environments.rollback("prod", who=said["who"])


def _janitor(workspace: Workspace, said: dict[str, Any]) -> Any:
    failures = workspace.maintenance.janitor().failures
    assert not failures, failures


def _sync(workspace: Workspace, said: dict[str, Any]) -> Any:
    Syncs(workspace).run(read_syncs(workspace)[said["sync"]], "prod")


def _deploy(workspace: Workspace, said: dict[str, Any]) -> Any:
    done = deploy(workspace, choose_forge(workspace))
    assert done.outcome in ("published", "unchanged"), done


WORK: dict[str, Callable[[Workspace, dict[str, Any]], Any]] = {
    "apply": _apply,
    "run": _run,
    "rollback": _rollback,
    "janitor": _janitor,
    "sync postgresql": _sync,
    "sync http": _sync,
    "sync file": _sync,
    "sync lake": _sync,
    "ci deploy": _deploy,
    "engine": _apply,
}


APPROVALS = {"approvals": 1, "approvals of two plans": 2}
"""How many plans of one environment two processes of Dagster approve at once."""
_VERSION = text(f"SELECT version_num FROM {VERSION_TABLE}")


def work(root: Path, engine: Engine, name: str, said: dict[str, Any], log: Path) -> None:
    """Do one operation in this process; note its begin, and what was acknowledged."""
    log.with_suffix(".begun").touch()
    with open_engine(root, engine) as workspace:
        done = WORK[name](workspace, said)
        shown = getattr(done, "environment", None) if getattr(done, "published", True) else None
        version = [shown.name, shown.version] if shown is not None else None
    with log.open("a") as file:
        file.write(json.dumps({"do": name, **said, "shown": version}) + "\n")


def migrate(url: str, log: Path) -> None:
    """Open a state that an earlier version wrote."""
    log.with_suffix(".begun").touch()
    StateStore.open(url).close()


def approve(root: Path, home: Path, engine: Engine, plan_id: str, log: Path) -> None:
    """Approve a plan as Dagster does, in a process of its own; note its error."""
    import dagster as dg

    from vde_dagster_tests.orchestration.conftest import run_job

    if engine == "duck":
        vde_dagster.spark.engine.SparkEngine = _DuckInDagster  # type: ignore[attr-defined]
    log.with_suffix(".begun").touch()
    try:
        with dg.DagsterInstance.local_temp(str(home)) as instance:
            run_job(ProjectFolder(root), instance, "vde_apply_job", partition=plan_id)
    except Exception:
        log.write_text(traceback.format_exc())


class _DuckInDagster:
    """The engine that Dagster's steps make, without a JVM."""

    def __new__(cls, _: object, __: object, lakehouse: Any, **___: object) -> Any:
        engine = DuckEngine()
        engine.attach(lakehouse)
        return engine


def trial(world: World, name: str) -> bool:
    """Kill one operation and repeat it; say whether it was killed before it had ended.

    Raises:
        AssertionError: Something was lost, or the repetition was refused.
    """
    world.number += 1
    prepare(world, name)
    sync = name.removeprefix("sync ")
    said = {"day": world.day, "who": f"{name}-{world.number}", "sync": sync}
    log = world.root / f"{world.number}.jsonl"
    root = world.root / f"merged{world.number}" if name == "ci deploy" else world.folder.root
    usual = world.usual.get(name, 2.0 if world.engine == "duck" else 8.0)
    process = start(work, root, world.engine, name, said, log)
    killed = _kill(world, name, process, log, world.chance.uniform(0, usual))
    if not killed:
        assert process.exitcode == 0, f"{name} failed when it was not killed"
    began = time.monotonic()
    if name != "rollback" or not log.exists():
        _again(world, root, name, said)
    world.usual[name] = 0.5 * usual + 0.5 * (time.monotonic() - began)
    check(world, log, name)
    return killed


def prepare(world: World, name: str) -> None:
    """Let there be something to do."""
    if name in ("apply", "engine"):
        world.edit()
    elif name == "run":
        world.day = min(world.day + 1, LAST_DAY)
    elif name in ("rollback", "janitor") or name.startswith("sync "):
        world.edit()
        _again(world, world.folder.root, "apply", {"day": world.day, "who": "before"})
    elif name == "ci deploy":
        _merge(world)


def _merge(world: World) -> None:
    """Check a pull request and merge it; deployed is a clone with the merge."""
    bare, source = world.root / "shop.git", world.folder.root
    if not bare.exists():
        git(world.root, "init", "-q", "--bare", "-b", "main", str(bare))
        git(source, "init", "-q", "-b", "main")
        git(source, "remote", "add", "origin", str(bare))
    git(source, "checkout", "-q", "-B", "main")
    git(source, "add", ".")
    git(source, "commit", "-q", "--allow-empty", "-m", "before")
    git(source, "push", "-q", "-f", "origin", "main")
    with world.open() as workspace:
        workspace.apply(workspace.plan("prod", now=noon(world.day)))
    branch = f"edit{world.number}"
    git(source, "checkout", "-q", "-b", branch)
    world.edit()
    git(source, "commit", "-q", "-am", "an edit")
    git(source, "push", "-q", "origin", branch)
    with world.open() as workspace:
        check_pull_request(workspace, choose_forge(workspace), world.number)
    git(source, "checkout", "-q", "main")
    git(source, "merge", "-q", "--no-ff", "-m", "merges", branch)
    git(source, "push", "-q", "origin", "main")
    merged = world.root / f"merged{world.number}"
    git(world.root, "clone", "-q", "-b", "main", str(bare), str(merged))


def _kill(world: World, name: str, process: Any, log: Path, after: float) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not log.with_suffix(".begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.join(after)
    if name == "engine":
        killed = _kill_engine(world)
        process.join(PATIENCE)
        return killed
    alive = process.is_alive()
    if alive:
        os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE)
    return bool(alive and process.exitcode == -signal.SIGKILL)


def _kill_engine(world: World) -> bool:
    """Kill the engine's server, its JVM, or both; DuckDB has none."""
    if world.engine == "duck":
        return False
    found = find_engines(world.folder.root / ".vde" / "engine")
    for engine in found:
        both = [engine.pid, engine.jvm_pid]
        for pid in world.chance.choice([both[:1], both[1:], both, both[::-1]]):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # The server ended with its JVM, or the JVM with its server.
    return bool(found)


def _again(world: World, root: Path, name: str, said: dict[str, Any]) -> None:
    """Repeat an operation to its end in this process, as the next one does."""
    try:
        with world.open(root) as workspace:
            WORK[name](workspace, said)
    except ConflictError as error:
        raise AssertionError(f"{name} was refused for a process that is dead: {error}") from error


def check(world: World, log: Path, name: str) -> None:
    """Compare what is there with what was acknowledged, and with what definitions make."""
    said = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    with world.open() as workspace:
        history = {one.version: one for one in workspace.store.versions.history("prod")}
        assert sorted(history) == list(range(1, len(history) + 1)), sorted(history)
        for line in said:
            if line["shown"]:
                kept = history.get(line["shown"][1])
                assert kept is not None, f"lost {line}"
                assert kept.published_by == line["who"], (line, kept)
        damage = [one for one in workspace.maintenance.fsck() if one.is_damage]
        assert not damage, damage
        daily = workspace.queries.read("prod", "marts.daily").to_pylist()
        latest = workspace.queries.read("prod", "marts.latest").to_pylist()
        with workspace.store.database.reading() as conn:
            held = workspace.store.leases.active_resources(conn)
    assert not [one for one in held if name != "engine" and one.startswith("environment/")], held
    # A rollback may have taken another definition or day back; plans fill what they change.
    publishes = name in ("apply", "engine", "ci deploy", "approvals")
    last = max(row["day"].day for row in daily)
    assert last == min(world.day - 1, 6) or name != "run", (last, world.day)
    assert sorted((str(row["day"]), row["customer"], float(row["amount"])) for row in daily) == [
        row for row in SOURCE if row[0] <= f"2024-01-{last:02}"
    ]
    amounts: dict[Any, list[Any]] = {}
    for row in daily:
        amounts.setdefault(row["customer"], []).append(row["amount"])
    (factor,) = {
        round(float(row["amount"]) / float(max(amounts[row["customer"]]))) for row in latest
    }
    assert factor == world.factor or not publishes, (name, factor, world.factor)
    assert sorted((row["customer"], row["orders"]) for row in latest) == sorted(
        (customer, len(found)) for customer, found in amounts.items()
    )
    if name.startswith("sync "):
        world.sinks.assert_equal(name.removeprefix("sync "), latest, daily)


def migration(world: World, empty: str | None = None) -> bool:
    """Kill the upgrade of a state; the next opening finishes it, and nothing is lost.

    Args:
        world: The trial's world.
        empty: An empty database of a server to write the old state to; None for a file.
    """
    world.number += 1
    log = world.root / f"{world.number}.jsonl"
    url = old_state(world, empty)
    process = start(migrate, url, log)
    while not log.with_suffix(".begun").exists():
        time.sleep(0.001)
    process.join(world.chance.uniform(0, world.usual.get("migrate", 0.3)))
    killed = process.is_alive()
    if killed:
        process.kill()
    process.join(PATIENCE)
    began = time.monotonic()
    store = StateStore.open(url)
    world.usual["migrate"] = max(0.05, time.monotonic() - began)
    found = store.database.rows(_VERSION)[0][0]
    current = store.environments.get("prod")
    store.close()
    assert found == SCHEMA_VERSION
    assert current is not None
    assert current.entries
    return killed


def old_state(world: World, url: str | None) -> str:
    """Write a state as an earlier version left it; return its URL.

    Args:
        world: The trial's world.
        url: An empty database of a server; None for a file.
    """
    path = world.root / f"old{world.number}.db"
    released = world.chance.choice(RELEASED[:-1])
    if url is None:
        return restore_in_sqlite(released, path)
    return restore_in_postgres(released, path, url)


def approvals(world: World, *, plans: int = 1) -> bool:
    """Approve in two processes of Dagster at once, and perhaps kill one of them.

    Args:
        world: The trial's world.
        plans: 1 to approve one plan twice, 2 to approve two plans of one environment.
    """
    world.number += 1
    home = world.root / "dagster"
    home.mkdir(exist_ok=True)
    made: list[str] = []
    world.edit()
    with world.open() as workspace:
        before = len(workspace.store.versions.history("prod"))
        for later in range(plans):
            now = noon(world.day + later)
            made.append(workspace.plan("prod", author="anna", now=now).id)
    _add_partitions(world.folder.root, home, made)
    ids = (made * 2)[:2]
    logs = [world.root / f"{world.number}-{number}.jsonl" for number in (1, 2)]
    both = [
        start(approve, world.folder.root, home, world.engine, plan_id, log)
        for plan_id, log in zip(ids, logs, strict=True)
    ]
    killed = False
    if world.chance.random() < 0.5:
        victim = world.chance.choice(both)
        victim.join(world.chance.uniform(0, world.usual.get("approve", 20.0)))
        killed = victim.is_alive()
        victim.kill()
    began = time.monotonic()
    for process in both:
        process.join(PATIENCE)
        assert not process.is_alive()
    if not killed:
        world.usual["approve"] = max(1.0, time.monotonic() - began)
    errors = [log.read_text() for log in logs if log.exists()]
    with world.open() as workspace:
        new = workspace.store.versions.history("prod")[: -before or None]
        published = [one.plan_id for one in reversed(new)]
        assert set(published) <= set(made), (published, made)
        assert len(set(published)) == len(published), f"{published}: a plan was published twice"
        if not published:  # The killed one had the lease; the other gave up: a person repeats it.
            assert killed, errors
            published = [ids[0]]
            workspace.apply(workspace.store.plans.load(ids[0]))
        assert len(published) == 1 or plans > 1
        for error in errors:
            assert killed or any(words in error for words in REFUSED), error
    check(world, world.root / "none", "approvals")
    return killed


def _add_partitions(root: Path, home: Path, plans: list[str]) -> None:
    """Let Dagster know plans, in storage that it makes for one process at a time."""
    import dagster as dg

    from vde_dagster.orchestration.models.translator import VdeTranslator

    with dg.DagsterInstance.local_temp(str(home)) as instance:
        instance.add_dynamic_partitions(str(VdeTranslator(root).names.plans.name), plans)
        instance.get_run_records(limit=1)


def counts_text(counts: Counter[str], killed: Counter[str]) -> str:
    """Say how many trials there were, and in how many a process was killed before its end."""
    return ", ".join(f"{name} {killed[name]}/{counts[name]}" for name in sorted(counts))
