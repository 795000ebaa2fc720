"""A world that outlives processes, and the operations that are interrupted in it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from vde_dagster.errors import AuditFailedError, UsageError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.maintenance.janitor import JanitorReport
from vde_dagster.state.db.effects import Effects
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.execution.look import Warehouse, look
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.lakehouse.oracle import disconnect, query
from vde_dagster_tests.lakehouse.protocol import fast_folder
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.state.postgres_server import PostgresServer

NOW = datetime(2024, 1, 4, 12, tzinfo=timezone.utc)
FILES = {
    **{path: text for path, text in SHOP.items() if not path.endswith("top.sql")},
    "models/marts/daily.sql": """
        MODEL (name marts.daily, start '2024-01-01', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 2),
          audits (not_null(columns := (day, revenue))));
        SELECT day, count(*) AS orders, sum(amount) AS revenue
        FROM staging.orders WHERE day BETWEEN @start_date AND @end_date GROUP BY day
    """,
    "models/marts/week.sql": """
        MODEL (name marts.week, kind FULL);
        SELECT sum(revenue) AS revenue FROM marts.daily
    """,
}
VIRTUAL_UPDATE = """
ON_VIRTUAL_UPDATE_BEGIN;
GRANT SELECT ON VIEW @this_model TO ROLE analysts;
ON_VIRTUAL_UPDATE_END;
"""
GRANTS = frozenset(
    f"GRANT SELECT ON VIEW `lakehouse`.`marts`.`{model}` TO ROLE analysts"
    for model in ("customers", "daily")
)


@dataclass
class World:
    """A project, its database and its warehouse in one folder, and the time.

    Args:
        folder: Where everything is.
        clock: The time.
        failing: Models whose audits find rows.
        state_url: A database elsewhere, or None for a SQLite file in the folder.
        sources: Numbers the state of the sources.
        ran: The statements that ran.
    """

    folder: Path
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))
    failing: tuple[str, ...] = ()
    state_url: str | None = None
    shared: dict[str, Any] = field(default_factory=dict)
    sources: int = 0
    ran: list[str] = field(default_factory=list)

    @property
    def project(self) -> ProjectFolder:
        """The project's files."""
        return ProjectFolder(self.folder / "project")

    @property
    def url(self) -> str:
        """The database."""
        return self.state_url or f"sqlite:///{self.folder / 'project' / '.vde' / 'vde.db'}"

    def process(self, effects: Effects | None = None) -> Workspace:
        """Start a process; only the unchanged project's parsed files are carried over."""
        engine = FakeSpark(self.failing, sources=self.sources, statements=self.ran)
        return open_fake(
            self.folder / "project",
            engine,
            clock=self.clock,
            effects=effects,
            remembered=self.shared,
            state_url=self.state_url,
        )

    def edit(self, path: str, old: str, new: str) -> None:
        """Change the project."""
        self.project.edit(path, old, new)
        self.shared.pop("parsed", None)


@dataclass(frozen=True)
class Operation:
    """What is interrupted: how the world is before, and what is done to it.

    Args:
        name: For people.
        before: Prepares the world.
        run: The command; a repetition is the same call in a new process.
        ends_well: Whether it succeeds when nothing goes wrong.
        statements: What has to have run once it is done.
    """

    name: str
    before: Callable[[World], None]
    run: Callable[[Workspace], object]
    ends_well: bool = True
    statements: frozenset[str] = frozenset()


def apply_again(workspace: Workspace, environment: str = "prod") -> object:
    """`vde apply ENV`: plan and apply; a repetition makes a new plan."""
    return workspace.apply(workspace.plan(environment), concurrency=1, who="me")


def apply_stored(workspace: Workspace, environment: str = "prod") -> object:
    """Apply the newest stored plan, which a repetition does too."""
    plan = workspace.store.plans.load(workspace.store.plans.recent(environment)[0].id)
    return workspace.apply(plan, concurrency=1, who="me")


def deploy(workspace: Workspace) -> object:
    """`vde apply prod --forward-only --effective-from …`; a repetition may find it done."""
    since = NOW.replace(day=2, hour=0)
    try:
        plan = workspace.plan("prod", forward_only=True, effective_from=since)
    except UsageError:
        plan = workspace.plan("prod", forward_only=True)
    return workspace.apply(plan, concurrency=1, who="me")


def preview(workspace: Workspace) -> object:
    """`vde apply dev --forward-only`."""
    plan = workspace.plan("dev", forward_only=True)
    return workspace.apply(plan, concurrency=1, who="me")


def run_again(workspace: Workspace) -> object:
    """`vde run prod`."""
    return workspace.apply(workspace.plans.due("prod"), concurrency=1, who="me")


