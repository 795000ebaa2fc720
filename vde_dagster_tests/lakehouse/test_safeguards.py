"""Each safeguard, taken away, lets an impossible state through; with it, the state is impossible.

Every scenario is one interleaving of processes that ends in checking an invariant. It is run
twice: as the code is, where the invariant has to hold, and with one safeguard removed, where it
has to be violated. A safeguard that could go unnoticed would be none.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import VdeError
from vde_dagster.lakehouse.catalogs.sql import SqlCatalog
from vde_dagster.lakehouse.maintenance.janitor import clean
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.lakehouse.publishing import pins, prepare, publish
from vde_dagster.lakehouse.publishing import publication as moves_of_tables
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.state.db.leases import Lease, LeaseStore
from vde_dagster.state.environments import environments
from vde_dagster.state.environments.environments import EnvironmentStore
from vde_dagster.state.environments.pins import PinStore
from vde_dagster.state.environments.publications import PublicationStore
from vde_dagster.state.environments.versions import VersionStore, read_head
from vde_dagster.state.tables.tables import TableStore
from vde_dagster_tests.lakehouse.oracle import load, look, query, table_of
from vde_dagster_tests.lakehouse.protocol import RETENTION, Job, Process, World, fast_folder
from vde_dagster_tests.state.builders import FakeClock, day, days, environment, view

V1 = Job("p1", "prod", 0, (("orders", "1"),))
V2 = Job("p2", "prod", 1, (("orders", "2"),))
Scenario = Callable[[World], None]
Removal = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture
def world(empty_database: Path) -> Iterator[World]:
    folder = Path(fast_folder())
    shutil.copy(empty_database, folder / "vde.db")
    made = World(f"sqlite:///{folder / 'vde.db'}", folder / "warehouse", FakeClock())
    made.process().lakehouse.catalog.create_namespaces({"vde_physical": {}})
    yield made
    shutil.rmtree(folder)


class Interruption:
    """A port for effects that lets others act just before a point is passed for the first time."""

    def __init__(self, point: str, act: Callable[[], object]) -> None:
        self._point = point
        self._act: Callable[[], object] | None = act

    @contextmanager
    def at(self, point: str, detail: str = "") -> Iterator[None]:
        if point == self._point and self._act is not None:
            act, self._act = self._act, None
            act()
        yield


def attempt(work: Callable[[], object]) -> bool:
    """Do something that may be refused; return whether it was done."""
    try:
        work()
    except VdeError:
        return False
    return True


def plan_made_against_an_old_version(world: World) -> None:
    """Two plans are made against version 1; the second apply may not undo the first unseen."""
    world.process().apply(V1)
    assert attempt(lambda: world.process(name="anna").apply(V2))
    attempt(lambda: world.process(name="ben").apply(Job("p3", "prod", 1, (("orders", "3"),))))
    rows = query(
        world.url,
        "SELECT v.version, p.base_version FROM vde_environment_versions v "
        "JOIN vde_plans p ON p.plan_id = v.plan_id",
    )
    assert all(version == base + 1 for version, base in rows), "a publication was lost unseen"


def view_is_replaced_by_another_program(world: World) -> None:
    """Somebody moves a view's pointer while a publication writes its files."""
    world.process().apply(V1)
    (old,) = (row[0] for row in query(world.url, _VIEW_POINTER))
    copy = Path(old.removeprefix("file://")).with_name("00009-theirs.metadata.json")
    shutil.copy(old.removeprefix("file://"), copy)

    def meddle() -> None:
        with world.process().store.database.transaction() as conn:
            conn.exec_driver_sql(
                "UPDATE iceberg_tables SET metadata_location = ? WHERE iceberg_type = 'VIEW'",
                (f"file://{copy}",),
            )

    process = world.process(Interruption("publish.file.write", meddle))
    attempt(lambda: process.apply(V2))
    (now,) = (row[0] for row in query(world.url, _VIEW_POINTER))
    assert now == f"file://{copy}", "somebody's change was overwritten unseen"


_VIEW_POINTER = "SELECT metadata_location FROM iceberg_tables WHERE iceberg_type = 'VIEW'"


def two_fill_the_same_table(world: World) -> None:
    """Anna is about to fill a table; Ben, for his environment, needs the same one."""

    def ben() -> None:
        attempt(lambda: world.process(name="ben").apply(replace(V1, id="p9", environment="dev")))

    anna = world.process(Interruption("engine.fill.file", ben), name="anna")
    anna.engine.fill = _slow(anna)  # type: ignore[method-assign]
    attempt(lambda: anna.apply(V1))
    look(world.url)  # finds intervals that were written twice


