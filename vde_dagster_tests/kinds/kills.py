"""Worlds of one model on real Spark, in which a process dies behind any step of an operation.

A world is a folder: project, state, catalog and tables. It is prepared once and copied for every
kill. Locations of files are absolute, so every copy takes the original's place.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import Plan
from vde_dagster_tests.execution.workers import ShiftedClock
from vde_dagster_tests.faults import ProcessKilled
from vde_dagster_tests.kinds.steps import Steps
from vde_dagster_tests.projects import ProjectFolder

NAME = ModelName("m", "it")
MODEL = "models/it.sql"
QUERY = "SELECT id, day, v FROM lake.events WHERE day BETWEEN @start_date AND @end_date"
FILES = {
    "external_models.yaml": """
        - name: lake.events
          columns: {id: int, day: date, v: int}
    """,
    MODEL: """
        MODEL (name m.it, start '2024-01-01', cron '@daily', audits (not_null(columns := (id))),
          kind KIND);
        QUERY
    """,
}
FIRST = "(1, DATE'2024-01-01', 1), (2, DATE'2024-01-01', 10), (1, DATE'2024-01-02', 2)"
THEN = "(1, DATE'2024-01-03', 4), (3, DATE'2024-01-03', 5), (3, DATE'2024-01-04', -1)"
MORE = "(1, DATE'2024-01-04', 6), (5, DATE'2024-01-05', 6)"
LATE = "(4, DATE'2024-01-02', 7), (2, DATE'2024-01-02', 8)"
LESS = (
    "DELETE FROM lakehouse.lake.events WHERE id = 2",
    "UPDATE lakehouse.lake.events SET v = 9 WHERE id = 1 AND day = DATE'2024-01-01'",
    f"INSERT INTO lakehouse.lake.events VALUES {THEN}",
)
"""Statements after which rows of the source are gone, changed, and new."""
Rows = list[tuple[Any, ...]]


def noon(day: int) -> datetime:
    """The instant of a day's run: the day before is due."""
    return datetime(2024, 1, day, 12, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Life:
    """A kind as it is lived.

    Args:
        name: For people.
        kind: The kind, with what stands behind it in the header.
        query: The model's query.
        late: Whether a run takes in rows of days that were filled before.
        refills: Whether a deployment does, too; else its rows would be added once more.
        runs: Whether time alone makes it due.
        refreshes: Whether it refreshes from changes, and is run after rows of its source went; it
            takes part in no other operation.
        threads: How many batches and models are filled at once.
        change: A file, a text in it, and what stands there when the definition changes.
        files: More files of the project, or others in place of those above.
    """

    name: str
    kind: str
    query: str = QUERY
    late: bool = True
    refills: bool = True
    runs: bool = True
    refreshes: bool = False
    threads: int = 1
    change: tuple[str, str, str] = (MODEL, " FROM lake", ", v + 1 AS more FROM lake")
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_only_current_rows(self) -> bool:
        """Whether its rows depend on the source's current rows alone, and on no earlier run."""
        return self.name.startswith(("FULL", "INCREMENTAL_BY_CHANGES"))


def project_of(life: Life, root: Path) -> ProjectFolder:
    """The project of a life, written to an empty folder."""
    project = ProjectFolder(root, {**FILES, **life.files})
    for old, new in (("KIND", life.kind), ("QUERY", life.query)):
        if old in (root / MODEL).read_text():
            project.edit(MODEL, old, new)
    return project


class World:
    """One model and its source, in a folder that is put back as it was kept.

    Args:
        folder: An empty folder, in memory best.
        life: The model's kind.
    """

    def __init__(self, folder: Path, life: Life) -> None:
        self.life = life
        self.root = folder / "project"
        self.folder = folder
        self.project = project_of(life, self.root)
        with self.process() as workspace:
            session: Any = workspace.engine().session  # type: ignore[attr-defined]
            session.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.lake")
            session.sql("CREATE TABLE lakehouse.lake.events (id INT, day DATE, v INT)")
        self.insert(FIRST)

    @property
    def database(self) -> Path:
        """State and catalog."""
        return self.root / ".vde" / "vde.db"

    @contextmanager
    def process(self, effects: Steps | None = None, before: int = 0) -> Iterator[Workspace]:
        """Start a process.

        Args:
            effects: What watches it, if anything does.
            before: How many processes come after it, to each of which its leases have ended.
        """
        clock = ShiftedClock(timedelta(minutes=-10 * before)) if before else None
        with Workspace.open(self.root, clock=clock, effects=effects) as workspace:
            yield workspace

    def insert(self, values: str) -> None:
        """Let rows come into the source."""
        self.change(f"INSERT INTO lakehouse.lake.events VALUES {values}")

    def change(self, *statements: str) -> None:
        """Change the source's rows."""
        with self.process() as workspace:
            session: Any = workspace.engine().session  # type: ignore[attr-defined]
            for statement in statements:
                session.sql(statement)

    def apply(self, make: Callable[[Workspace], Plan]) -> None:
        """Plan and apply."""
        with self.process() as workspace:
            workspace.apply(make(workspace), concurrency=self.life.threads)

    def rows(self, environment: str = "prod", without: str = "") -> Rows | None:
        """What readers see, without Spark; None before there is anything.

        Args:
            environment: The environment.
            without: A column that is left out.
        """
        with self.process() as workspace:
            if workspace.store.environments.get(environment) is None:
                return None
            found = workspace.queries.read(environment, str(NAME)).to_pylist()
        rows = (tuple(v for name, v in row.items() if name != without) for row in found)
        return sorted(rows, key=str)

    def keep(self) -> None:
        """Keep the folder as it is."""
        _copy(self.root, self.folder / "kept")

    def restore(self) -> None:
        """Put the folder back as it was kept."""
        shutil.rmtree(self.root)
        _copy(self.folder / "kept", self.root)


def _copy(source: Path, target: Path) -> None:
    """Copy a folder in another process: one that closes a file gives up its locks on it."""
    subprocess.run(["cp", "-R", str(source), str(target)], check=True)


@dataclass(frozen=True)
class Operation:
    """What is interrupted.

    Args:
        name: For people.
        before: Prepares the world; what it returns are rows that it has to end with, or None for
            those that are computed from scratch.
        plan: Plans it; a repetition plans again. None where there is nothing to plan.
        at: What plans call now.
        lived_by: Whether a kind knows it.
        act: What is done in place of applying a plan.
    """

    name: str
    before: Callable[[World], Rows | None]
    plan: Callable[[Workspace], Plan] | None
    at: datetime
    lived_by: Callable[[Life], bool] = lambda life: not life.refreshes
    act: Callable[[Workspace], object] | None = None


def _filled(world: World) -> None:
    world.apply(lambda workspace: workspace.plan("prod", now=noon(3)))


def _due(world: World) -> None:
    _filled(world)
    world.insert(f"{THEN}, {LATE}" if world.life.late else THEN)


def _wrong(world: World) -> None:
    _filled(world)
    world.insert(LATE)


def _changed(world: World) -> None:
    _filled(world)
    if world.life.refills:
        world.insert(LATE)
    world.project.edit(*world.life.change)


def _replaced(world: World) -> Rows | None:
    """Show another table than the first version of production, and keep that one's rows."""
    _filled(world)
    first = world.rows()
    world.insert(LATE)
    world.project.edit(*world.life.change)
    world.apply(lambda workspace: workspace.plan("prod", now=noon(3)))
    assert world.rows() != first
    return first


def _changed_source(world: World) -> Rows | None:
    """Let rows of the source come, change and go; return the rows that a fill of all rows has."""
    kind = world.life.kind.replace("refresh changes", "refresh whole")
    kind = kind.replace("INCREMENTAL_BY_CHANGES (key id)", "FULL")
    twin = World(world.folder / "whole", replace(world.life, kind=kind))
    for one in (twin, world):
        _filled(one)
        one.change(*LESS)
    twin.apply(_due_plan)
    return twin.rows()


def _due_plan(workspace: Workspace) -> Plan:
    return workspace.plans.due("prod", now=noon(5))


def _deploy(workspace: Workspace) -> Plan:
    """Deploy what changed, and compute again from the second day on where that can be."""
    made = workspace.plan("prod", forward_only=True, now=noon(3), save=False)
    if not any(model.in_place for model in made.models):
        return workspace.plan("prod", forward_only=True, now=noon(3))
    second = noon(2).replace(hour=0)
    return workspace.plan("prod", forward_only=True, effective_from=second, now=noon(3))


def _restate(workspace: Workspace) -> Plan:
    second = noon(2).replace(hour=0)
    return workspace.plan("prod", restate=(str(NAME),), start=second, now=noon(3))


OPERATIONS = (
    Operation("first fill", lambda world: None, lambda w: w.plan("prod", now=noon(3)), noon(3)),
    Operation("run", _due, _due_plan, noon(5), lambda life: life.runs and not life.refreshes),
    Operation(
        "run after deletes", _changed_source, _due_plan, noon(5), lambda life: life.refreshes
    ),
    Operation(
        "restatement", _wrong, _restate, noon(3), lambda life: life.runs and not life.refreshes
    ),
    Operation("deployment", _changed, _deploy, noon(3)),
    Operation(
        "rollback", _replaced, None, noon(3), act=lambda w: w.environments.rollback("prod", 1)
    ),
)


class Trial:
    """An operation in a world: what its steps are, and how it ends when nobody dies.

    Args:
        world: The world, in which nothing has happened yet.
        operation: The operation.
    """

    def __init__(self, world: World, operation: Operation) -> None:
        self.world, self.operation = world, operation
        self._expected = operation.before(world)
        self.old = world.rows()
        self._plan_id = ""
        if operation.plan is not None:
            with world.process() as workspace:
                self._plan_id = operation.plan(workspace).id
        world.keep()
        self.steps = self._applied(None)
        new = world.rows()
        assert new is not None
        self.new = new

    def check_from_scratch(self) -> None:
        """Compute the model, as it is now, from what its source says now, in a new table.

        Or compare with the rows that the operation has to end with, where those are known. To be
        asked before anybody dies. Rows that a change in place left as they were have none of the
        column that it added.
        """
        world = self.world
        if self._expected is not None:
            assert world.rows() == self._expected, f"{world.life.name}: {self.operation.name}"
            return
        world.project.edit(MODEL, "MODEL (", "MODEL (stamp 'anew', ")
        world.apply(lambda workspace: workspace.plan("fresh", now=self.operation.at))
        scratch = world.rows("fresh", "more")
        assert world.rows(without="more") == scratch, f"{world.life.name}: {self.operation.name}"

    def pairs(self) -> list[tuple[str, str]]:
        """What a kill is between: by its number from 1, the step behind it and the one ahead."""
        return list(zip(self.steps, [*self.steps[1:], "the end"], strict=True))

    def unmet(self, met: set[tuple[str, str]], part: int = 0, parts: int = 1) -> list[int]:
        """Return where to kill to be between pairs of steps that nobody met, and note them.

        Where all were met, it is between Spark's last commit and what follows.

        Args:
            met: The pairs that somebody met.
            part: From 0, which of the parts; other parts have other steps.
            parts: In how many parts the steps are met.
        """
        pairs = self.pairs()
        found = []
        for number, pair in enumerate(pairs, 1):
            if pair not in met and pairs.index(pair) % parts == part:
                met.add(pair)
                found.append(number)
        commits = [n for n, step in enumerate(self.steps, 1) if step.startswith("spark.commit")]
        return found or commits[-1:]

    def kill(self, *last: int, again: bool) -> None:
        """Die behind a step, in the operation and then in its repetitions; let others finish.

        Args:
            last: The numbers of the steps; a repetition may live on when it has fewer.
            again: Whether whoever comes next plans again, rather than apply the same plan.
        """
        where = f"{self.world.life.name}: {self.operation.name}, killed behind {last}"
        self.world.restore()
        for number, step in enumerate(last):
            self._applied(step, before=len(last) - number, again=again and number > 0)
            seen = self.world.rows()
            assert seen in (self.old, self.new), where
        with self.world.process() as workspace:
            self._doing(workspace, again)()
        assert self.world.rows() == self.new, where
        self._check_nothing_is_left(where)

    def kill_before_changes(self, number: int) -> None:
        """Die behind a step; the next run comes a day later, after the source changed again."""
        where = f"{self.world.life.name}: killed behind {number}, before more changes"
        self.world.restore()
        self._applied(number, before=1)
        assert self.world.rows() in (self.old, self.new), where
        assert self._run_later() == self.later, where
        self._check_nothing_is_left(where, noon(6))

    @cached_property
    def later(self) -> Rows | None:
        """The rows after a further run, if nobody dies."""
        self.world.restore()
        self._applied(None)
        return self._run_later()

    def _run_later(self) -> Rows | None:
        self.world.change(
            "DELETE FROM lakehouse.lake.events WHERE id = 3",
            f"INSERT INTO lakehouse.lake.events VALUES {MORE}",
        )
        self.world.apply(lambda workspace: workspace.plans.due("prod", now=noon(6)))
        return self.world.rows()

    def _applied(self, last: int | None, *, before: int = 0, again: bool = False) -> list[str]:
        steps = Steps(self.world.database, last)
        try:
            with self.world.process(steps, before) as workspace:
                do = self._doing(workspace, again)
                session: Any = workspace.engine().session  # type: ignore[attr-defined]
                steps.taken.clear()
                with steps.watching(session):
                    do()
        except ProcessKilled:
            assert steps.dead
        finally:
            steps.close()
        return steps.taken

    def _doing(self, workspace: Workspace, again: bool) -> Callable[[], object]:
        """Prepare what is watched: a plan is made before."""
        act, plan = self.operation.act, self.operation.plan
        if act is not None:
            return lambda: act(workspace)
        assert plan is not None
        made = plan(workspace) if again else workspace.store.plans.load(self._plan_id)
        return lambda: workspace.apply(made, concurrency=self.world.life.threads)

    def _check_nothing_is_left(self, where: str, at: datetime | None = None) -> None:
        """What is done is not planned again, and the janitor leaves no branch of an attempt."""
        with self.world.process() as workspace:
            at = at or self.operation.at
            assert workspace.plans.due("prod", now=at, save=False).is_empty, where
        days = ShiftedClock(timedelta(days=9))
        for _ in range(2):
            with Workspace.open(self.world.root, clock=days) as workspace:
                # Iceberg refuses a commit by Spark before the shifted time of the janitor's own.
                failures = workspace.maintenance.janitor(compact=False).failures
                assert failures == (), f"{where}: {failures}"
        with self.world.process() as workspace:
            for table in workspace.store.ledger.tables():
                refs = workspace.lakehouse.table_metadata(table.ref)["refs"]
                assert list(refs) == ["main"], where