def _published(world: World) -> None:
    apply_again(world.process())
    world.clock.advance(hours=1)


def _change(world: World) -> None:
    world.sources = 1
    world.edit("models/marts/customers.sql", "sum(amount)", "1 + sum(amount)")
    world.edit("models/marts/daily.sql", "sum(amount) AS", "2 * sum(amount) AS")


def _changed(world: World) -> None:
    _published(world)
    _change(world)


TYPED = (
    "SELECT day, count(*) AS orders, sum(amount) AS revenue",
    "SELECT CAST(day AS STRING) AS day, CAST(count(*) AS STRING) AS orders, "
    "CAST(sum(amount) AS STRING) AS revenue",
)
"""An edit of `marts.daily`: the engine of these tests knows only text."""
WITH_A_COLUMN = ("AS revenue", "AS revenue, CAST(max(amount) AS STRING) AS most")
"""An edit of `marts.daily` after that one, which a table takes in place."""


def _changed_in_place(world: World) -> None:
    """Add a column to what production shows."""
    world.edit("models/marts/daily.sql", *TYPED)
    _published(world)
    world.edit("models/marts/daily.sql", *WITH_A_COLUMN)


def _previewed(world: World) -> None:
    _changed_in_place(world)
    preview(world.process())
    world.clock.advance(hours=1)


def _much_previewed(world: World) -> None:
    _previewed(world)
    world.process().environments.drop("dev")
    world.clock.advance(days=40)
    world.process().maintenance.janitor()
    world.clock.advance(days=2)


def _changed_and_due(world: World) -> None:
    _published(world)
    world.edit("models/marts/customers.sql", "sum(amount)", "1 + sum(amount)")
    world.clock.advance(days=2)
    world.process().plan("prod")


def _changed_and_failing(world: World) -> None:
    _changed(world)
    world.failing = ("marts.customers",)


def _due(world: World) -> None:
    _published(world)
    world.clock.advance(days=3)


def _due_and_planned(world: World) -> None:
    _due(world)
    world.process().plans.due("prod")


def _corrected(world: World) -> None:
    """Correct the sources of two days, and store the plan that computes them again."""
    _due(world)
    run_again(world.process())
    world.clock.advance(hours=1)
    world.sources = 1
    first = NOW.replace(day=2, hour=0)
    world.process().plan(
        "prod", restate=("marts.daily",), start=first, end=first + timedelta(days=2)
    )


def _with_statements(world: World) -> None:
    _published(world)
    for model in ("customers", "daily"):
        path = world.project.root / f"models/marts/{model}.sql"
        path.write_text(f"{path.read_text()};\n{VIRTUAL_UPDATE}")
    _change(world)


def _published_twice(world: World) -> None:
    _changed(world)
    apply_again(world.process())
    world.clock.advance(hours=1)


def freeze(workspace: Workspace) -> object:
    """`vde freeze prod@1 close`; a repetition finds it done."""
    found = workspace.store.environments.get("close")
    return found or workspace.environments.freeze("prod@1", "close", who="me")


def _frozen(world: World) -> None:
    """Freeze a version twice; production moves on, and one of them is over."""
    _published_twice(world)
    freeze(world.process())
    world.process().environments.freeze("prod@1", "over")
    world.clock.advance(days=40)
    run_again(world.process())
    world.process().environments.drop("over")
    world.clock.advance(days=40)


def _ran_over(world: World) -> None:
    """Fill what production and `dev` share with other rows, and tables of `dev`'s own with them."""
    _published(world)
    world.edit("models/marts/week.sql", "sum(revenue)", "max(revenue)")
    apply_again(world.process(), "dev")
    world.clock.advance(days=3)
    world.sources = 1
    run_again(world.process())
    world.clock.advance(hours=1)
    world.process().apply(world.process().plans.due("dev"), concurrency=1, who="me")
    world.clock.advance(hours=1)


def _with_dev(world: World) -> None:
    _changed(world)
    apply_again(world.process(), "dev")
    world.clock.advance(hours=1)


def _much_to_clean(world: World) -> None:
    _with_dev(world)
    world.process().environments.drop("dev")
    _due(world)
    injector = FaultInjector(Fault("publish.commit"), clock=world.clock, in_process=True)
    with suppress(ProcessKilled):
        run_again(world.process(injector))
    world.clock.advance(days=40)


def _given_up(world: World) -> None:
    _much_to_clean(world)
    world.process().maintenance.janitor()
    world.clock.advance(days=2)


