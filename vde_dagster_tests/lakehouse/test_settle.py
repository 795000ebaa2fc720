"""What is left undone on a catalog that takes no part in the state's transaction, and finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ConflictError, StoreError
from vde_dagster.execution.apply.table_branches import Target
from vde_dagster.lakehouse.catalogs.catalog import VIEW, Swap
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.maintenance.fsck import fsck
from vde_dagster.lakehouse.metadata.commit_summaries import BranchName
from vde_dagster.lakehouse.publishing.finish_publication import settle
from vde_dagster.lakehouse.publishing.publication import FastForward, Publication, TableMove
from vde_dagster.planning.engine_tasks import FillResult
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.store import StateStore
from vde_dagster_tests.fixtures.toy_distribution.vde_toy.folder_catalog import FolderCatalog
from vde_dagster_tests.lakehouse.fake_engine import FakeEngine
from vde_dagster_tests.state.builders import FakeClock, day, days, environment, table, view

A = TableRef("db", "a")
OWN = BranchName("p1", 1, shared=True)


class Death(BaseException):
    """Stands for the end of a process: nothing is done after it."""


class Acting:
    """A port that lets something happen before or after a point is passed for the first time."""

    def __init__(self) -> None:
        self.before: dict[str, Callable[[], object]] = {}
        self.after: dict[str, Callable[[], object]] = {}

    @contextmanager
    def at(self, point: str, detail: str = "") -> Iterator[None]:
        self.before.pop(point, lambda: None)()
        yield
        self.after.pop(point, lambda: None)()


@pytest.fixture
def effects() -> Acting:
    return Acting()


@pytest.fixture
def store(url: str, clock: FakeClock, effects: Acting) -> Iterator[StateStore]:
    opened = StateStore.open(url, clock=clock, effects=effects)
    yield opened
    opened.close()


@pytest.fixture
def lakehouse(store: StateStore, tmp_path: Path) -> Lakehouse:
    catalog = FolderCatalog("lakehouse", tmp_path / "catalog", store.database.effects)
    made = Lakehouse(store, "lakehouse", str(tmp_path / "warehouse"), catalog=catalog)
    made.catalog.create_namespaces({"vde_physical": {}})
    return made


def die() -> None:
    raise Death


@pytest.fixture
def written(lakehouse: Lakehouse) -> tuple[PhysicalTable, FillResult]:
    """A table that nobody shows, with a day on the branch of an attempt."""
    store, engine = lakehouse.store, FakeEngine(lakehouse)
    made = store.tables.ensure(table())
    engine.create_table(made)
    made = store.tables.mark_created(made, [("a", "INT")])
    number = engine.fill(made, day(1), "p1", str(OWN))
    return made, FillResult(10, number, 0.0)


def advance(lakehouse: Lakehouse, written: tuple[PhysicalTable, FillResult]) -> None:
    made, result = written
    with lakehouse.store.leases.holding(f"table/{made.id}", "me") as held:
        target = Target(lakehouse, made, held.lease, OWN, waits=False)
        target.record(day(1), result, last=True)


def test_what_main_has_is_recorded_by_who_comes_next(
    lakehouse: Lakehouse, effects: Acting, written: tuple[PhysicalTable, FillResult]
) -> None:
    made, result = written
    effects.after["catalog.swap"] = die
    with pytest.raises(Death):
        advance(lakehouse, written)
    assert lakehouse.main_snapshot(made.ref) == result.iceberg_snapshot_id
    assert not lakehouse.store.tables.get(made.id).intervals
    assert lakehouse.recover()
    assert lakehouse.store.tables.get(made.id).intervals == days(1)
    assert lakehouse.store.pending.for_plan("p1") == []
    assert not lakehouse.recover()


def test_what_main_has_not_is_not_recorded(
    lakehouse: Lakehouse, effects: Acting, written: tuple[PhysicalTable, FillResult]
) -> None:
    made, _ = written
    effects.before["catalog.swap"] = die
    with pytest.raises(Death):
        advance(lakehouse, written)
    assert not lakehouse.recover()
    assert not lakehouse.store.tables.get(made.id).intervals
    advance(lakehouse, written)
    assert lakehouse.store.tables.get(made.id).intervals == days(1)
    assert lakehouse.store.pending.for_plan("p1") == []


def test_the_same_change_is_recorded_once_when_it_goes_through(
    lakehouse: Lakehouse, written: tuple[PhysicalTable, FillResult]
) -> None:
    made, _ = written
    advance(lakehouse, written)
    assert lakehouse.store.tables.get(made.id).intervals == days(1)
    assert len(lakehouse.store.fills.log(made.id)) == 1
    assert not lakehouse.recover()


def publish(lakehouse: Lakehouse, base: int, *names: str, sql: str = "SELECT 1 AS a") -> int:
    views = tuple(view(name, sql) for name in names)
    dropped = tuple(ref for ref in lakehouse.published_views("prod") if ref.name not in names)
    return lakehouse.publish(Publication(environment("prod"), base, views, dropped)).version


def shown(lakehouse: Lakehouse) -> set[str]:
    return {ref.name for ref in lakehouse.catalog.all_pointers()}


@pytest.mark.parametrize("swaps", [0, 1, 2])
def test_a_decided_publication_is_finished_by_who_comes_next(
    lakehouse: Lakehouse, effects: Acting, swaps: int
) -> None:
    def next_one(count: int) -> Callable[[], None]:
        def passed() -> None:
            if count == 0:
                raise Death
            effects.before["catalog.swap"] = next_one(count - 1)

        return passed

    effects.before["catalog.swap"] = next_one(swaps)
    with pytest.raises(Death):
        publish(lakehouse, 0, "a", "b", "c")
    assert len(shown(lakehouse)) == swaps
    assert lakehouse.recover()
    assert shown(lakehouse) == {"a", "b", "c"}
    assert lakehouse.moved_views("prod") == set()
    assert fsck(lakehouse) == ()


def test_who_stalls_while_pointers_follow_brings_nothing_back(
    lakehouse: Lakehouse, effects: Acting
) -> None:
    """Ben finishes what Anna began and drops a view; Anna goes on and would create it."""

    def others() -> None:
        (record,) = lakehouse.store.publications.unsettled()
        settle(lakehouse, record.id)
        publish(lakehouse, 1, "b")

    effects.before["catalog.create_namespace"] = others
    assert publish(lakehouse, 0, "a", "b") == 1
    assert shown(lakehouse) == {"b"}


def test_a_view_that_another_program_takes_meanwhile_is_put_back_later(
    lakehouse: Lakehouse, effects: Acting, tmp_path: Path
) -> None:
    publish(lakehouse, 0, "a")
    before = lakehouse.catalog.pointers([A])[A]
    stray = tmp_path / "stray.metadata.json"
    stray.write_bytes(Path(before.location.removeprefix("file://")).read_bytes())
    theirs = replace(before, location=f"file://{stray}")

    def meddle() -> None:
        lakehouse.catalog.swap([Swap(A, VIEW, before.location, theirs.location)])

    effects.after["publish.commit"] = meddle
    assert publish(lakehouse, 1, "a", sql="SELECT 2 AS a") == 2
    assert lakehouse.catalog.pointers([A])[A] == theirs
    assert lakehouse.moved_views("prod") == {A}
    publish(lakehouse, 2, "a", sql="SELECT 2 AS a")
    assert lakehouse.moved_views("prod") == set()


def test_a_catalog_that_cannot_be_reached_loses_nothing_that_was_decided(
    lakehouse: Lakehouse, effects: Acting
) -> None:
    def unreachable() -> None:
        raise OSError("no route")

    effects.before["catalog.swap"] = unreachable
    with pytest.raises(StoreError):
        publish(lakehouse, 0, "a")
    assert shown(lakehouse) == set()
    current = lakehouse.store.environments.get("prod")
    assert current is not None
    assert current.version == 1
    assert publish(lakehouse, 1, "a", "b") == 2
    assert shown(lakehouse) == {"a", "b"}
    assert lakehouse.moved_views("prod") == set()


def test_what_is_left_of_a_change_is_told_by_the_table() -> None:
    """Also where the record is of code that did not write down where a branch was to move."""
    commits = [
        {"snapshot-id": number, "parent-snapshot-id": number - 1 or None} for number in (1, 2, 3)
    ]
    fields = [{"id": 1, "name": "a", "type": "long"}]
    metadata = {
        "current-schema-id": 0,
        "last-column-id": 1,
        "schemas": [{"schema-id": 0, "fields": fields}],
        "snapshots": commits,
    }

    def at(main: int, **branches: int) -> dict[str, Any]:
        heads = {"main": main, **branches}
        refs = {name: {"type": "branch", "snapshot-id": head} for name, head in heads.items()}
        return {**metadata, "refs": refs}

    ref = TableRef("db", "t")
    move = TableMove(ref, "t1", FastForward(ref, "t1", "vde_p"), {"a": "BIGINT"})
    for to in (2, None):
        moved, ended = move.remaining(at(1, vde_p=2), to)
        assert (moved["ref-name"], moved["snapshot-id"]) == ("main", 2)
        assert ended == {"action": "remove-snapshot-ref", "ref-name": "vde_p"}
        assert move.remaining(at(3), to) == (), "it has moved, and others built on it"
    with pytest.raises(ConflictError, match="no longer has the branch"):
        move.remaining(at(1), 2)