def _slow(process: Process) -> Callable[..., int]:
    """A fill decides what to write, then others act, then it commits on whatever is there."""
    fill = process.engine.fill

    def slow(*arguments: Any, **named: Any) -> int:
        with process.store.database.effects.at("engine.fill.file"):
            pass
        return fill(*arguments, **named)

    return slow


def owner_stalls_and_comes_back(world: World) -> None:
    """Anna stalls before her commit; her lease ends and Ben takes over; she wakes up."""
    holder: list[Lease] = []

    def stall() -> None:
        world.clock.advance(minutes=10)  # type: ignore[attr-defined]
        holder.append(world.process().store.leases.acquire("environment/prod", "ben", 600))

    anna = world.process(Interruption("publish.file.write", stall), name="anna")
    attempt(lambda: anna.apply(V1))
    (versions,) = query(world.url, "SELECT count(*) FROM vde_environment_versions")
    assert versions == (0,), "an owner wrote after the lease was taken over"


def reader_is_still_reading(world: World) -> None:
    """A reader has looked up a table; the environment moves on; the janitor comes by, twice."""
    world.process().apply(V1)
    (location,) = (
        row[0]
        for row in query(
            world.url, "SELECT metadata_location FROM iceberg_tables WHERE iceberg_type = 'TABLE'"
        )
    )
    world.clock.advance(days=60)  # type: ignore[attr-defined]
    world.process().apply(V2)
    policy = replace(RETENTION, history_versions=1)
    policy = _POLICY(policy)
    for _ in range(2):
        process = world.process()
        clean(process.lakehouse, policy, timedelta(days=7))
        world.clock.advance(hours=1)  # type: ignore[attr-defined]
    load(location)  # the reader goes on reading


_POLICY: Callable[[Any], Any] = lambda policy: policy  # noqa: E731


def rollback_meets_the_janitor(world: World) -> None:
    """A rollback has read an old version; the janitor gives up its table; the rollback goes on."""
    world.process().apply(V1)
    world.process().apply(V2)

    def janitor() -> None:
        world.clock.advance(days=60)  # type: ignore[attr-defined]
        world.process().apply(Job("p3", "prod", 2, (("orders", "2"), ("names", "1"))))
        world.clock.advance(days=60)  # type: ignore[attr-defined]
        for _ in range(2):
            world.process().janitor()
            world.clock.advance(days=2)  # type: ignore[attr-defined]

    anna = world.process(name="anna")
    old = anna.store.versions.at("prod", 1)
    assert old is not None
    janitor()
    current = anna.store.environments.get("prod")
    assert current is not None
    table_id = next(iter(old.entries.values())).table_id
    (row,) = query(
        world.url, f"SELECT namespace, name FROM vde_tables WHERE table_id = '{table_id}'"
    )
    made = replace(environment("prod"), entries=old.entries)
    definition = view("orders", f"SELECT a FROM {row[0]}.{row[1]}")
    dropped = tuple(r for r in anna.lakehouse.published_views("prod") if r.name != "orders")
    attempt(
        lambda: anna.lakehouse.publish(
            Publication(made, current.version, (definition,), dropped=dropped)
        )
    )
    look(world.url)  # finds environments that show what was dropped


def late_use_of_a_given_up_table(world: World) -> None:
    """A table was given up; a process that still holds its lease writes; its time is over."""
    world.process().apply(V1)
    world.process().apply(V2)
    world.clock.advance(days=60)  # type: ignore[attr-defined]
    world.process().janitor()
    (row,) = query(world.url, "SELECT table_id FROM vde_tables WHERE status = 'tombstoned'")
    world.clock.advance(days=2)  # type: ignore[attr-defined]
    world.process().store.leases.acquire(f"table/{row[0]}", "anna", 600)
    world.process().janitor()
    (status,) = query(world.url, f"SELECT status FROM vde_tables WHERE table_id = '{row[0]}'")
    assert status == ("tombstoned",), "a table that is being written was dropped"


def in_doubt_commit_comes_late(world: World) -> None:
    """A recovery has declared a publication dead; its commit, under way all the time, arrives."""

    def recovery() -> None:
        process = world.process()
        (row,) = query(
            world.url, "SELECT publication_id FROM vde_publications WHERE status = 'intended'"
        )
        assert process.store.publications.resolve(row[0]) == "aborted"
        process.lakehouse.files.delete_all(
            [file.location for file in process.store.publications.get(row[0]).files],  # type: ignore[union-attr]
            "test",
        )

    with _after("publish.file.write", recovery) as effects:
        job = replace(V1, models=(("orders", "1"), ("names", "1")))
        attempt(lambda: world.process(effects).apply(job))
    look(world.url)  # finds pointers to files that are gone


