"""Data files that were written and never committed: what the janitor finds, and what it leaves.

The tables are written by PyIceberg, with real data files and manifests. Every file is made old, so
that only what names it protects it, unless a test is about its age.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from vde_dagster.lakehouse.io.files import MetadataFiles, StoredFile
from vde_dagster.lakehouse.maintenance import sweep
from vde_dagster.lakehouse.maintenance.fsck import fsck
from vde_dagster.lakehouse.maintenance.janitor import expire_snapshots
from vde_dagster.lakehouse.maintenance.kept import Kept, Ruling
from vde_dagster.lakehouse.maintenance.sweep import Cleaning, Decision
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.db.leases import LeaseStore
from vde_dagster.state.environments.publications import PublicationStore
from vde_dagster_tests.lakehouse.protocol import RETENTION, Process, World, fast_folder
from vde_dagster_tests.lakehouse.pyiceberg_tables import writable
from vde_dagster_tests.state.builders import FakeClock, table

ROWS = pa.table({"c0": pa.array([1, 2], pa.int32()), "c1": pa.array([3, 4], pa.int32())})


@pytest.fixture
def world(empty_database: Path) -> Iterator[World]:
    folder = Path(fast_folder())
    shutil.copy(empty_database, folder / "vde.db")
    clock = FakeClock(datetime.now(timezone.utc))
    made = World(f"sqlite:///{folder / 'vde.db'}", folder / "warehouse", clock)
    made.process().lakehouse.catalog.create_namespaces({"vde_physical": {}})
    yield made
    shutil.rmtree(folder)


@dataclass(frozen=True)
class Made:
    """A table of the ledger with two rows, and its folder."""

    world: World
    process: Process
    table: PhysicalTable
    data: Path

    @classmethod
    def new(cls, world: World) -> Made:
        process = world.process()
        made = process.store.tables.ensure(table())
        process.engine.create_table(made)
        process.store.tables.mark_created(made, [(column.name, "INT") for column in made.columns])
        location = process.lakehouse.table_location(made.ref, made.id)
        folder = Path(location.removeprefix("file://")) / "data"
        self = cls(world, process, made, folder)
        self.iceberg().append(ROWS)
        return self

    def iceberg(self) -> Table:
        return writable(self.process.lakehouse, self.table.ref)

    def stray(self, name: str = "stray.parquet") -> Path:
        """Write a file as a killed run leaves it."""
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(next(file for file in self.data.rglob("*.parquet")), path)
        path.with_name(f".{path.name}.crc").write_bytes(b"crc")
        self.age()
        return path

    def age(self, **delta: float) -> None:
        """Let every data file be as old, by default older than anything may take."""
        at = (self.world.clock.now() - timedelta(**(delta or {"days": 9}))).timestamp()
        for path in self.data.rglob("*"):
            os.utime(path, (at, at))

    def clean(self, *, dry_run: bool = False, **policy: object) -> list[Decision]:
        """Run the part of the janitor that looks for orphans."""
        process = self.world.process()
        retention = replace(RETENTION, **policy)  # type: ignore[arg-type]
        run = Cleaning(process.lakehouse, retention, timedelta(days=7), dry_run)
        sweep.delete_orphans(run)
        return run.decisions

    def files(self) -> set[str]:
        return {path.name for path in self.data.rglob("*") if path.is_file()}


@pytest.fixture
def made(world: World) -> Made:
    return Made.new(world)


def test_files_that_no_metadata_names_are_deleted_with_their_checksums(made: Made) -> None:
    kept = made.files()
    made.stray()
    made.stray("c0=1/00000-1-deletes.parquet")
    (decision,) = made.clean()
    assert (decision.action, decision.outcome) == ("delete_orphans", "done")
    assert decision.subject == str(made.table.ref)
    assert decision.reason.startswith("2 data files that its metadata does not name")
    assert decision.bytes
    assert made.files() == kept
    assert made.iceberg().scan().to_arrow().num_rows == 2
    assert made.clean() == []


def test_a_dry_run_tells_them_with_bytes_and_fsck_reports_them(made: Made) -> None:
    stray = made.stray()
    (decision,) = made.clean(dry_run=True)
    assert (decision.outcome, decision.bytes) == ("planned", stray.stat().st_size)
    (finding,) = fsck(made.process.lakehouse)
    assert (finding.problem, finding.subject) == ("orphans", str(made.table.ref))
    assert str(stray) in finding.detail
    assert not finding.is_damage
    assert stray.exists()


def test_what_is_younger_than_the_longest_run_stays(made: Made) -> None:
    stray = made.stray()
    made.age(days=2)
    assert made.clean() == []
    assert fsck(made.process.lakehouse) == ()
    assert stray.exists()
    made.age(days=4)
    assert made.clean(grace=timedelta(days=5)) == [], "the janitor's own grace time is longer"
    assert len(made.clean()) == 1


def test_what_only_an_old_snapshot_or_a_branch_names_stays(made: Made) -> None:
    first = made.files()
    made.iceberg().append(ROWS, branch="vde_plan")
    made.iceberg().overwrite(ROWS)
    made.iceberg().delete("c0 = 1")
    assert len(made.files()) > len(first) + 1
    kept = made.files()
    made.age()
    assert made.clean() == []
    made.stray()
    assert len(made.clean()) == 1
    assert made.files() == kept


def test_what_is_no_data_file_stays(made: Made) -> None:
    made.stray().rename(made.data / "notes.txt")
    assert made.clean() == []


def test_a_table_without_any_commit_is_searched(world: World) -> None:
    other = Made.new(world)
    process = world.process()
    empty = process.store.tables.ensure(table("empty"))
    process.engine.create_table(empty)
    process.store.tables.mark_created(empty, [])
    location = process.lakehouse.table_location(empty.ref, empty.id)
    made = Made(world, process, empty, Path(location.removeprefix("file://")) / "data")
    made.data.mkdir()
    shutil.copy(next(other.data.rglob("*.parquet")), made.data / "stray.parquet")
    made.age()
    assert [decision.subject for decision in made.clean()] == [str(empty.ref)]
    assert made.files() == set()


def test_so_many_at_once_and_no_more(made: Made) -> None:
    for number in range(5):
        made.stray(f"{number}.parquet")
    done, waiting = made.clean(orphan_cap=3)
    assert (done.outcome, waiting.outcome) == ("done", "kept")
    assert done.reason.startswith("3 data files")
    assert waiting.reason.startswith("2 data files")
    assert "already deletes as many files as it may" in waiting.reason
    assert len(made.clean(orphan_cap=3)) == 1


def test_unsure_means_no_deletion(made: Made) -> None:
    stray = made.stray()
    metadata = made.iceberg().metadata
    manifests = Path(str(metadata.snapshots[0].manifest_list).removeprefix("file://"))
    content = manifests.read_bytes()
    # PyIceberg takes what ends inside a block for a list of fewer manifests.
    for damaged in (b"nonsense", content[:-20], b"", None):
        if damaged is None:
            manifests.unlink()
        else:
            manifests.write_bytes(damaged)
        (left,) = made.clean()
        assert (left.action, left.outcome) == ("keep_table", "failed")
        assert str(manifests) in str(left.error)
        assert "restore it" in str(left.error)
        assert len(made.files()) > 1
    manifests.write_bytes(content)
    assert len(made.clean()) == 1
    assert not stray.exists()


def test_places_that_are_spelled_otherwise_are_no_reason(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.stray()
    monkeypatch.setattr(
        sweep, "normalized_location", lambda location: location.replace("file://", "file:")
    )
    listed = MetadataFiles.list_files

    def elsewhere(self: MetadataFiles, folder: str) -> Iterator[StoredFile]:
        for file in listed(self, folder):
            yield replace(file, location=file.location.replace("file://", "hdfs://name"))

    monkeypatch.setattr(MetadataFiles, "list_files", elsewhere)
    assert made.clean() == []


def test_a_folder_that_cannot_be_listed_is_a_failure(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(MetadataFiles, "list_files", refuse)
    (decision,) = made.clean()
    assert (decision.outcome, decision.error) == ("failed", "not yours")


# Each safeguard, and what happens without it.


def late_commit(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of which nothing is known commits an old file while the janitor looks."""
    listed = MetadataFiles.list_files
    stray = made.stray("late.parquet")

    def meanwhile(self: MetadataFiles, folder: str) -> Iterator[StoredFile]:
        made.iceberg().add_files([f"file://{stray}"])
        return listed(self, folder)

    monkeypatch.setattr(MetadataFiles, "list_files", meanwhile)
    made.clean()
    made.iceberg().scan().to_arrow()


