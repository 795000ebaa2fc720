"""Rows of the state that aim the janitor at what it must not delete.

A login that may write rows names files and folders in them; every row here is as old as the janitor
wants it. What is kept is read from files by the test itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import insert

from vde_dagster.lakehouse.catalogs.catalog import TABLE, Swap
from vde_dagster.lakehouse.catalogs.sql import SqlCatalog
from vde_dagster.lakehouse.io.files import MetadataFiles
from vde_dagster.lakehouse.io.inside import flaw_inside, place_key
from vde_dagster.lakehouse.maintenance.fsck import fsck
from vde_dagster.lakehouse.maintenance.janitor import JanitorReport, clean
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import pack
from vde_dagster.state.tables.tables import LedgerStore
from vde_dagster_tests.lakehouse.protocol import RETENTION, Job, Process, World, fast_folder
from vde_dagster_tests.lakehouse.pyiceberg_tables import pyiceberg_catalog, writable
from vde_dagster_tests.state.builders import FakeClock, table

ROWS = pa.table({"c0": pa.array([1, 2], pa.int32()), "c1": pa.array([3, 4], pa.int32())})
LONG_AGO = datetime(2020, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Place:
    """A warehouse with a table that has rows, views of production, a stranger, and a neighbor."""

    world: World
    process: Process
    table: PhysicalTable
    stranger: TableRef

    @property
    def warehouse(self) -> Path:
        return self.world.warehouse

    @property
    def victim(self) -> Path:
        """A folder outside of the warehouse."""
        return self.warehouse.parent / "important-victim"

    def files(self) -> set[Path]:
        """All files, in the warehouse and beside it."""
        found = self.warehouse.parent.rglob("*")
        return {path for path in found if path.is_file() and "vde.db" not in path.name}

    def named(self, ending: str) -> list[str]:
        """Locations of the table's files with such an ending."""
        folder = Path(self.process.lakehouse.table_location(self.table.ref, self.table.id)[7:])
        found = [f"file://{path}" for path in sorted(folder.rglob(f"*{ending}"))]
        assert found, ending
        return found

    def tombstone(self, **values: Any) -> None:
        """Write a row of the ledger for a table that was given up long ago."""
        row = {
            "table_id": "victim",
            "namespace": "vde_physical",
            "name": "important",
            "fill_version": "f",
            "columns_version": values.get("table_id", "victim"),
            "columns": "[]",
            "snapshot_id": "s",
            "created": True,
            "status": "tombstoned",
            "registered_at": LONG_AGO,
            "tombstoned_at": LONG_AGO,
            "location": None,
        }
        self._insert(schema.tables, {**row, **values})

    def record(self, files: list[Any] | bytes, **values: Any) -> None:
        """Write a publication's row that names files to delete."""
        row = {
            "publication_id": "evil",
            "environment": "",
            "status": "unused",
            "published_by": "janitor",
            "files": files if isinstance(files, bytes) else pack(files),
            "started_at": LONG_AGO,
            "decided_at": LONG_AGO,
        }
        self._insert(schema.publications, {**row, **values})

    def _insert(self, into: Any, row: dict[str, Any]) -> None:
        with self.process.store.database.transaction() as conn:
            conn.execute(insert(into), row)

    def clean(self) -> JanitorReport:
        return clean(self.world.process().lakehouse, RETENTION, timedelta(days=7))