def table_is_written_while_it_is_published(world: World) -> None:
    """Somebody fills a table that nobody shows yet while its first publication writes files."""
    process = world.process()

    def fill() -> None:
        other = world.process(name="ben")
        (row,) = query(world.url, "SELECT table_id FROM vde_tables")
        other.engine.fill(other.store.tables.get(row[0]), day(5), "p9")

    with _after("publish.file.write", fill) as effects:
        process = world.process(effects)
        process.apply(V1)
    look(world.url)  # finds that production is not at its pin


def replaced_data_are_read_by_version(world: World) -> None:
    """Production's table moves on; the janitor comes by after the retention of snapshots."""
    world.process().apply(V1)
    world.process().apply(replace(V1, id="p2", base_version=1, days=days(0, 1, 2)))
    world.clock.advance(days=20)  # type: ignore[attr-defined]
    world.process().janitor()
    look(world.url)  # finds versions whose pins are gone


def version_is_forgotten_while_it_is_frozen(world: World) -> None:
    """A freeze has read a version; the janitor forgets it, with its data; the freeze goes on."""
    for version in range(4):
        job = replace(V1, id=f"p{version}", base_version=version, days=days(*range(version + 1)))
        world.process().apply(job)
    world.clock.advance(days=60)  # type: ignore[attr-defined]
    process = world.process(Interruption("publish.file.write", world.process().janitor))
    attempt(lambda: process.freeze("prod", 1, "close"))
    look(world.url)  # finds a pin that is gone


def frozen_environment_is_published_again(world: World) -> None:
    """Somebody applies to a name that is frozen, having seen its version."""
    world.process().apply(V1)
    world.process().freeze("prod", 1, "close")
    attempt(lambda: world.process().apply(Job("c2", "close", 1, (("orders", "2"),))))
    (version,) = query(world.url, "SELECT version FROM vde_environments WHERE environment='close'")
    assert version == (1,), "what is frozen was published again"


def other_environment_shows_what_production_moved(world: World) -> None:
    """Development shares a table that production moves, and is published again as it is."""
    world.process().apply(V1)
    world.process().apply(replace(V1, id="d1", environment="dev"))
    world.process().apply(replace(V1, id="p2", base_version=1, days=days(0, 1, 2)))
    world.process().apply(replace(V1, id="d2", environment="dev", base_version=1))
    _newest(world, "dev")


def held_table_is_shown_as_it_is_again(world: World) -> None:
    """A table is held; it is written on, with nobody who notes it; then it is shown as it is."""
    process = world.process()
    process.apply(replace(V1, id="d1", environment="dev"))
    current = process.store.environments.get("dev")
    assert current is not None
    (entry,) = current.entries.values()
    held = replace(entry, held=process.store.pins.at("dev", 1)[entry.table_id or ""].state_to_hold)
    table = process.store.tables.get(entry.table_id or "")
    for version, shown in ((1, held), (2, entry)):
        made = replace(environment("dev"), entries={entry.name: shown})
        at = f" VERSION AS OF {held.held.snapshot_id}" if shown.held and held.held else ""
        definition = view("orders", f"SELECT a FROM {table.ref}{at}", namespace="db__dev")
        process.lakehouse.publish(Publication(made, version, (definition,)))
        if version == 1:
            process.engine.fill(table, day(7), "p9")
    _newest(world, "dev")


def table_is_shown_as_of_two_times(world: World) -> None:
    """One model holds a table, and another shows it as it is."""
    process = world.process()
    process.apply(V1)
    current = process.store.environments.get("prod")
    assert current is not None
    (entry,) = current.entries.values()
    held = process.store.pins.at("prod", 1)[entry.table_id or ""].state_to_hold
    other = replace(entry, name=ModelName("db", "again"))
    made = environment("dev")
    made = replace(made, entries={entry.name: replace(entry, held=held), other.name: other})
    attempt(lambda: process.lakehouse.publish(Publication(made, 0)))
    mixed = (
        "SELECT environment FROM vde_entries WHERE table_id IS NOT NULL AND valid_to IS NULL "
        "GROUP BY environment, table_id HAVING count(DISTINCT coalesce(held_schema_id, -1)) > 1"
    )
    assert list(query(world.url, mixed)) == [], "an environment mixes two states of a table"