OPERATIONS = (
    Operation("plan", lambda world: None, lambda workspace: workspace.plan("prod")),
    Operation("first apply", lambda world: None, apply_again),
    Operation("apply of a change", _changed, apply_again),
    Operation("apply of a stored plan", _changed_and_due, apply_stored),
    Operation("run", _due, run_again),
    Operation("run of a stored plan", _due_and_planned, apply_stored),
    Operation("apply with a failing audit", _changed_and_failing, apply_again, ends_well=False),
    Operation("restatement", _corrected, apply_stored),
    Operation("virtual update", _with_statements, apply_again, statements=GRANTS),
    Operation("preview", _changed_in_place, preview),
    Operation("deployment in place", _changed_in_place, deploy),
    Operation("deployment of a preview", _previewed, deploy),
    Operation(
        "clean-up of previews", _much_previewed, lambda workspace: workspace.maintenance.janitor()
    ),
    Operation(
        "rollback", _published_twice, lambda workspace: workspace.environments.rollback("prod", 1)
    ),
    Operation("freeze", _published_twice, freeze),
    Operation(
        "clean-up of what is frozen", _frozen, lambda workspace: workspace.maintenance.janitor()
    ),
    Operation(
        "rollback of data", _ran_over, lambda workspace: workspace.environments.rollback("prod", 1)
    ),
    Operation(
        "rollback of dev", _ran_over, lambda workspace: workspace.environments.rollback("dev", 1)
    ),
    Operation("drop", _with_dev, lambda workspace: workspace.environments.drop("dev")),
    Operation("clean-up", _much_to_clean, lambda workspace: workspace.maintenance.janitor()),
    Operation("clean-up after grace", _given_up, lambda workspace: workspace.maintenance.janitor()),
)
TAKEN_OVER = tuple(
    operation
    for operation in OPERATIONS
    if operation.name
    in ("first apply", "apply of a stored plan", "run", "run of a stored plan", "rollback")
)
"""The operations that hold a lease for long."""


class Stage:
    """Prepares an operation's world once and copies it for every case.

    Locations of files are absolute, so every copy takes the original's place.

    Args:
        operation: The operation.
        empty_database: An up-to-date SQLite file with nothing in it.
        server: A PostgreSQL server to use instead, with the name of such a database.
    """

    def __init__(
        self,
        operation: Operation,
        empty_database: Path,
        server: tuple[PostgresServer, str] | None = None,
    ) -> None:
        self.operation = operation
        self._server = server[0] if server else None
        self._database = self._template = server[1] if server else ""
        self._folder = Path(fast_folder())
        self._kept = self._folder.with_name(self._folder.name + "-kept")
        ProjectFolder(self._folder / "project", FILES)
        world = World(self._folder, state_url=self._copied_database())
        (self._folder / "project" / ".vde").mkdir()
        shutil.copy(empty_database, self._folder / "project" / ".vde" / "vde.db")
        operation.before(world)
        self._time, self._failing = world.clock.time, world.failing
        self._sources = world.sources
        self._shared = world.shared
        self._template = self._database
        self._release()
        # The copies' connections are to another database; that they all have one name lets them
        # keep what SQLAlchemy has compiled.
        self._shared.pop("engine", None)
        shutil.copytree(self._folder, self._kept)
        self.old = look(world.url).visible()
        world = self.world()
        injector = FaultInjector(clock=world.clock, in_process=True)
        run(operation, world.process(injector))
        # Whether a lease is renewed depends on the load of the machine.
        self.points = [point for point in injector.passed if "lease.heartbeat" not in point]
        self.new = look(world.url).visible()

    def world(self) -> World:
        """A fresh copy, in which nothing has happened yet."""
        self._release()
        shutil.rmtree(self._folder)
        shutil.copytree(self._kept, self._folder)
        url = self._copied_database()
        clock = FakeClock(self._time)
        return World(self._folder, clock, self._failing, url, self._shared, self._sources)

    def close(self) -> None:
        """Remove everything."""
        self._release()
        if self._server is not None:
            self._server.drop_database(self._database)
            self._server.drop_database(self._template)
        shutil.rmtree(self._folder)
        shutil.rmtree(self._kept)

    def occurrences(self) -> list[tuple[str, int]]:
        """Every side effect as (point, at which passage)."""
        counts: Counter[str] = Counter()
        found = []
        for point in self.points:
            counts[point] += 1
            found.append((point, counts[point]))
        return found

    def pauses(self) -> list[int]:
        """After how many side effects another process can work: not inside a transaction.

        The last side effect gives the lease back; whoever comes then takes nothing over.
        """
        numbered = enumerate(self.points[:-1], 1)
        return [number for number, point in numbered if " " not in point]

    def _release(self) -> None:
        """Close all connections: the database that they are to goes now, or is copied."""
        if "engine" in self._shared:
            self._shared["engine"].dispose()
        disconnect()

    def _copied_database(self) -> str | None:
        """Copy the prepared database of a server, and return the copy's URL."""
        if self._server is None:
            return None
        again = None if self._database == self._template else self._database
        if again is not None:
            self._server.drop_database(again)
        self._database = self._server.create_database(self._template, again)
        return self._server.url(self._database)


