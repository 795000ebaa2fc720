"""The contract of catalogs, on the one in the state's database and on one that promises nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection

from vde_dagster.errors import ConflictError, StoreError
from vde_dagster.lakehouse.catalogs.catalog import (
    TABLE,
    VIEW,
    Catalog,
    Pointer,
    PointerMovedError,
    Swap,
)
from vde_dagster.lakehouse.catalogs.rest import RestCatalog
from vde_dagster.lakehouse.catalogs.sql import SqlCatalog
from vde_dagster.lakehouse.io.files import encode_metadata
from vde_dagster.lakehouse.io.locations import next_file
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.changes import remove_branches
from vde_dagster.lakehouse.metadata.commit_summaries import committed_fills
from vde_dagster.lakehouse.publishing.commit import change_table, commit_swap, read_table
from vde_dagster.lakehouse.publishing.new_table import NewTable, first_metadata
from vde_dagster.lakehouse.publishing.publication import FastForward, Publication
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.plugins.nessie import NessieCatalog, NessieServer
from vde_dagster.state.environments.publications import PublicationStore
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster.state.store import StateStore
from vde_dagster.state.table_commits import TableCommit
from vde_dagster_tests.fixtures.toy_distribution.vde_toy.folder_catalog import FolderCatalog
from vde_dagster_tests.lakehouse.fake_engine import FakeEngine
from vde_dagster_tests.lakehouse.nessie_process import new_branch
from vde_dagster_tests.lakehouse.rest_process import new_part
from vde_dagster_tests.state.builders import day, days, environment, plan, table, view

A, B = TableRef("db", "a"), TableRef("db", "b")


SERVERS = [pytest.param(name, marks=pytest.mark.server) for name in ("nessie", "rest")]


@pytest.fixture(params=["sql", "folder", *SERVERS])
def catalog(request: pytest.FixtureRequest, store: StateStore, tmp_path: Path) -> Catalog:
    if request.param == "rest":
        part = new_part(request.getfixturevalue("rest_server"))
        return RestCatalog(part, "lakehouse", str(tmp_path), store.database.effects)
    if request.param == "nessie":
        uri = request.getfixturevalue("nessie")
        server = NessieServer(uri, new_branch(uri))
        return NessieCatalog(server, "lakehouse", str(tmp_path), store.database.effects)
    if request.param == "folder":
        return FolderCatalog("lakehouse", tmp_path / "catalog", store.database.effects)
    return SqlCatalog(store, "lakehouse", str(tmp_path))


@pytest.fixture
def lakehouse(catalog: Catalog, store: StateStore, tmp_path: Path) -> Lakehouse:
    made = Lakehouse(store, "lakehouse", str(tmp_path / "warehouse"), catalog=catalog)
    made.catalog.create_namespaces({"vde_physical": {}, "db": {}})
    return made


@pytest.fixture
def filled(lakehouse: Lakehouse) -> PhysicalTable:
    """A table with a day on `main` and another on the branch of plan p1."""
    store, engine = lakehouse.store, FakeEngine(lakehouse)
    made = store.tables.ensure(table())
    engine.create_table(made)
    made = store.tables.mark_created(made, [("a", "INT")])
    engine.fill(made, day(0), "p0")
    store.fills.record(FillRecord(made.id, day(0), "p0"))
    store.plans.save(plan("p1", tables=[made]))
    number = engine.fill(made, day(1), "p1", "vde_p1")
    store.pending.record(FillRecord(made.id, day(1), "p1", number, 10, branch="vde_p1"))
    return made


KEEPS_VIEWS = pytest.mark.parametrize("catalog", ["sql", "folder", SERVERS[0]], indirect=True)


def makes_a(lakehouse: Lakehouse) -> Swap:
    """A change that makes A: a view, or a table where the catalog has no views of ours."""
    if lakehouse.catalog.form.keeps_pointers:
        return Swap(A, VIEW, None, "file:///1")
    base = f"{lakehouse.warehouse}/db/a-0"
    location = next_file(base, None)
    first = first_metadata(NewTable(A, (("a", "INT", None),), base, {}), 0)
    lakehouse.files.write_all([(location, encode_metadata(first))], "test")
    return Swap(A, TABLE, None, location)


def metadata_files(tmp_path: Path) -> set[Path]:
    return set((tmp_path / "warehouse").rglob("*.metadata.json"))


@KEEPS_VIEWS
def test_names_are_created_moved_and_removed(lakehouse: Lakehouse) -> None:
    catalog = lakehouse.catalog
    catalog.swap([Swap(A, VIEW, None, "file:///1")])
    catalog.swap([Swap(B, TABLE, None, "file:///2")])
    assert catalog.pointers([A, B, TableRef("no", "such")]) == {
        A: Pointer("file:///1", VIEW),
        B: Pointer("file:///2", TABLE),
    }
    catalog.swap([Swap(A, VIEW, "file:///1", "file:///3")])
    catalog.swap([Swap(B, TABLE, "file:///2", None)])
    assert catalog.all_pointers() == {A: Pointer("file:///3", VIEW)}
    assert catalog.every_pointer() == [Pointer("file:///3", VIEW)]


@KEEPS_VIEWS
@pytest.mark.parametrize(
    "swap",
    [
        Swap(A, VIEW, None, "file:///2"),
        Swap(A, VIEW, "file:///0", "file:///2"),
        Swap(A, VIEW, "file:///0", None),
        Swap(A, TABLE, "file:///1", "file:///2"),
        Swap(B, VIEW, "file:///1", "file:///2"),
    ],
)
def test_what_is_not_where_it_was_read_is_left_alone(lakehouse: Lakehouse, swap: Swap) -> None:
    catalog = lakehouse.catalog
    catalog.swap([Swap(A, VIEW, None, "file:///1")])
    with pytest.raises(PointerMovedError) as error:
        catalog.swap([swap])
    assert (error.value.ref, error.value.kind) == (swap.ref, swap.kind)
    assert catalog.all_pointers() == {A: Pointer("file:///1", VIEW)}


@KEEPS_VIEWS
def test_a_set_of_changes_is_whole_or_refused(lakehouse: Lakehouse) -> None:
    catalog = lakehouse.catalog
    refused = PointerMovedError if catalog.form.together else AssertionError
    with pytest.raises(refused):
        catalog.swap([Swap(A, VIEW, None, "file:///1"), Swap(B, TABLE, "file:///0", None)])
    assert catalog.all_pointers() == {}


def test_a_change_is_part_of_the_states_transaction_where_that_is_promised(
    lakehouse: Lakehouse,
) -> None:
    def work(conn: Connection) -> None:
        lakehouse.catalog.swap([makes_a(lakehouse)], conn)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lakehouse.store.database.run_transaction(work)
    undone = lakehouse.catalog.pointers([A]) == {}
    assert undone != lakehouse.catalog.form.follows


def test_namespaces_are_dropped_once_they_are_empty(lakehouse: Lakehouse) -> None:
    catalog = lakehouse.catalog
    catalog.create_namespaces({"db": {}, "x": {"k": "v"}, "x.y": {}})
    assert catalog.namespaces(["db", "x", "no"]) == {"db", "x"}
    catalog.swap([makes_a(lakehouse)])
    assert not catalog.drop_namespace("db")
    assert catalog.drop_namespace("x.y")
    assert catalog.drop_namespace("x")
    assert catalog.namespaces(["db", "x", "x.y"]) == {"db"}


def test_tables_are_made_once_and_read_by_pyiceberg(lakehouse: Lakehouse, tmp_path: Path) -> None:
    new = NewTable(A, (("a", "INT", None),), f"{lakehouse.warehouse}/db/a-1", {}, "vde_p1")
    assert lakehouse.create_table(new)
    before = set((tmp_path / "warehouse").rglob("*.*"))
    other = replace(new, location=f"{lakehouse.warehouse}/db/a-2")
    assert not lakehouse.create_table(other)
    assert set((tmp_path / "warehouse").rglob("*.*")) == before
    assert [field.name for field in lakehouse.load_table(A).schema().fields] == ["a"]
    with pytest.raises(Exception, match="has no table"):
        lakehouse.load_table(B)


@KEEPS_VIEWS
def test_views_appear_are_replaced_and_go(lakehouse: Lakehouse) -> None:
    def publish(base: int, *names: str, sql: str = "SELECT 1 AS a", dropped: str = "") -> int:
        views = tuple(view(name, sql) for name in names)
        gone = tuple(TableRef("db", name) for name in dropped)
        return lakehouse.publish(Publication(environment("prod"), base, views, gone)).version

    def shown() -> dict[str, str]:
        return {str(ref): at.location for ref, at in lakehouse.catalog.all_pointers().items()}

    assert publish(0, "a", "b") == 1
    first = shown()
    assert set(first) == {"db.a", "db.b"}
    assert publish(1, "b", "c", sql="SELECT 2 AS a", dropped="a") == 2
    second = shown()
    assert set(second) == {"db.b", "db.c"}
    assert second["db.b"] != first["db.b"]
    assert lakehouse.moved_views("prod") == set()
    assert publish(2, "b", "c", sql="SELECT 2 AS a") == 3
    assert shown() == second


def test_whoever_publishes_second_changes_nothing(lakehouse: Lakehouse, tmp_path: Path) -> None:
    lakehouse.publish(Publication(environment("prod"), 0, (view("a"),)))
    before, files = lakehouse.catalog.all_pointers(), metadata_files(tmp_path)
    with pytest.raises(ConflictError, match="anna published"):
        lakehouse.publish(Publication(environment("prod"), 0, (view("a", "SELECT 9 AS a"),)))
    assert lakehouse.catalog.all_pointers() == before
    assert metadata_files(tmp_path) == files


def test_a_branch_moves_with_the_publication(lakehouse: Lakehouse, filled: PhysicalTable) -> None:
    store = lakehouse.store
    head = lakehouse.main_snapshot(filled.ref, "vde_p1")
    forward = FastForward(filled.ref, filled.id, "vde_p1")
    made = environment("prod", [("db.orders", "db.orders@1", filled.id)], plan_id="p1")
    publication = Publication(made, 0, (view("a"),), fast_forwards=(forward,), plan_id="p1")
    first = lakehouse.publish(publication)
    assert lakehouse.main_snapshot(filled.ref) == head
    assert lakehouse.main_snapshot(filled.ref, "vde_p1") is None
    assert store.tables.get(filled.id).intervals == days(0, 1)
    assert store.pending.for_plan("p1") == []
    assert lakehouse.publish(publication) == first
    record = store.publications.get(first.publication_id)
    assert record is not None
    assert record.status == "committed"


def test_a_commit_on_another_branch_meanwhile_is_no_conflict(
    lakehouse: Lakehouse, filled: PhysicalTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it comes before the decision or between that and the table's own change."""
    engine, store = FakeEngine(lakehouse), lakehouse.store
    commit = PublicationStore.commit
    others: list[int] = []

    def meddle(*arguments: object, **named: object) -> None:
        commit(*arguments, **named)  # type: ignore[arg-type]
        if lakehouse.catalog.form.follows and not others:
            others.append(engine.fill(filled, day(7), "p2", "vde_p2"))

    swap = lakehouse.catalog.swap

    def late(swaps: list[Swap], within: object = None) -> None:
        if len(others) == 1 and swaps[0].ref == filled.ref and "p2" not in str(swaps):
            others.append(0)
            others.append(engine.fill(filled, day(8), "p3", "vde_p3"))
        swap(swaps, within)  # type: ignore[arg-type]

    monkeypatch.setattr(PublicationStore, "commit", meddle)
    monkeypatch.setattr(lakehouse.catalog, "swap", late)
    forward = FastForward(filled.ref, filled.id, "vde_p1")
    made = environment("prod", [("db.orders", "db.orders@1", filled.id)], plan_id="p1")
    lakehouse.publish(Publication(made, 0, (view("a"),), fast_forwards=(forward,), plan_id="p1"))
    assert committed_fills(lakehouse.table_metadata(filled.ref))[0].plan_id == "p1"
    assert store.tables.get(filled.id).intervals == days(0, 1)
    for number, branch in zip(others[::2], ["vde_p2", "vde_p3"], strict=False):
        assert lakehouse.main_snapshot(filled.ref, branch) == number