def another_environment_begins_to_show_what_goes_back(world: World) -> None:
    """Production goes back; before it commits, development is made of the tables that go."""
    world.process().apply(V1)
    world.process().apply(replace(V1, id="p2", base_version=1, days=days(0, 1, 2)))

    def show() -> None:
        other = world.process(name="ben")
        current = other.store.environments.get("prod")
        assert current is not None
        made = replace(environment("dev"), entries=current.entries)
        other.lakehouse.publish(Publication(made, 0, other.shown("dev", current.entries)))

    process = world.process(Interruption("publish.file.write", show))
    attempt(lambda: process.roll_back_data("prod", 1))
    seen = look(world.url)
    assert len(seen.tables[table_of(seen.views["db__dev.orders"])]) == 3, (
        "rows were pulled from under an environment"
    )


def what_goes_back_is_filled_as_it_was(world: World) -> None:
    """Production goes back to fewer days."""
    world.process().apply(V1)
    world.process().apply(replace(V1, id="p2", base_version=1, days=days(0, 1, 2)))
    world.process().roll_back_data("prod", 1)
    look(world.url)  # finds ranges that count as filled and have no rows


def what_another_holds_is_kept(world: World) -> None:
    """Production goes back and on; development holds what it showed, for long."""
    world.process().apply(replace(V1, days=days(0)))
    world.process().apply(replace(V1, id="p2", base_version=1))
    world.process().apply(replace(V1, id="d1", environment="dev"))
    world.process().roll_back_data("prod", 1)
    held = look(world.url).pinned["db__dev.orders"]
    for number in range(4):
        world.clock.advance(days=20)  # type: ignore[attr-defined]
        more = days(*range(number + 3))
        world.process().apply(Job(f"q{number}", "prod", number + 3, V1.models, more))
        world.process().janitor()
    assert look(world.url).pinned["db__dev.orders"] == held


def table_is_written_while_it_goes_back(world: World) -> None:
    """Somebody who asks for no lease commits to a table that is about to go back."""
    world.process().apply(V1)
    world.process().apply(replace(V1, id="p2", base_version=1, days=days(0, 1, 2)))

    def fill() -> None:
        other = world.process(name="ben")
        (row,) = query(world.url, "SELECT table_id FROM vde_tables")
        other.engine.fill(other.store.tables.get(row[0]), day(5), "p9")

    process = world.process()
    publish_ = process.lakehouse.publish

    def late(publication: Publication) -> Environment:
        fill()
        return publish_(publication)

    process.lakehouse.__dict__["publish"] = late
    done = attempt(lambda: process.roll_back_data("prod", 1))
    assert not done, "somebody's rows went back unseen"


def _newest(world: World, name: str) -> None:
    """Check that an environment that has just been published pins what its tables hold."""
    process = world.process()
    current = process.store.environments.get(name)
    assert current is not None
    pins = process.store.pins.at(name, current.version)
    for table in process.store.tables.load(sorted(current.tables)).values():
        head = process.lakehouse.main_snapshot(table.ref)
        assert pins[table.id].snapshot_id == head, "a version pins what it does not show"


@contextmanager
def _after(point: str, act: Callable[[], object]) -> Iterator[Any]:
    """Let others act after a point was passed for the first time."""
    acts = [act]

    class After:
        @contextmanager
        def at(self, name: str, detail: str = "") -> Iterator[None]:
            yield
            if name == point and acts:
                acts.pop()()

    yield After()


def no_version_check(patch: pytest.MonkeyPatch) -> None:
    write = EnvironmentStore.write_version

    def unchecked(self: Any, connection: Any, value: Any, base_version: int, **how: Any) -> Any:
        head = read_head(connection, value.name)
        return write(self, connection, value, head.version if head and head.live else 0, **how)

    patch.setattr(EnvironmentStore, "write_version", unchecked)


def no_pointer_check(patch: pytest.MonkeyPatch) -> None:
    swap_checked = SqlCatalog.swap

    def unchecked(self: SqlCatalog, swaps: Any, within: Any = None) -> None:
        now = self.pointers([swap.ref for swap in swaps], within)
        moved = [
            replace(swap, before=now[swap.ref].location) if swap.ref in now else swap
            for swap in swaps
        ]
        swap_checked(self, moved, within)

    patch.setattr(SqlCatalog, "swap", unchecked)


def no_lease(patch: pytest.MonkeyPatch) -> None:
    def taken(self: Any, resource: str, owner: str, *more: Any) -> Lease:
        return Lease(resource, owner, 1)

    patch.setattr(LeaseStore, "acquire", taken)
    patch.setattr(LeaseStore, "check", lambda *arguments: None)


def no_fencing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseStore, "check", lambda *arguments: None)


