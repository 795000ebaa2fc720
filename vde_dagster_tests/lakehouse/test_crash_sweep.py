"""Every side effect of every operation fails in every way; readers see old or new, retries finish.

The golden file lists every named side effect in order. A side effect that is added without a name
changes nothing here, so the package has none: files, commits and deletes all pass the port.

All of it runs on the catalog in the state's database and on one that promises nothing. There a
reader may find views of both versions between a crash and the next apply, and never anything else.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from vde_dagster.errors import VdeError
from vde_dagster.lakehouse.maintenance.janitor import JanitorReport
from vde_dagster.lakehouse.publishing.new_table import EmptyCommit
from vde_dagster_tests.faults import MODES, Fault, FaultInjector, Mode, ProcessKilled
from vde_dagster_tests.lakehouse.oracle import Seen, load, pointers, query, table_of
from vde_dagster_tests.lakehouse.protocol import Job, Process, World, fast_folder
from vde_dagster_tests.state.builders import FakeClock, days

GOLDEN = {
    "sql": Path(__file__).parent / "golden" / "side_effects.txt",
    "folder": Path(__file__).parent / "golden" / "side_effects_folder.txt",
}
FIRST = Job("p1", "prod", 0, (("orders", "1"), ("names", "1")))
CHANGED = Job("p2", "prod", 1, (("orders", "1"), ("names", "2"), ("extra", "1")), days(0, 1, 2))


@dataclass(frozen=True)
class Operation:
    """What is interrupted: how the world is before, and what is done to it."""

    name: str
    before: Callable[[World], None]
    run: Callable[[Process], object]


def _published(world: World) -> None:
    world.process().apply(FIRST)
    world.clock.advance(hours=1)


def _published_twice(world: World) -> None:
    _published(world)
    world.process().apply(CHANGED)
    world.clock.advance(hours=1)


def _expired(world: World) -> None:
    _published(world)
    process = world.process()
    process.apply(Job("d1", "dev", 0, (("orders", "dev"), ("names", "1"))))
    process.store.environments.invalidate("dev")
    process.apply(Job("d2", "qa", 0, (("orders", "qa"),)))
    process.apply(Job("d3", "qa", 1, (("orders", "qa2"),)))
    _abandoned_branch(world)
    _uncommitted_file(world)
    world.clock.advance(days=40)


def _abandoned_branch(world: World) -> None:
    fault = Fault("publish.commit", "kill_before")
    injector = FaultInjector(fault, clock=world.clock, in_process=True)
    with pytest.raises(ProcessKilled):
        world.process(injector).apply(replace(CHANGED, id="p9"))


def _uncommitted_file(world: World) -> None:
    """A run was killed between a data file and its commit, on the table that prod shows."""
    (row,) = query(
        world.url, "SELECT namespace, name FROM vde_tables WHERE fill_version = 'fill-orders-1'"
    )
    (location,) = (at for *ref, at, _ in pointers(world.url, world.pointers) if (*ref,) == row)
    metadata = load(location)
    for snapshot in metadata["snapshots"]:
        # The engine of these tests writes none, and unsure means no deletion.
        manifests = EmptyCommit(snapshot["snapshot-id"], snapshot["manifest-list"])
        Path(manifests.manifest_list.removeprefix("file://")).write_bytes(manifests.content())
    stray = Path(metadata["location"].removeprefix("file://")) / "data" / "00000-stray.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"rows")
    written = world.clock.now().timestamp()
    os.utime(stray, (written, written))


def _given_up(world: World) -> None:
    _expired(world)
    world.process().janitor()
    world.clock.advance(days=2)


def _frozen(world: World) -> None:
    """Freeze a version twice; production moves on, and one of them is over."""
    _published_twice(world)
    world.process().freeze("prod", 1, "close")
    world.process().freeze("prod", 1, "over")
    world.clock.advance(days=40)
    world.process().apply(Job("p3", "prod", 2, CHANGED.models, days(0, 1, 2, 3)))
    world.process().store.environments.invalidate("over")
    world.clock.advance(days=40)


def _shared(world: World) -> None:
    """Let development show what production shows, and a table of its own; production moves on."""
    _published(world)
    world.process().apply(Job("d1", "dev", 0, (("orders", "1"), ("names", "dev"))))
    world.process().apply(replace(FIRST, id="p2", base_version=1, days=days(0, 1, 2)))
    world.process().apply(Job("d2", "dev", 1, (("orders", "1"), ("names", "dev")), days(0, 1, 2)))
    world.clock.advance(hours=1)


OPERATIONS = (
    Operation("first apply", lambda world: None, lambda process: process.apply(FIRST)),
    Operation("apply", _published, lambda process: process.apply(CHANGED)),
    Operation("rollback", _published_twice, lambda process: process.rollback("prod", 1)),
    Operation("rollback of data", _shared, lambda process: process.roll_back_data("prod", 1)),
    Operation("rollback of dev", _shared, lambda process: process.roll_back_data("dev", 1)),
    Operation("freeze", _published_twice, lambda process: process.freeze("prod", 1, "close")),
    Operation("clean-up of what is frozen", _frozen, lambda process: process.janitor()),
    Operation("clean-up", _expired, lambda process: process.janitor()),
    Operation("clean-up after grace", _given_up, lambda process: process.janitor()),
)


def world_in(folder: Path, catalog: str) -> World:
    """Describe the world that lies in a folder."""
    own = folder / "catalog" if catalog == "folder" else None
    return World(f"sqlite:///{folder / 'vde.db'}", folder / "warehouse", FakeClock(), own)


@pytest.fixture(scope="module", params=["sql", "folder"])
def catalog(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def template(empty_database: Path, catalog: str) -> Iterator[dict[str, tuple[World, Seen]]]:
    """Per operation, a prepared world that is copied for every case."""
    made = {}
    for operation in OPERATIONS:
        folder = Path(fast_folder())
        shutil.copy(empty_database, folder / "vde.db")
        world = world_in(folder, catalog)
        world.process().lakehouse.catalog.create_namespaces({"vde_physical": {}})
        operation.before(world)
        made[operation.name] = (world, world.look())
    yield made
    for world, _ in made.values():
        shutil.rmtree(world.warehouse.parent)


class Case:
    """A copy of a prepared world, at a place of its own."""

    def __init__(self, template: tuple[World, Seen]) -> None:
        prepared, self.old = template
        source = prepared.warehouse.parent
        self.place = source.with_name(source.name + "-case")
        # Locations are absolute, so the copy takes the original's place while it is used.
        shutil.copytree(source, self.place)
        self._source = source
        self.world = replace(prepared, clock=FakeClock(prepared.clock.now()))

    def close(self) -> None:
        shutil.rmtree(self._source)
        os.rename(self.place, self._source)


@pytest.fixture
def case(
    request: pytest.FixtureRequest, template: dict[str, tuple[World, Seen]]
) -> Iterator[Callable[[str], Case]]:
    opened: list[Case] = []

    def open_case(name: str) -> Case:
        if opened:
            opened.pop().close()
        opened.append(Case(template[name]))
        return opened[-1]

    yield open_case
    if opened:
        opened.pop().close()


def points_of(operation: Operation, world: World) -> list[str]:
    injector = FaultInjector(clock=world.clock, in_process=True)
    operation.run(world.process(injector))
    return injector.passed


def occurrences(points: list[str]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    found = []
    for point in points:
        counts[point] += 1
        found.append((point, counts[point]))
    return found


def interrupt(operation: Operation, world: World, fault: Fault) -> bool:
    """Run an operation with a fault; return whether it was acknowledged."""
    injector = FaultInjector(fault, clock=world.clock, in_process=True)
    try:
        result = operation.run(world.process(injector))
    except (ProcessKilled, VdeError):
        return False
    return not (isinstance(result, JanitorReport) and result.failures)


def recover(operation: Operation, world: World) -> None:
    """Do the same again in a new process, once the leases of dead owners have ended."""
    world.clock.advance(minutes=5)
    operation.run(world.process())


def check_nothing_is_left(world: World) -> None:
    """After the grace time, the janitor leaves nothing that nobody owns."""
    for _ in range(3):
        world.clock.advance(days=2)
        report = world.process().janitor()
        assert report.failures == ()
    seen = world.look()
    assert all(not branches for branches in seen.branches.values())
    assert list(world.warehouse.rglob("*.parquet")) == [], "data files that nobody committed"
    pointed = {row[2] for row in pointers(world.url, world.pointers)}
    on_disk = {f"file://{path}" for path in world.warehouse.rglob("*.metadata.json")}
    assert pointed <= on_disk
    views = {name for name in on_disk if "/vde_physical/" not in name}
    assert views <= pointed, "metadata files of views that nobody names"
    live = {
        row[0]
        for row in query(world.url, "SELECT table_id FROM vde_tables WHERE status <> 'dropped'")
    }
    for name in on_disk - views:
        assert any(table_id in name for table_id in live), "files of a table that was dropped"
    undecided = "SELECT count(*) FROM vde_publications WHERE status IN ('intended', 'decided')"
    assert list(query(world.url, undecided)) == [(0,)]
    assert list(query(world.url, "SELECT count(*) FROM vde_leases WHERE owner IS NOT NULL")) == [
        (0,)
    ]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_side_effects_are_those_of_the_golden_file(
    operation: Operation, catalog: str, case
) -> None:
    points = points_of(operation, case(operation.name).world)
    golden = GOLDEN[catalog]
    text = golden.read_text() if golden.exists() else ""
    sections = dict(part.split("\n", 1) for part in text.strip().split("\n\n") if part)
    found = "\n".join(points)
    if os.environ.get("VDE_UPDATE_GOLDEN"):
        sections[f"[{operation.name}]"] = found
        golden.parent.mkdir(exist_ok=True)
        golden.write_text("\n\n".join(f"{k}\n{v.strip()}" for k, v in sections.items()) + "\n")
    assert sections.get(f"[{operation.name}]", "").strip() == found


@pytest.mark.turns(48)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@pytest.mark.parametrize(
    ("mode", "passages"),
    [
        ("kill_before", "first"),
        ("lose_answer", "first"),
        *(pytest.param(mode, "every", marks=pytest.mark.server) for mode in MODES),
    ],
)
def test_old_or_new_and_a_retry_finishes(
    operation: Operation, mode: Mode, passages: str, case
) -> None:
    """Strike at the first passage of each point; among the slow tests, at every passage.

    A transaction undoes its statements whichever of them fails, so their first passage is enough,
    and two more ways to fail.
    """
    opened = case(operation.name)
    old = opened.old
    points = occurrences(points_of(operation, opened.world))
    new = opened.world.look()
    points = [
        (point, number)
        for point, number in points
        if (passages == "every" and " " not in point)
        or (number == 1 and (passages == "first" or mode in ("kill_after", "fail_once")))
    ]
    for point, occurrence in points:
        opened = case(operation.name)
        world = opened.world
        fault = Fault(point, mode, occurrence, stall_seconds=600)
        acknowledged = interrupt(operation, world, fault)
        where = f"{operation.name}: {mode} at {point} ({occurrence})"
        check_old_or_new(world, old, new, where)
        if acknowledged and mode != "stall":
            assert shape(world.look()) == shape(new), where
        recover(operation, world)
        assert shape(world.look()) == shape(new), where
        if passages == "every":
            check_nothing_is_left(world)


def check_old_or_new(world: World, old: Seen, new: Seen, where: str) -> None:
    """What readers see is one version; without promises, each view is of one of the two."""
    if world.pointers is None:
        assert shape(world.look()) in (shape(old), shape(new)), where
        return
    seen = world.look(settled=False)
    environments = [shape(known)[2] for known in (old, new)]
    assert shape(seen)[2] in environments, where
    if list(query(world.url, "SELECT 1 FROM vde_publications WHERE status = 'decided'")):
        assert old.views.keys() & new.views.keys() <= seen.views.keys(), where
        assert seen.views.keys() <= old.views.keys() | new.views.keys(), where
        assert {table_of(sql) for sql in seen.views.values()} <= seen.tables.keys(), where
    else:
        assert shape(world.look()) in (shape(old), shape(new)), where


def shape(seen: Seen) -> tuple[object, object, object]:
    """What users see, with tables numbered: a retry may have given one another unique name."""
    views, tables, environments = seen.visible()
    names = {}
    for view in sorted(views):
        names.setdefault(table_of(views[view]), len(names))
    return (
        {view: (names[table_of(sql)], seen.pinned.get(view)) for view, sql in views.items()},
        {names[name]: rows for name, rows in tables.items()},
        {name: sorted(models) for name, models in environments.items()},
    )


@pytest.mark.turns(48)
@pytest.mark.parametrize("pairs", [3, pytest.param(40, marks=pytest.mark.server)])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_crash_during_recovery(operation: Operation, pairs: int, case) -> None:
    """A sample of pairs: a second fault strikes while the first is recovered from."""
    chance = random.Random(operation.name)
    opened = case(operation.name)
    points = occurrences(points_of(operation, opened.world))
    new = opened.world.look()
    for _ in range(pairs):
        opened = case(operation.name)
        world = opened.world
        for _ in range(2):
            point, occurrence = chance.choice(points)
            mode = chance.choice(MODES)
            interrupt(operation, world, Fault(point, mode, occurrence, stall_seconds=600))
            check_old_or_new(world, opened.old, new, f"{mode} at {point} ({occurrence})")
            world.clock.advance(minutes=5)
        recover(operation, world)
        assert shape(world.look()) == shape(new)
        check_nothing_is_left(world)
