"""Views that mirror environments in a real REST catalog: writers that die, stall, and meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from sqlalchemy import update

from vde_dagster.errors import ConflictError, StoreError
from vde_dagster.lakehouse.catalogs.rest import RestCatalog, RestViews
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.maintenance import janitor
from vde_dagster.lakehouse.maintenance.fsck import fsck
from vde_dagster.lakehouse.maintenance.janitor import clean
from vde_dagster.lakehouse.metadata.view_metadata import new_view_metadata
from vde_dagster.lakehouse.publishing import mirror
from vde_dagster.lakehouse.publishing.mirror import HASH, update_mirror, verify
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.db.effects import Effects, NoEffects
from vde_dagster.state.db.leases import LeaseStore
from vde_dagster.state.environments.mirror import WATCHED, MirrorStanding, MirrorStore
from vde_dagster.state.store import StateStore
from vde_dagster_tests.lakehouse.protocol import RETENTION
from vde_dagster_tests.lakehouse.rest_process import Part, new_part
from vde_dagster_tests.state.builders import FakeClock, environment, view

pytestmark = pytest.mark.server
A = TableRef("db", "a")


class Death(BaseException):
    """Stands for the end of a process: nothing is done after it."""


class Interrupted:
    """A port that does something before or after a point is passed, or dies there for good."""

    def __init__(self) -> None:
        self.before: dict[str, Callable[[], object]] = {}
        self.after: dict[str, Callable[[], object]] = {}
        self.passed: list[str] = []
        self.deadly: tuple[int, bool] | None = None
        self._dead = False
        self._lock = Lock()

    @contextmanager
    def at(self, point: str, detail: str = "") -> Iterator[None]:
        with self._lock:
            if self._dead:
                raise Death
            self.passed.append(point)
            number, after = self.deadly or (0, False)
            self._dead = len(self.passed) == number
            if self._dead and not after:
                raise Death
        self.before.pop(point, lambda: None)()
        yield
        self.after.pop(point, lambda: None)()
        if self._dead:
            raise Death


@dataclass
class World:
    """A state, a catalog and the time, in which processes come and go."""

    url: str
    folder: Path
    part: Part
    clock: FakeClock

    def process(self, effects: Effects | None = None, mirrors: bool = True) -> Lakehouse:
        """Start a process."""
        effects = effects or NoEffects()
        store = StateStore.open(self.url, clock=self.clock, effects=effects)
        catalog = RestCatalog(self.part, "lakehouse", str(self.folder), effects, mirrors=mirrors)
        return Lakehouse(store, "lakehouse", str(self.folder), catalog=catalog)

    def shown(self) -> dict[str, str]:
        """Read the views' SQL with plain requests."""
        found = {}
        for parts in self.part.namespaces():
            for name in self.part.names(parts, "views"):
                loaded = self.part.load("views", TableRef(".".join(parts), name))
                assert loaded is not None
                metadata = loaded["metadata"]
                number = metadata["current-version-id"]
                (version,) = (v for v in metadata["versions"] if v["version-id"] == number)
                found[f"{'.'.join(parts)}.{name}"] = version["representations"][0]["sql"]
        return found

    def standing(self, name: str = "prod") -> MirrorStanding | None:
        """Say how an environment's mirror stands."""
        return self.process().store.mirror.standings().get(name)


@pytest.fixture
def backend() -> str:
    """The kind of database, where a test asks for no other."""
    return "sqlite"


@pytest.fixture
def world(url: str, tmp_path: Path, rest_server: str) -> World:
    return World(url, tmp_path / "warehouse", new_part(rest_server), FakeClock())


def publish(lakehouse: Lakehouse, base: int, dropped: str = "", **views: str) -> None:
    """Publish production with views of the given queries."""
    wanted = tuple(view(name, sql) for name, sql in views.items())
    gone = tuple(TableRef("db", name) for name in dropped)
    lakehouse.publish(Publication(environment("prod"), base, wanted, gone))


ONE, TWO, THREE = (f"SELECT {number} AS a" for number in (1, 2, 3))