def no_grace(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(globals(), "_POLICY", lambda policy: replace(policy, grace=timedelta(0)))


def no_check_for_tombstones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableStore, "require_live", lambda *arguments: None)
    # Lost tables are found before the transaction, too, but not those that are dropped after that.
    whole = prepare.prepare_pins
    patch.setattr(prepare, "prepare_pins", lambda *given: replace(whole(*given), lost=()))


def no_check_at_deletion(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseStore, "tables", lambda *arguments: set())


def no_decision(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublicationStore, "commit", lambda *arguments, **named: None)


def no_second_look_at_heads(patch: pytest.MonkeyPatch) -> None:
    write = pins.write_pins

    def unseen(lakehouse: Any, connection: Any, environment: Any, prepared: Any) -> None:
        write(lakehouse, connection, environment, replace(prepared, places={}))

    patch.setattr(publish, "write_pins", unseen)


def no_retention_by_pins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PinStore, "kept", lambda *arguments: {})


def no_check_of_the_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VersionStore, "require_kept", lambda *arguments: None)


def no_frozen_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(environments, "require_changeable", lambda *arguments: None)


def no_noted_heads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PinStore, "note", lambda *arguments: None)


def no_memory_of_held_tables(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PinStore, "tables_at_earlier_snapshot", lambda *arguments: set())


def no_check_for_wholeness(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Environment, "require_whole", lambda *arguments: None)


def no_look_at_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publish, "_leave_others_alone", lambda *arguments: None)


def no_filled_ranges_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publish, "restore_filled", lambda *arguments: None)


def no_expected_snapshot(patch: pytest.MonkeyPatch) -> None:
    back_to = moves_of_tables._return

    def unchecked(metadata: dict[str, Any], back: Any) -> Any:
        return back_to(metadata, replace(back, expected=head_of(metadata, back.into)))

    patch.setattr(moves_of_tables, "_return", unchecked)


@dataclass(frozen=True)
class Safeguard:
    """A safeguard, and the interleaving that needs it."""

    name: str
    remove: Removal
    scenario: Scenario


SAFEGUARDS = (
    Safeguard("version compare-and-swap", no_version_check, plan_made_against_an_old_version),
    Safeguard("pointer compare-and-swap", no_pointer_check, view_is_replaced_by_another_program),
    Safeguard("lease", no_lease, two_fill_the_same_table),
    Safeguard("fencing token", no_fencing, owner_stalls_and_comes_back),
    Safeguard("grace time", no_grace, reader_is_still_reading),
    Safeguard("tombstone check", no_check_for_tombstones, rollback_meets_the_janitor),
    Safeguard("check at deletion", no_check_at_deletion, late_use_of_a_given_up_table),
    Safeguard("publication decided once", no_decision, in_doubt_commit_comes_late),
    Safeguard(
        "heads are read again", no_second_look_at_heads, table_is_written_while_it_is_published
    ),
    Safeguard("pins are kept", no_retention_by_pins, replaced_data_are_read_by_version),
    Safeguard("version is kept", no_check_of_the_version, version_is_forgotten_while_it_is_frozen),
    Safeguard("frozen for ever", no_frozen_check, frozen_environment_is_published_again),
    Safeguard("moves are noted", no_noted_heads, other_environment_shows_what_production_moved),
    Safeguard("held tables are read", no_memory_of_held_tables, held_table_is_shown_as_it_is_again),
    Safeguard(
        "others are asked", no_look_at_others, another_environment_begins_to_show_what_goes_back
    ),
    Safeguard("ranges go back", no_filled_ranges_back, what_goes_back_is_filled_as_it_was),
    Safeguard("what is held is kept", no_retention_by_pins, what_another_holds_is_kept),
    Safeguard("expected snapshot", no_expected_snapshot, table_is_written_while_it_goes_back),
    Safeguard("one state of a table", no_check_for_wholeness, table_is_shown_as_of_two_times),
)


@pytest.mark.turns(10)
@pytest.mark.parametrize("safeguard", SAFEGUARDS, ids=lambda safeguard: safeguard.name)
def test_the_impossible_stays_impossible(safeguard: Safeguard, world: World) -> None:
    safeguard.scenario(world)


@pytest.mark.turns(10)
@pytest.mark.parametrize("safeguard", SAFEGUARDS, ids=lambda safeguard: safeguard.name)
def test_without_the_safeguard_it_happens(
    safeguard: Safeguard, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    safeguard.remove(monkeypatch)
    with pytest.raises((AssertionError, FileNotFoundError)):
        safeguard.scenario(world)