def test_a_change_without_a_lease_leaves_no_file(
    lakehouse: Lakehouse, filled: PhysicalTable, tmp_path: Path
) -> None:
    lease = lakehouse.store.leases.acquire(f"table/{filled.id}", "anna")
    lakehouse.store.leases.release(lease)
    with pytest.raises(ConflictError):
        _drop_branch(lakehouse, filled, TableCommit(lease=lease), tmp_path)


def test_a_change_without_a_database_leaves_no_file(
    lakehouse: Lakehouse,
    filled: PhysicalTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lakehouse.store.database, "run_transaction", _unreachable)
    with pytest.raises(StoreError, match="out of reach"):
        _drop_branch(lakehouse, filled, TableCommit(), tmp_path)


@pytest.mark.parametrize("catalog", ["sql"], indirect=True)
def test_a_change_of_a_table_that_was_given_up_leaves_no_file(
    lakehouse: Lakehouse, filled: PhysicalTable, tmp_path: Path
) -> None:
    waiting = FillRecord("given-up", day(1), "p1", 1, 10, branch="vde_p1")
    with pytest.raises(StoreError, match="no live table"):
        _drop_branch(lakehouse, filled, TableCommit(filled=waiting), tmp_path)


def _drop_branch(
    lakehouse: Lakehouse, filled: PhysicalTable, also: TableCommit, tmp_path: Path
) -> None:
    """Change a table; where that is refused, it is as it was and has no file more."""
    before = metadata_files(tmp_path)
    state = read_table(lakehouse, filled.ref)
    updates = remove_branches(state.metadata, ["vde_p1"])
    try:
        change_table(lakehouse, state, filled.ref, updates, "fill.test", also)
    finally:
        assert metadata_files(tmp_path) == before
        assert lakehouse.metadata_location(filled.ref) == state.location