def test_views_appear_are_replaced_and_go(world: World) -> None:
    process = world.process()
    publish(process, 0, a=ONE, b=ONE)
    assert world.shown() == {"db.a": ONE, "db.b": ONE}
    publish(process, 1, dropped="a", b=TWO, c=ONE)
    assert world.shown() == {"db.b": TWO, "db.c": ONE}
    publish(process, 2, b=ONE, c=ONE)
    assert world.shown() == {"db.b": ONE, "db.c": ONE}, "a version of before is current again"
    assert world.standing() == MirrorStanding(2, 0, None, None)
    ended = replace(Publication(environment("prod"), 3), ends_environment=True)
    process.publish(ended)
    assert world.shown() == {}
    assert world.standing() is None


def test_a_view_that_is_as_before_is_not_written(world: World) -> None:
    effects = Interrupted()
    process = world.process(effects)
    publish(process, 0, a=ONE, b=ONE)
    effects.passed.clear()
    publish(process, 1, a=ONE, b=TWO)
    assert effects.passed.count("mirror.write") == 1


def test_without_a_mirror_there_are_no_views_and_switching_it_off_takes_them_away(
    world: World,
) -> None:
    publish(world.process(mirrors=False), 0, a=ONE)
    assert world.shown() == {}
    publish(world.process(), 1, a=ONE)
    assert world.shown() == {"db.a": ONE}
    publish(world.process(mirrors=False), 2, a=ONE)
    assert world.shown() == {}


def test_a_name_of_another_environment_is_refused_and_nothing_is_published(world: World) -> None:
    process = world.process()
    publish(process, 0, a=ONE)
    with pytest.raises(ConflictError, match="another model in the environment 'prod'"):
        process.publish(Publication(environment("dev"), 0, (view("a", TWO),)))
    assert process.store.environments.get("dev") is None
    assert world.shown() == {"db.a": ONE}


def test_what_another_environment_shows_is_not_taken_away(world: World) -> None:
    process = world.process()
    publish(process, 0, a=ONE)
    process.publish(Publication(environment("dev"), 0, (view("b", TWO),), (A,)))
    assert world.shown() == {"db.a": ONE, "db.b": TWO}


def test_a_view_of_somebody_else_stays_and_is_named(world: World) -> None:
    publish(world.process(), 0, b=ONE)
    theirs = {
        "name": "a",
        "schema": {"type": "struct", "schema-id": 0, "fields": []},
        "view-version": {
            "version-id": 1,
            "timestamp-ms": 0,
            "schema-id": 0,
            "summary": {},
            "default-namespace": [],
            "representations": [{"type": "sql", "sql": "SELECT 9", "dialect": "spark"}],
        },
        "properties": {},
    }
    world.part.post(["db"], "views", theirs)
    publish(world.process(), 1, a=ONE, b=TWO)
    assert world.shown() == {"db.a": "SELECT 9", "db.b": TWO}
    standing = world.standing()
    assert standing is not None
    assert (standing.views, standing.behind) == (2, 1)
    assert "db.a that vde did not publish" in str(standing.failure)
    publish(world.process(), 2, dropped="a", b=TWO)
    assert world.shown() == {"db.a": "SELECT 9", "db.b": TWO}
    standing = world.standing()
    assert standing is not None
    assert standing.since is None, "it is theirs, and no trouble"
    publish(world.process(), 3, a=ONE, b=TWO)
    world.part.drop("views", A)
    assert not world.process().recover()
    assert world.shown() == {"db.a": ONE, "db.b": TWO}


def test_a_view_that_was_made_anew_is_not_written_over(world: World) -> None:
    publish(world.process(), 0, a=ONE)
    views = world.process().catalog.mirror
    assert views is not None
    found = views.load(A)
    assert found is not None
    world.part.drop("views", A)
    views.write(A, None, new_view_metadata(view("a", THREE), None, "", 0))
    with pytest.raises(ConflictError, match=r"refused the view db\.a"):
        views.write(A, found, new_view_metadata(view("a", TWO), found, "", 0))
    assert world.shown() == {"db.a": THREE}