@pytest.fixture
def place(empty_database: Path) -> Iterator[Place]:
    folder = Path(fast_folder())
    shutil.copy(empty_database, folder / "vde.db")
    clock = FakeClock(datetime.now(timezone.utc))
    world = World(f"sqlite:///{folder / 'vde.db'}", folder / "warehouse", clock)
    process = world.process()
    process.lakehouse.catalog.create_namespaces({"vde_physical": {}, "raw": {}})
    process.apply(Job("j1", "prod", 0, (("orders", "1"),)))
    made = process.store.tables.ensure(replace(table("sales"), snapshot_id="s"))
    process.engine.create_table(made)
    process.store.tables.mark_created(made, [(column.name, "INT") for column in made.columns])
    sales = writable(process.lakehouse, made.ref)
    sales.append(ROWS)
    sales.append(ROWS)
    stranger = TableRef("raw", "events")
    pyiceberg_catalog(process.lakehouse).create_table(
        ("raw", "events"), ROWS.schema, location=f"{process.lakehouse.warehouse}/raw/events-2024"
    ).append(ROWS)
    found = Place(world, process, made, stranger)
    for outside in (found.victim, folder / "warehouse2" / "raw" / "important-victim"):
        (outside / "data").mkdir(parents=True)
        (outside / "data" / "file.parquet").write_text("x")
    (folder / "warehouse" / "seeds").mkdir()
    (folder / "warehouse" / "seeds" / "by_hand.csv").write_text("x")
    yield found
    shutil.rmtree(folder)


def refuses(place: Place, aim: Callable[[], None]) -> JanitorReport:
    """Aim the janitor, let it run twice, and make sure that no file and no pointer is gone."""
    before = place.files(), place.process.lakehouse.catalog.all_pointers()
    aim()
    report = place.clean()
    again = place.clean()
    assert place.files() >= before[0]
    assert place.process.lakehouse.catalog.all_pointers() == before[1]
    assert not again.failures
    return report