def _unreachable(*arguments: object, **named: object) -> None:
    raise StoreError("the database is out of reach", hint="wait")


@pytest.mark.parametrize("catalog", ["folder"], indirect=True)
def test_a_swap_whose_answer_is_lost_keeps_its_file(
    lakehouse: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be current: nobody removes what a pointer may name."""
    catalog = lakehouse.catalog
    swap = catalog.swap

    def lost(*arguments: object) -> None:
        swap(*arguments)  # type: ignore[arg-type]
        raise StoreError("no answer", hint="wait")

    location = f"{lakehouse.warehouse}/db/a-1/metadata/0.metadata.json"
    monkeypatch.setattr(catalog, "swap", lost)
    with pytest.raises(StoreError, match="no answer"):
        commit_swap(lakehouse, Swap(A, TABLE, None, location), [(location, b"{}")], "table.test")
    assert catalog.pointers([A])[A].location == location
    assert metadata_files(tmp_path) == {Path(location.removeprefix("file://"))}


def test_spark_is_told_how_to_reach_it_in_plain_strings(lakehouse: Lakehouse) -> None:
    properties = lakehouse.catalog.for_spark().properties
    assert {"type", "catalog-impl"} & properties.keys()
    assert all(type(key) is str and type(value) is str for key, value in properties.items())