def test_a_view_of_another_definition_strays_though_its_query_is_the_same(world: World) -> None:
    process = world.process()
    publish(process, 0, a=ONE)
    views = process.catalog.mirror
    assert views is not None
    found = views.load(A)
    assert found is not None
    views.write(A, found, {**found, "properties": {**found["properties"], HASH: "another"}})
    assert verify(process) == 1
    update_mirror(process)
    assert verify(process) == 0


@pytest.mark.parametrize(
    ("backend", "after"), [("sqlite", False), ("sqlite", True), ("postgresql", True)]
)
def test_who_comes_next_finishes_what_a_dead_process_began(world: World, after: bool) -> None:
    """A process dies at every one of its side effects, from the publication to its last view."""
    effects = Interrupted()
    publish(world.process(), 0, a=ONE, b=ONE)
    publish(world.process(effects), 1, dropped="a", b=TWO, c=ONE)
    count = len(effects.passed)
    assert count > 8
    one, other = {"b": ONE, "d": ONE}, {"b": TWO, "c": ONE}
    version, of_version = 2, {2: other}
    for number in range(1, count + 1):
        deadly = Interrupted()
        deadly.deadly = (number, after)
        wanted, gone = (other, "d") if version % 2 else (one, "c")
        of_version[version + 1] = wanted
        with suppress(Death):
            publish(world.process(deadly), version, dropped=gone, **wanted)
        world.clock.advance(minutes=5)
        current = world.process().store.environments.get("prod")
        assert current is not None
        version = current.version
        right = {f"db.{name}": sql for name, sql in of_version[version].items()}
        behind = world.standing()
        assert behind is not None
        assert behind.behind or world.shown() == right, "nobody says that views are of before"
        world.process().recover()
        assert world.shown() == right, number
        behind = world.standing()
        assert behind is not None
        assert not behind.behind
    assert version > 3


def stalled_writer_comes_late(world: World) -> None:
    """Anna stalls inside the write of a view; Ben publishes the next version meanwhile."""
    publish(world.process(), 0, a=ONE)
    anna = Interrupted()

    def ben() -> None:
        world.clock.advance(minutes=5)
        publish(world.process(), 2, a=THREE)
        assert world.shown() == {"db.a": THREE}
        world.clock.advance(minutes=20)
        world.process().recover()  # nobody is watched any more

    anna.before["mirror.write"] = ben
    publish(world.process(anna), 1, a=TWO)
    world.process().recover()
    assert world.shown() == {"db.a": THREE}, "an older publication is shown for good"
    assert world.standing() == MirrorStanding(1, 0, None, None)


def dead_writers_request_comes_late(world: World) -> None:
    """Anna's request is under way when she dies, and arrives after Ben's."""
    publish(world.process(), 0, a=ONE)
    anna, under_way = Interrupted(), list[Any]()

    def die() -> None:
        before = world.part.load("views", A)
        under_way.append(before)
        raise Death

    anna.before["mirror.write"] = die
    with suppress(Death):
        publish(world.process(anna), 1, a=TWO)
    world.clock.advance(minutes=2)
    publish(world.process(), 2, a=THREE)
    assert world.shown() == {"db.a": THREE}
    _arrives(world, under_way[0])


def dead_writers_view_appears_late(world: World) -> None:
    """Anna dies while she makes a view, which Ben's publication has no longer."""
    publish(world.process(), 0, b=ONE)
    anna = Interrupted()

    def die() -> None:
        raise Death

    anna.before["mirror.write"] = die
    with suppress(Death):
        publish(world.process(anna), 1, a=TWO, b=ONE)
    world.clock.advance(minutes=2)
    decide(world, dropped="a", b=ONE)
    update_mirror(world.process())
    assert world.shown() == {"db.b": ONE}
    late = world.process().catalog.mirror
    assert late is not None
    made = new_view_metadata(view("a", TWO), None, "", 0)
    late.write(A, None, {**made, "properties": {**made["properties"], HASH: "stale"}})
    world.process().recover()
    assert world.shown() == {"db.b": ONE}, "a view that nobody knows of is shown for good"
    world.clock.advance(seconds=WATCHED.total_seconds() + 1)
    update_mirror(world.process())
    assert world.standing() == MirrorStanding(1, 0, None, None)