FOLDERS: dict[str, Callable[[Place], str]] = {
    "outside": lambda p: f"file://{p.victim}",
    "a plain path": lambda p: str(p.victim),
    "one slash": lambda p: f"file:{p.victim}",
    "climbing": lambda p: f"file://{p.warehouse}/vde_physical/../../important-victim",
    "climbing, encoded": lambda p: f"file://{p.warehouse}/%2e%2e/important-victim",
    "a neighbor with the same beginning": lambda p: f"file://{p.warehouse}2/raw/important-victim",
    "relative": lambda p: "important-victim",
    "the warehouse": lambda p: f"file://{p.warehouse}",
    "the warehouse with a slash": lambda p: f"file://{p.warehouse}//",
    "a namespace": lambda p: f"file://{p.warehouse}/vde_physical",
    "another store": lambda p: f"s3:/{p.warehouse}/raw/important-victim",
    "upper case": lambda p: f"FILE://{p.victim}",
    "a line break": lambda p: f"file://{p.warehouse}/raw/\nimportant-victim",
    "a NUL": lambda p: f"file://{p.warehouse}/raw/\0important-victim",
    "empty": lambda p: "",
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_tombstone_aims_at_no_folder_outside_of_the_warehouse(name: str, place: Place) -> None:
    report = refuses(place, lambda: place.tombstone(location=FOLDERS[name](place)))
    (told,) = [one for one in report.decisions if one.action == "drop_table"]
    assert told.outcome == "failed" or name == "empty"


@pytest.mark.parametrize("inside", [False, True])
def test_a_tombstone_aims_through_no_symbolic_link(place: Place, inside: bool) -> None:
    link = place.warehouse / "vde_physical" / "important-victim"
    link = link if not inside else place.warehouse / "linked"
    link.symlink_to(place.victim if not inside else place.victim.parent)
    where = link if not inside else link / "important-victim"
    refuses(place, lambda: place.tombstone(location=f"file://{where}"))


def test_a_tombstone_aims_at_no_kept_tables_folder(place: Place) -> None:
    """An id that ends the folder's name, such as its last letters, proves nothing."""
    folder = place.process.lakehouse.table_location(place.table.ref, place.table.id)
    tail = place.table.id
    for number, cut in enumerate((tail[:-1][-4:], tail[-1], tail[-6:])):
        name = f"x{number}"
        refuses(
            place,
            lambda name=name, cut=cut: place.tombstone(  # type: ignore[misc]
                table_id=cut, name=name, location=folder
            ),
        )


@pytest.mark.parametrize("case", [str, str.upper])
def test_a_tombstone_aims_at_no_strangers_table(place: Place, case: Callable[[str], str]) -> None:
    """Its name in the catalog and its folder's name are both as a table of the ledger's."""
    named = {"namespace": "raw", "name": case("events"), "table_id": "2024"}
    report = refuses(place, lambda: place.tombstone(**named))
    (told,) = [one for one in report.decisions if one.action == "drop_table"]
    assert told.outcome in ("kept", "failed")


def test_a_folder_with_another_tables_metadata_stays(place: Place) -> None:
    """A table of another catalog, whose folder is named as one of the ledger's."""
    foreign = place.warehouse / "vde_physical" / "important-victim" / "metadata"
    foreign.mkdir(parents=True)
    raw = place.warehouse / "raw" / "events-2024" / "metadata"
    shutil.copy(next(raw.glob("*.metadata.json")), foreign)
    report = refuses(place, place.tombstone)
    assert "metadata of another table" in str([one.error for one in report.failures])


def test_a_tombstone_of_a_strangers_name_takes_no_pointer(place: Place) -> None:
    report = refuses(place, lambda: place.tombstone(namespace="raw", name="events", table_id="q"))
    assert "is not the table q" in str([one.error for one in report.failures])


@pytest.mark.parametrize("folder", ["", "raw/theirs-2024"])
def test_a_table_that_took_a_shown_tables_name_stays_as_it_is(folder: str, place: Place) -> None:
    """Another program dropped the table, and made one of its own under that name."""
    lakehouse = place.process.lakehouse
    ref = next(one for one in lakehouse.catalog.all_pointers() if one.name.startswith("orders_"))
    catalog, name = pyiceberg_catalog(lakehouse), (ref.namespace, ref.name)
    catalog.drop_table(name)
    location = f"{lakehouse.warehouse}/{folder}" if folder else None
    theirs = catalog.create_table(name, ROWS.schema, location=location)
    theirs.append(ROWS)
    theirs.append(ROWS)
    first = theirs.history()[0].snapshot_id
    theirs.manage_snapshots().create_branch(branch_name="vde_j1", snapshot_id=first).commit()
    before, there = place.files(), lakehouse.metadata_location(ref)
    place.world.clock.advance(days=30)
    (failure,) = place.clean().failures
    assert failure.error == f"the catalog's {ref} is not the table {_shown(place)}"
    assert (place.files() >= before, lakehouse.metadata_location(ref)) == (True, there)


def _shown(place: Place) -> str:
    current = place.process.store.environments.get("prod")
    assert current is not None
    (shown,) = current.tables
    return shown


def test_a_kept_version_that_names_a_tombstoned_table_keeps_it(place: Place) -> None:
    """The row says that it is given up, and the environment shows it."""
    row = {"status": "tombstoned", "tombstoned_at": LONG_AGO}
    with place.process.store.database.transaction() as conn:
        conn.execute(schema.tables.update().values(**row))
    before = place.files()
    place.clean()
    shown = [path for path in before if "/orders_" in str(path)]
    assert shown
    assert all(path.exists() for path in shown)


ENDINGS = {
    "data files": lambda p: p.named(".parquet"),
    "manifests and their lists": lambda p: p.named(".avro"),
    "metadata of the table": lambda p: p.named(".metadata.json"),
    "a view of production": lambda p: [
        f"file://{path}" for path in p.warehouse.rglob("_vde_views/**/*.json")
    ],
    "a stranger's files": lambda p: [
        f"file://{path}" for path in (p.warehouse / "raw").rglob("*.*")
    ],
    "a file by hand": lambda p: [f"file://{p.warehouse}/seeds/by_hand.csv"],
    "outside": lambda p: [f"file://{p.victim}/data/file.parquet"],
    "a neighbor": lambda p: [f"{p.warehouse}2/raw/important-victim/data/file.parquet"],
    "climbing": lambda p: [f"{p.warehouse}/x/../../important-victim/data/file.parquet"],
    "other spellings": lambda p: [
        spelled
        for one in p.named(".parquet")
        for spelled in (one[7:], f"file:{one[7:]}", one.replace("/data/", "/./data//"))
    ],
}


@pytest.mark.parametrize("status", ["unused", "aborted", "intended", "committed"])
@pytest.mark.parametrize("name", ENDINGS)
def test_a_publications_row_aims_at_no_file_that_is_kept(
    name: str, status: str, place: Place
) -> None:
    found = ENDINGS[name](place)
    assert found
    files = [[one, None, "data"] for one in found]
    if status == "committed":
        files = [[None, one, "view"] for one in found]
    refuses(place, lambda: place.record(files, status=status))


def test_a_row_that_cannot_be_read_stops_nothing(place: Place) -> None:
    for number, files in enumerate((b"", b"x", pack({"a": 1}), pack([[1, 2, 3]]), pack([["a"]]))):
        place.record(files, publication_id=f"bad{number}")
    stray = Path(place.named(".parquet")[0][7:]).with_name("unused.parquet")
    stray.write_text("x")
    place.record([[f"file://{stray}", None, "data"]])
    place.clean()
    assert not stray.exists()


def test_a_row_that_cannot_be_read_lets_files_wait_that_it_may_name(place: Place) -> None:
    """Files of expired Iceberg snapshots, which no metadata names, and readers still use."""
    stray = Path(place.named(".parquet")[0][7:]).with_name("unused.parquet")
    stray.write_text("x")
    os.utime(stray, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    place.record(b"x", decided_at=place.world.clock.now())
    told = [one for one in place.clean().decisions if one.action == "delete_orphans"]
    assert [one.outcome for one in told] == ["failed"]
    assert "evil" in str(told[0].error)
    assert stray.exists()
    assert "evil" in str(fsck(place.process.lakehouse, timedelta(days=3)))
    place.world.clock.advance(days=30)
    place.clean()
    assert not place.process.store.publications.files_to_delete()


def test_files_of_a_publication_that_may_still_happen_stay(place: Place) -> None:
    """Its pointers do not name them before its transaction."""
    folder = place.warehouse / "_vde_views" / "open"
    folder.mkdir(parents=True)
    (folder / "00000-a.metadata.json").write_text("{}")
    location = f"file://{folder}/00000-a.metadata.json"
    now = place.world.clock.now()
    row = {"publication_id": "open", "status": "intended", "started_at": now, "decided_at": None}
    place.record([[location, None, "view"]], **row)
    refuses(place, lambda: place.record([[location, None, "data"]]))


def test_a_written_table_is_left_alone(place: Place) -> None:
    """The files of its next commit are named by nothing yet."""
    stray = Path(place.named(".parquet")[0][7:]).with_name("next.parquet")
    stray.write_text("x")
    lease = place.process.store.leases.acquire(f"table/{place.table.id}", "writer", 3600)
    place.record([[f"file://{stray}", None, "data"]])
    (told,) = [one for one in place.clean().decisions if one.action == "delete_files"]
    assert (told.outcome, "is being written" in told.reason, stray.exists()) == ("kept", True, True)
    place.process.store.leases.release(lease)
    place.clean()
    assert not stray.exists()


def test_a_file_that_is_named_after_the_mark_stays(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit takes the file in between the two looks at the catalog."""
    stray = Path(place.named(".parquet")[0][7:]).with_name("late.parquet")
    shutil.copy(Path(place.named(".parquet")[0][7:]), stray)
    place.record([[f"file://{stray}", None, "data"]])
    looks, look = [0], SqlCatalog.every_pointer

    def commit_after_the_first(catalog: SqlCatalog) -> Any:
        found = look(catalog)
        looks[0] += 1
        if looks[0] == 1:
            sales = writable(place.process.lakehouse, place.table.ref)
            sales.add_files([f"file://{stray}"])
        return found

    monkeypatch.setattr(SqlCatalog, "every_pointer", commit_after_the_first)
    place.clean()
    assert looks[0] > 1
    assert stray.exists()


def test_a_folder_that_is_named_after_the_claim_stays(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of the catalog is registered in it while it is claimed."""
    folder = place.warehouse / "vde_physical" / "important-victim"
    (folder / "metadata").mkdir(parents=True)
    file = folder / "metadata" / "00000-a.metadata.json"
    shutil.copy(Path(place.named(".metadata.json")[-1][7:]), file)
    place.tombstone()
    claim = LedgerStore.start_dropping

    def register(ledger: LedgerStore, connection: Any, *claimed: Any) -> bool:
        late = Swap(TableRef("raw", "late"), TABLE, None, f"file://{file}")
        place.process.lakehouse.catalog.swap([late], connection)
        return claim(ledger, connection, *claimed)

    monkeypatch.setattr(LedgerStore, "start_dropping", register)
    place.clean()
    assert file.exists()


def test_unused_files_of_a_table_and_of_a_dropped_one_still_go(place: Place) -> None:
    first = Path(place.named(".parquet")[0][7:])
    stray = first.with_name("unused.parquet")
    stray.write_text("x")
    old = place.warehouse / "_vde_views" / "gone" / "00000-a.metadata.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    lost = place.warehouse / "vde_physical" / "important-victim" / "data" / "a.parquet"
    lost.parent.mkdir(parents=True)
    lost.write_text("x")
    place.record([[f"file://{stray}", None, "data"], [f"file://{old}", None, "view"]])
    place.tombstone()
    report = place.clean()
    assert not report.failures
    assert not any(path.exists() for path in (stray, old, lost, lost.parents[1]))
    assert first.exists()


def test_what_deletes_files_refuses_others(place: Place) -> None:
    """Whatever calls it: the last line before the file system."""
    files: MetadataFiles = place.process.lakehouse.files
    for delete in (
        lambda one: files.delete_all([one], "test"),
        lambda one: files.delete_tree(one, "test"),
    ):
        for folder in (place.victim, place.warehouse, place.warehouse / ".." / "important-victim"):
            with pytest.raises(Exception, match="deleted"):
                delete(f"file://{folder}")
    assert place.victim.exists()


REMOTE = {
    "s3://b/wh/ns/t-1": None,
    "s3a://b/wh/ns/t-1": None,
    "s3://b/wh/ns/a=x%2Fy/f.parquet": None,
    "s3://b/wh2/ns/t-1": "outside",
    "s3://b/wh": "outside",
    "s3://b/wh/": "outside",
    "s3://b2/wh/ns/t-1": "outside",
    "s3://B/wh/ns/t-1": "outside",
    "gs://b/wh/ns/t-1": "outside",
    "b/wh/ns/t-1": "outside",
    "/b/wh/ns/t-1": "outside",
    "s3://b/other/../wh/ns/t-1": "contains '..'",
    "s3://b/wh/../other/t-1": "contains '..'",
    "s3://b/wh/%2E%2e/other/t-1": "contains '..'",
    "s3://b/wh/ns/f.parquet?x": "query",
    "s3://b/wh/ns/f.parquet#x": "query",
    "s3://b/wh//ns/t-1": "empty part",
    "s3://user@b/wh/ns/t-1": "outside",
}


@pytest.mark.parametrize("warehouse", ["s3://b/wh", "s3://b/wh/"])
def test_places_in_an_object_store_are_inside_or_not(warehouse: str) -> None:
    for location, flaw in REMOTE.items():
        found = flaw_inside(location, warehouse)
        assert (found is None) == (flaw is None), (location, found)
        assert flaw is None or flaw in str(found), (location, found)


def test_the_schemes_of_one_store_name_the_same_place() -> None:
    host = "c@shop.dfs.core.windows.net/wh"
    assert flaw_inside(f"abfs://{host}/ns/t-1", f"abfss://{host}") is None
    assert place_key(f"abfs://{host}/ns/t-1") == place_key(f"abfss://{host}/ns/t-1/")
    assert place_key("s3n://b/wh/t-1") == place_key("s3://b/wh/t-1")