def run_commits_after_the_janitor(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has written its file, the janitor comes by, and the run commits."""
    stray = made.stray("running.parquet")
    made.age(hours=30)
    made.clean(**_POLICY)
    made.iceberg().add_files([f"file://{stray}"])
    made.iceberg().scan().to_arrow()


def long_run_commits_after_the_janitor(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that takes longer than anybody thought holds its lease, and then commits."""
    made.process.store.leases.acquire(f"table/{made.table.id}", "anna", 600)
    stray = made.stray("long.parquet")
    made.clean()
    made.iceberg().add_files([f"file://{stray}"])
    made.iceberg().scan().to_arrow()


def reader_of_a_forgotten_snapshot(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader has looked up a snapshot that the janitor forgets."""
    reader = made.iceberg().scan()
    made.iceberg().overwrite(ROWS)
    made.age()
    made.world.clock.advance(days=30)  # type: ignore[attr-defined]
    process = made.world.process()
    run = Cleaning(process.lakehouse, RETENTION, timedelta(days=7), False)
    expire_snapshots(run)
    assert [decision.outcome for decision in run.decisions] == ["done"]
    made.clean()
    reader.to_arrow()


_POLICY: dict[str, object] = {}


def metadata_before_the_list(patch: pytest.MonkeyPatch) -> None:
    find = sweep.find_orphans

    def early(lakehouse, table, before):  # type: ignore[no-untyped-def]
        seen = lakehouse.find_table(table.ref)
        patch.setattr(lakehouse, "find_table", lambda *arguments: seen)
        return find(lakehouse, table, before)

    patch.setattr(sweep, "find_orphans", early)
    no_second_proof(patch)


def no_second_proof(patch: pytest.MonkeyPatch) -> None:
    """Take away what is asked of everything that is deleted, and would save the file as well."""

    def free(kept: Kept, candidates: Iterable[str], own: object = ()) -> dict[str, Ruling]:
        return {one: Ruling("free") for one in candidates}

    patch.setattr(Kept, "rule", free)


def no_grace(patch: pytest.MonkeyPatch) -> None:
    policy = {"grace": timedelta(0), "orphan_grace": timedelta(0)}
    patch.setitem(globals(), "_POLICY", policy)


def no_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseStore, "tables", lambda *arguments: set())


def no_ledger(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublicationStore, "files_to_delete", lambda self: [])


Scenario = Callable[[Made, pytest.MonkeyPatch], None]
SAFEGUARDS: dict[str, tuple[Scenario, Callable[[pytest.MonkeyPatch], None]]] = {
    "list first": (late_commit, metadata_before_the_list),
    "age": (run_commits_after_the_janitor, no_grace),
    "lease": (long_run_commits_after_the_janitor, no_lease),
    "ledger": (reader_of_a_forgotten_snapshot, no_ledger),
}


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_nobody_loses_a_file(name: str, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    SAFEGUARDS[name][0](made, monkeypatch)


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_without_the_safeguard_somebody_does(
    name: str, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, remove = SAFEGUARDS[name]
    remove(monkeypatch)
    with pytest.raises(FileNotFoundError):
        scenario(made, monkeypatch)