def lost_request_comes_late(world: World) -> None:
    """Anna is told that the catalog cannot be reached; her request arrives after Ben's."""
    publish(world.process(), 0, a=ONE)
    anna, under_way = Interrupted(), list[Any]()

    def lose() -> None:
        under_way.append(world.part.load("views", A))
        raise StoreError("no answer", hint="wait")

    anna.before["mirror.write"] = lose
    publish(world.process(anna), 1, a=TWO)
    publish(world.process(), 2, a=THREE)
    assert world.shown() == {"db.a": THREE}
    _arrives(world, under_way[0])


def _arrives(world: World, made_from: Any) -> None:
    """Let a request of version 2 arrive, and see whether whoever comes by finds that."""
    views = world.process().catalog.mirror
    assert views is not None
    found = views.load(A)
    assert found is not None
    stale = new_view_metadata(view("a", TWO), found, "", 0)
    stale["properties"] = {**stale["properties"], HASH: "stale"}
    views.write(A, made_from["metadata"], stale)
    assert world.shown() == {"db.a": TWO}
    world.process().recover()
    assert world.shown() == {"db.a": THREE}, "an older publication is shown for good"


def decide(world: World, dropped: str = "", **views: str) -> None:
    """Let a publication be decided whose process dies before any view follows."""
    process = world.process()
    wanted = tuple(view(name, sql) for name, sql in views.items())
    gone = tuple(TableRef("db", name) for name in dropped)
    publication = Publication(environment("prod"), 2, wanted, gone)
    process.store.database.run_transaction(lambda conn: mirror.want(conn, process, publication))


def newer_publication_while_a_view_is_written(world: World) -> None:
    """What Anna has written is of before by the time that she says so."""
    publish(world.process(), 0, a=ONE)
    anna = Interrupted()
    anna.after["mirror.write"] = lambda: decide(world, a=THREE)
    publish(world.process(anna), 1, a=TWO)
    world.process().recover()
    assert world.shown() == {"db.a": THREE}, "the newer publication is never shown"


def newer_publication_while_a_watched_view_is_looked_at(world: World) -> None:
    """Anna finds that a view is right, and begins when it is no longer."""
    publish(world.process(), 0, a=ONE)
    dead = Interrupted()

    def die() -> None:
        raise Death

    dead.after["mirror.write"] = die
    with suppress(Death):
        publish(world.process(dead), 1, a=TWO)
    world.clock.advance(minutes=2)
    update_mirror(world.process())
    world.clock.advance(seconds=WATCHED.total_seconds() + 1)
    load = RestViews.load

    def meanwhile(self: RestViews, ref: TableRef) -> Any:
        found = load(self, ref)
        RestViews.load = load  # type: ignore[method-assign]
        decide(world, a=THREE)
        return found

    RestViews.load = meanwhile  # type: ignore[method-assign]
    update_mirror(world.process())
    world.process().recover()
    assert world.shown() == {"db.a": THREE}, "the newer publication is never shown"


def who_lost_the_lease_goes_on(world: World) -> None:
    """Anna stalls between two views, and Ben writes both."""
    publish(world.process(), 0, a=ONE, b=ONE)
    anna = Interrupted()

    def ben() -> None:
        world.clock.advance(minutes=5)
        publish(world.process(), 2, a=THREE, b=THREE)

    anna.after["mirror.end.commit"] = ben
    publish(world.process(anna), 1, a=TWO, b=TWO)
    assert world.shown() == {"db.a": THREE, "db.b": THREE}
    assert anna.passed.count("mirror.begin.commit") == 1, "two write at a time"