def run(operation: Operation, workspace: Workspace) -> bool:
    """Run an operation's command; return whether it was acknowledged."""
    try:
        result = operation.run(workspace)
    except AuditFailedError:
        assert not operation.ends_well
        return False
    finally:
        workspace.close()
    assert operation.ends_well
    return not (isinstance(result, JanitorReport) and result.failures)


def interrupt(operation: Operation, world: World, fault: Fault) -> bool:
    """Run an operation with a fault; return whether it was acknowledged."""
    injector = FaultInjector(fault, clock=world.clock, in_process=True)
    try:
        return run(operation, world.process(injector))
    except (ProcessKilled, VdeError):
        return False


def recover(operation: Operation, world: World) -> Warehouse:
    """Repeat the command in a new process, once the leases of dead owners have ended."""
    world.clock.advance(minutes=5)
    run(operation, world.process())
    assert operation.statements <= set(world.ran), "a statement has not run"
    waiting = "SELECT count(*) FROM vde_journal WHERE step LIKE 'on virtual update%'"
    assert list(query(world.url, waiting)) == [(0,)]
    return look(world.url)


def check_case(stage: Stage, faults: Sequence[Fault], *, clean: bool = True) -> None:
    """Let faults strike one after the other, then recover, and check all that has to hold.

    Args:
        stage: The operation's prepared world.
        faults: What goes wrong: first in the command, then in its repetitions.
        clean: Whether to look for what is left once the grace time is over.
    """
    world = stage.world()
    where = f"{stage.operation.name}: {faults}"
    for fault in faults:
        acknowledged = interrupt(stage.operation, world, fault)
        seen = look(world.url).visible()
        assert seen in (stage.old, stage.new), where
        assert not acknowledged or seen == stage.new, where
        world.clock.advance(minutes=5)
    assert recover(stage.operation, world).visible() == stage.new, where
    if clean:
        check_nothing_is_left(world)


def check_nothing_is_left(world: World) -> None:
    """After the grace time, the janitor leaves nothing that nobody owns."""
    for _ in range(3):
        world.clock.advance(days=2)
        report = world.process().maintenance.janitor()
        assert report.failures == ()
    seen = look(world.url)
    assert seen.branches() == {}
    pointed = set(seen.locations.values())
    warehouse = world.folder / "project"
    on_disk = {f"file://{path}" for path in warehouse.rglob("*.metadata.json")}
    assert pointed <= on_disk
    views = {name for name in on_disk if "/vde__" not in name}
    assert views <= pointed, "metadata files of views that nobody names"
    live = [
        row[0]
        for row in query(world.url, "SELECT table_id FROM vde_tables WHERE status <> 'dropped'")
    ]
    for name in on_disk - views:
        assert any(table_id in name for table_id in live), "files of a table that was dropped"
    undecided = "SELECT count(*) FROM vde_publications WHERE status = 'intended'"
    assert list(query(world.url, undecided)) == [(0,)]
    leases = "SELECT count(*) FROM vde_leases WHERE owner IS NOT NULL"
    assert list(query(world.url, leases)) == [(0,)]


class Stall:
    """The port for side effects of a process that stalls after one of them.

    Args:
        after: After how many side effects.
        meanwhile: What happens in the world until it goes on.
    """

    def __init__(self, after: int, meanwhile: Callable[[], None]) -> None:
        self._left = after
        self._meanwhile = meanwhile

    @contextmanager
    def at(self, point: str, detail: str = "") -> Iterator[None]:
        """Let the side effect happen, then stall if it is the one."""
        yield
        self._left -= 1
        if self._left == 0:
            self._meanwhile()


def check_stall(stage: Stage, after: int) -> None:
    """Stall after a side effect, let another process finish, go on, and check what is seen."""
    world = stage.world()
    where = f"{stage.operation.name}: stalled after {after}, {stage.points[after - 1]}"
    seen: list[Warehouse] = []

    def meanwhile() -> None:
        seen.append(recover(stage.operation, world))

    with suppress(VdeError):  # it has lost its leases and says so
        run(stage.operation, world.process(Stall(after, meanwhile)))
    assert seen, where
    assert seen[0].visible() == stage.new, where
    assert look(world.url).visible() == stage.new, where
    check_nothing_is_left(world)