def somebody_replaces_a_view(world: World) -> None:
    """The janitor finds a view that others replaced, whose properties are as they were."""
    publish(world.process(), 0, a=ONE)
    process = world.process()
    views = process.catalog.mirror
    assert views is not None
    found = views.load(A)
    assert found is not None
    other = new_view_metadata(view("a", TWO), found, "", 0)
    views.write(A, found, {**other, "properties": found["properties"]})
    assert world.shown() == {"db.a": TWO}
    clean(process, RETENTION, timedelta(days=7))
    assert world.shown() == {"db.a": ONE}, "somebody's view is shown for good"


def the_catalog_is_out_of_reach(world: World) -> None:
    """A publication happens all the same; until the views update_mirror, that is told."""
    publish(world.process(), 0, a=ONE)
    process = world.process()
    reached = world.part.access.uri
    world.part.move("http://127.0.0.1:9")
    publish(process, 1, a=TWO)
    assert process.store.environments.get("prod").version == 2  # type: ignore[union-attr]
    since = world.clock.now()
    world.clock.advance(hours=1)
    publish(process, 2, a=THREE)
    standing = world.standing()
    assert standing is not None
    assert standing.since is not None, "nobody says that the views are not those of the state"
    assert standing.since <= since
    assert "cannot be reached" in str(standing.failure)
    world.part.move(reached)
    world.process().recover()
    assert world.shown() == {"db.a": THREE}, "the views never follow"


Scenario = Callable[[World], None]
SCENARIOS: dict[str, tuple[Scenario, Callable[[pytest.MonkeyPatch], None]]] = {
    "what came late is noted": (
        stalled_writer_comes_late,
        lambda patch: patch.setattr(MirrorStore, "end", _end_without_looking),
    ),
    "what a dead writer began is watched": (
        dead_writers_request_comes_late,
        lambda patch: patch.setattr("vde_dagster.state.environments.mirror.WATCHED", timedelta(0)),
    ),
    "what is to be gone is watched": (
        dead_writers_view_appears_late,
        lambda patch: patch.setattr("vde_dagster.state.environments.mirror.WATCHED", timedelta(0)),
    ),
    "what was lost is watched": (
        lost_request_comes_late,
        lambda patch: patch.setattr(MirrorStore, "end", _end_without_the_writer),
    ),
    "what is wanted by now is asked at the end": (
        newer_publication_while_a_view_is_written,
        lambda patch: patch.setattr(MirrorStore, "end", _end_whatever_is_wanted),
    ),
    "the lease is checked before every view": (
        who_lost_the_lease_goes_on,
        lambda patch: patch.setattr(LeaseStore, "check", lambda *said: None),
    ),
    "the janitor looks at every view": (
        somebody_replaces_a_view,
        lambda patch: patch.setattr(janitor, "verify", lambda lakehouse: 0),
    ),
    "the query is compared, not only the hash": (
        somebody_replaces_a_view,
        lambda patch: patch.setattr(mirror, "_is_as_wanted", _same_hash),
    ),
    "what is wanted is written with the publication": (
        the_catalog_is_out_of_reach,
        lambda patch: patch.setattr(MirrorStore, "want", lambda *said: None),
    ),
    "recovery writes what is behind": (
        the_catalog_is_out_of_reach,
        lambda patch: patch.setattr(
            "vde_dagster.lakehouse.publishing.finish_publication.update_mirror",
            lambda lakehouse: None,
        ),
    ),
}
_END = MirrorStore.end


def _end_without_looking(self: MirrorStore, catalog: str, done: Any, writer: str) -> None:
    """As `end`, but whoever ends is taken for the writer."""
    from sqlalchemy import update

    from vde_dagster.state.db.schema import mirrored_views

    self.database.run_transaction(
        lambda conn: conn.execute(update(mirrored_views).values(writer=writer)), name="test"
    )
    _END(self, catalog, done, writer)


def _end_without_the_writer(self: MirrorStore, catalog: str, done: Any, writer: str) -> None:
    """As `end`, but who failed is not remembered."""
    from sqlalchemy import update

    from vde_dagster.state.db.schema import mirrored_views

    _END(self, catalog, done, writer)
    self.database.run_transaction(
        lambda conn: conn.execute(update(mirrored_views).values(writer=None)), name="test"
    )


def _end_whatever_is_wanted(self: MirrorStore, catalog: str, done: Any, writer: str) -> None:
    """As `end`, but what was written is taken for what is wanted."""
    now = {one.wanted.ref: one.wanted for one in self.views(catalog)}
    _END(self, catalog, [(now[one.ref], failure) for one, failure in done], writer)


def _same_hash(found: Any, wanted: Any) -> bool:
    return found is not None and found["properties"].get(HASH) == wanted.hash


@pytest.mark.parametrize("safeguard", SCENARIOS)
def test_each_safeguard_is_needed(
    safeguard: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, remove = SCENARIOS[safeguard]
    remove(monkeypatch)
    with pytest.raises(AssertionError):
        scenario(world)


_ALL = (newer_publication_while_a_watched_view_is_looked_at, *(s for s, _ in SCENARIOS.values()))


@pytest.mark.parametrize("scenario", dict.fromkeys(_ALL))
def test_with_all_safeguards_views_follow_the_newest_publication(
    scenario: Scenario, world: World
) -> None:
    scenario(world)


def test_a_watched_view_is_left_in_peace_once_nobody_can_come_late(world: World) -> None:
    anna = Interrupted()
    anna.deadly = (10**9, False)

    def die() -> None:
        raise Death

    anna.after["mirror.write"] = die
    with suppress(Death):
        publish(world.process(anna), 0, a=ONE)
    world.clock.advance(minutes=2)
    process = world.process()
    update_mirror(process)
    assert [one.watched_until is not None for one in process.store.mirror.waiting("lakehouse")] == [
        True
    ]
    assert world.standing() == MirrorStanding(1, 0, None, None)
    world.clock.advance(seconds=WATCHED.total_seconds() + 1)
    update_mirror(process)
    assert process.store.mirror.waiting("lakehouse") == []
    assert verify(process) == 0


def test_looking_at_views_of_a_catalog_out_of_reach_strays_none(world: World) -> None:
    process = world.process()
    publish(process, 0, a=ONE)
    world.part.move("http://127.0.0.1:9")
    with pytest.raises(StoreError):
        verify(process)
    assert world.standing() == MirrorStanding(1, 0, None, None)


def test_a_catalog_that_answers_nothing_is_not_asked_for_every_view(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[TableRef] = []

    def load(self: RestViews, ref: TableRef) -> None:
        asked.append(ref)
        raise StoreError("no answer", hint="wait")

    with monkeypatch.context() as patch:
        patch.setattr(RestViews, "load", load)
        publish(world.process(), 0, **{f"v{number}": ONE for number in range(9)})
    assert len(asked) == 3
    standing = world.standing()
    assert standing is not None
    assert (standing.views, standing.behind) == (9, 9)
    world.process().recover()
    assert len(world.shown()) == 9


def test_a_definition_under_the_hash_of_another_view_is_not_written(world: World) -> None:
    process = world.process()
    publish(process, 0, a=ONE)
    update_mirror(process)
    assert world.shown() == {"db.a": ONE}
    (known,) = process.store.mirror.views("lakehouse")
    evil = str(known.wanted.definition).replace("SELECT 1", "SELECT 1001")
    statement = update(schema.mirrored_views).values(
        definition=evil, behind_since=process.store.database.clock.now()
    )
    process.store.database.run_transaction(lambda conn: conn.execute(statement), name="test")
    with suppress(StoreError):
        update_mirror(world.process())
    with suppress(StoreError):
        verify(world.process())
    assert world.shown() == {"db.a": ONE}
    problems = [one.problem for one in fsck(world.process())]
    assert "foreign_view" in problems
    publish(world.process(), 1, a=ONE)
    update_mirror(world.process())
    assert world.shown() == {"db.a": ONE}
    assert "foreign_view" not in [one.problem for one in fsck(world.process())]
