"""Files that are lost or damaged: what fsck, the janitor, rollback, queries and `vde serve` say.

The project's tables are written by PyIceberg, with real data files and manifests. Each case
damages one file, asks everybody, and puts the file back. The search damages random files of random
projects; its seeds are in the test's names.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import DamagedFileError, ExecutionError, StoreError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.maintenance import fsck as fsck_module
from vde_dagster.lakehouse.maintenance.fsck import Finding, fsck
from vde_dagster.lakehouse.maintenance.fsck_files import check_files
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.programs.serve.app import make_app
from vde_dagster_tests.execution.damage_search import asked, attack, place
from vde_dagster_tests.execution.fake_workspace import open_fake, publish_shop
from vde_dagster_tests.projects import Prepared, ProjectFolder
from vde_dagster_tests.serve.shops import opened, publish_twice, run

Change = Callable[[bytes, bytes], "bytes | None"]
HOW: dict[str, Change] = {
    "deleted": lambda own, other: None,
    "empty": lambda own, other: b"",
    "cut": lambda own, other: own[: len(own) * 4 // 5],
    "cut at its end": lambda own, other: own[:-1],
    "garbage": lambda own, other: bytes(reversed(own)),
    "another's": lambda own, other: other,
}
ALL = ("fsck", "janitor", "rollback", "read", "serve")


@dataclass(frozen=True)
class Kind:
    """A damage: which file, how, what fsck calls it, and who else has to name the file."""

    file: str
    how: str
    problem: str
    named_by: tuple[str, ...]
    deep: bool = False

    @property
    def id(self) -> str:
        return f"{self.file} {self.how}"


def _kinds(file: str, part: str, named_by: tuple[str, ...], *how: str) -> list[Kind]:
    return [
        Kind(file, one, f"{'missing' if one == 'deleted' else 'damaged'}_{part}", named_by)
        for one in how or HOW
    ]


KINDS = [
    *_kinds("table metadata", "metadata_file", ALL),
    *_kinds("view metadata", "metadata_file", ("fsck", "rollback"), *list(HOW)[:-1]),
    # Whose publication makes the next one of it, and so mends it.
    *_kinds("view metadata", "metadata_file", ("fsck",), "another's"),
    *_kinds("manifest list", "manifest_list", ("fsck", "janitor", "read", "serve")),
    *_kinds("manifest", "manifest", ("fsck", "janitor", "rollback", "read", "serve")),
    *_kinds("older manifest list", "manifest_list", ("fsck", "janitor", "rollback")),
    *_kinds(
        "data file",
        "data_file",
        ("fsck", "rollback", "read", "serve"),
        "deleted",
        "empty",
        "cut",
        "another's",
    ),
    Kind("data file", "garbage", "damaged_data_file", ("fsck", "read", "serve"), deep=True),
]


@dataclass(frozen=True)
class Shop:
    """A project with three versions, and where its files are."""

    folder: ProjectFolder
    files: dict[str, tuple[Path, Path]]

    @classmethod
    def new(cls, root: Path) -> Shop:
        """Publish, and note each kind of file with another one of the kind."""
        folder = publish_twice(root)
        with opened(folder) as workspace:
            daily, orders = (table_of(workspace, name) for name in ("daily", "orders"))
            pointers = workspace.lakehouse.catalog.all_pointers()
            views = {ref.name: at for ref, at in pointers.items() if at.kind == "VIEW"}
            table, other = (workspace.lakehouse.load_table(one) for one in (daily, orders))
            now, before = table.current_snapshot(), other.current_snapshot()
            assert now is not None
            assert before is not None
            pins = sorted(workspace.store.pins.kept(daily))
            old = next(
                one
                for one in table.metadata.snapshots
                if one.snapshot_id in pins and one.snapshot_id != now.snapshot_id
            )
            manifest, others = now.manifests(table.io)[-1], before.manifests(other.io)[0]
            data = manifest.fetch_manifest_entry(table.io)[0].data_file
            others_data = others.fetch_manifest_entry(other.io)[0].data_file
            return cls(
                folder,
                {
                    "table metadata": (
                        place(table.metadata_location),
                        place(other.metadata_location),
                    ),
                    "view metadata": (
                        place(views["daily"].location),
                        place(views["orders"].location),
                    ),
                    "manifest list": (place(now.manifest_list), place(before.manifest_list)),
                    "manifest": (place(manifest.manifest_path), place(others.manifest_path)),
                    "older manifest list": (place(old.manifest_list), place(before.manifest_list)),
                    "data file": (place(data.file_path), place(others_data.file_path)),
                },
            )

    @property
    def stray(self) -> Path:
        data = next(one for one in self.files["data file"][0].parents if one.name == "data")
        return data / "stray.parquet"

    def leave_stray(self) -> None:
        """Leave what a killed run left, so that the janitor asks what the table names."""
        shutil.copy(self.files["data file"][1], self.stray)
        os.utime(self.stray, (0, 0))


def table_of(workspace: Workspace, name: str) -> TableRef:
    environment = workspace.store.environments.get("prod")
    assert environment is not None
    (found,) = (
        entry.table_id
        for model, entry in environment.entries.items()
        if model.name == name and entry.table_id
    )
    return workspace.store.tables.load([found])[found].ref


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop.new(tmp_path_factory.mktemp("damage") / "shop")


def told_by(who: str, workspace: Workspace, kind: Kind) -> str:
    """Return what somebody says of the damaged warehouse."""
    try:
        if who == "janitor":
            report = workspace.maintenance.janitor()
            assert all(one.action != "drop_table" for one in report.acted)
            return "\n".join(str(one.error) for one in report.failures)
        if who == "rollback":
            # A view's next metadata are made of those before, which a dry run does not.
            really = kind.file == "view metadata" and "rollback" in kind.named_by
            workspace.environments.rollback("prod", 1, dry_run=not really)
        elif who == "read":
            workspace.queries.read("prod", "marts.daily")
        elif who == "serve":
            app = make_app(workspace, may_be_open=True, log=io.StringIO())
            status, body = asked(app, "/data/prod/marts.daily")
            assert status in (200, 500)
            return body
    except VdeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
def test_a_damaged_file_is_named_with_what_to_do_and_nothing_is_lost(
    shop: Shop, kind: Kind
) -> None:
    file, other = shop.files[kind.file]
    whole = file.read_bytes()
    content = HOW[kind.how](whole, other.read_bytes())
    shop.leave_stray()
    kept = {
        path
        for path in shop.folder.root.rglob("*.*")
        if path.is_file() and "warehouse" in path.parts
    }
    try:
        if content is None:
            file.unlink()
            kept.discard(file)
        else:
            file.write_bytes(content)
        with opened(shop.folder) as workspace:
            (found,) = [one for one in workspace.maintenance.fsck(deep=kind.deep) if one.is_damage]
            assert (found.problem, found.file) == (kind.problem, f"file://{file}")
            assert str(file) in found.detail
            assert found.advice.startswith("restore the file from a backup")
            for who in ALL[1:]:
                told = told_by(who, workspace, kind)
                if who in kind.named_by:
                    assert str(file) in told, (who, told)
                    assert "restore it from a backup" in told
                else:
                    assert str(file) not in told, (who, told)
            if "janitor" in kind.named_by:
                assert shop.stray.exists(), "unsure means no deletion"
            assert {path for path in kept if not path.exists()} <= {shop.stray}
    finally:
        file.write_bytes(whole)


def test_every_damage_is_found_beside_others_and_the_whole_warehouse_has_none(shop: Shop) -> None:
    files = {name: own for name, (own, _) in shop.files.items() if name != "table metadata"}
    files.pop("manifest list")  # below which nothing can be seen
    files["orders"] = shop.files["manifest list"][1]
    files["data file"] = shop.files["data file"][1]
    wholes = {path: path.read_bytes() for path in files.values()}
    with opened(shop.folder) as workspace:
        assert [one for one in workspace.maintenance.fsck(deep=True) if one.is_damage] == []
        try:
            for path in wholes:
                path.write_bytes(b"")
            found = {one.file for one in workspace.maintenance.fsck() if one.is_damage}
        finally:
            for path, content in wholes.items():
                path.write_bytes(content)
    lost = {f"file://{path}" for name, path in files.items() if name != "data file"}
    assert lost <= found  # the data file's list is among what is empty


def test_expiry_forgets_nothing_of_a_table_whose_newest_commit_cannot_be_read(
    tmp_path: Path,
) -> None:
    shop = Shop.new(tmp_path / "shop")
    shop.folder.write(
        "pyproject.toml", "[tool.vde]\nsnapshot_retention_days = 0\nhistory_versions = 1\n"
    )
    file, _ = shop.files["manifest list"]
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 4 // 5])
    with opened(shop.folder) as workspace:
        daily = table_of(workspace, "daily")
        before = len(workspace.lakehouse.table_metadata(daily)["snapshots"])
        failed = [
            one for one in workspace.maintenance.janitor().failures if str(file) in str(one.error)
        ]
        assert len(failed) == 1, "once for each file"
        assert len(workspace.lakehouse.table_metadata(daily)["snapshots"]) == before
        file.write_bytes(whole)
        assert workspace.maintenance.janitor().failures == ()
        assert len(workspace.lakehouse.table_metadata(daily)["snapshots"]) < before
        assert [one for one in workspace.maintenance.fsck(deep=True) if one.is_damage] == []


@pytest.mark.parametrize("how", ["cut", "garbage", "deleted"])
def test_the_janitor_goes_on_behind_metadata_that_it_cannot_read(shop: Shop, how: str) -> None:
    file, other = shop.files["table metadata"]
    whole = file.read_bytes()
    data = next(
        one for one in shop.files["data file"][1].parents if one.name == "data"
    )  # of the other table
    stray = data / "stray.parquet"
    shutil.copy(shop.files["data file"][1], stray)
    os.utime(stray, (0, 0))
    content = HOW[how](whole, other.read_bytes())
    try:
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        with opened(shop.folder) as workspace:
            report = workspace.maintenance.janitor()
    finally:
        file.write_bytes(whole)
    assert any(str(file) in str(one.error) for one in report.failures)
    assert not stray.exists()


@pytest.fixture
def state(shop: Shop) -> Iterator[Path]:
    file = shop.folder.root / ".vde" / "vde.db"
    whole = file.read_bytes()
    yield file
    for beside in file.parent.glob("vde.db-*"):
        beside.unlink()
    file.write_bytes(whole)


def test_a_damaged_state_database_is_a_finding(
    shop: Shop, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with sqlite3.connect(state) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        root = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'vde_plans'"
        ).fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    with state.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    with opened(shop.folder) as workspace:
        (found,) = [one for one in workspace.maintenance.fsck() if one.is_damage]
    assert (found.problem, found.file) == ("damaged_state", str(state))
    assert "restore it from a backup" in found.advice
    assert "the check ended early, so there may be more to find: the state database" in caplog.text


def test_what_is_no_state_database_is_said(shop: Shop, state: Path) -> None:
    for beside in state.parent.glob("vde.db-*"):
        beside.unlink()
    state.write_bytes(b"no database at all" * 500)
    with (
        pytest.raises(StoreError, match=r"vde\.db is damaged.*restore it"),
        opened(shop.folder) as workspace,
    ):
        workspace.maintenance.fsck()


def test_a_publication_beside_fsck_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = publish_twice(tmp_path / "shop")
    published = 0

    def late(files: Any, wanted: Any, **options: Any) -> Any:
        """Publish, and take away what the pointers that were read lead to, before files are."""
        nonlocal published
        if not published:
            run(folder, 5)
            published += 1
            now = {at.location for at in lakehouse.catalog.all_pointers().values()}
            for one in wanted:
                if one.pointer.location not in now:
                    place(one.pointer.location).unlink()
                    published += 1
        return check_files(files, wanted, **options)

    with opened(folder) as workspace:
        lakehouse: Lakehouse = workspace.lakehouse
        monkeypatch.setattr(fsck_module, "check_files", late)
        assert [one for one in fsck(lakehouse) if one.is_damage] == []
    assert published > 1


def test_a_finding_is_plain_json() -> None:
    finding = Finding("missing_manifest", "db.t", "a manifest", "restore it", "file:///m.avro")
    assert json.loads(json.dumps(finding.to_json()))["file"] == "file:///m.avro"
    assert DamagedFileError("the file", "file:///m", "is empty").exit_code == 1


@pytest.mark.parametrize("seed", range(3))
def test_random_damage_is_found_and_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    assert attack(tmp_path, seed, 3)


def test_a_database_that_is_cut_within_a_page_is_damaged(shop: Shop, state: Path) -> None:
    for beside in state.parent.glob("vde.db-*"):
        beside.unlink()
    os.truncate(state, os.path.getsize(state) - 1)
    with pytest.raises(StoreError, match="is damaged: it ends within a page, at"):
        opened(shop.folder)


def test_an_empty_state_beside_the_tables_of_a_full_one_is_said(shop: Shop, state: Path) -> None:
    for beside in state.parent.glob("vde.db*"):
        beside.write_bytes(b"")
    with opened(shop.folder) as workspace:
        (found,) = workspace.maintenance.fsck()
    assert (found.problem, found.is_damage) == ("new_state", False)


def test_a_folder_in_place_of_a_file_is_named(shop: Shop) -> None:
    file, _ = shop.files["manifest"]
    whole = file.read_bytes()
    file.unlink()
    file.mkdir()
    try:
        with opened(shop.folder) as workspace:
            (found,) = [one for one in workspace.maintenance.fsck() if one.is_damage]
    finally:
        file.rmdir()
        file.write_bytes(whole)
    assert found.file == f"file://{file}"
    assert "cannot be read (Is a directory)" in found.detail


def _rename(name: str, other: str) -> Callable[[Any], None]:
    def change(part: Any) -> None:
        part[other] = part.pop(name)

    return change


FLIPS: dict[str, tuple[str, Callable[[Any], None], str]] = {
    "the id of a snapshot": (
        "table metadata",
        lambda read: _rename("snapshot-id", "snapshot-ie")(read["snapshots"][0]),
        "is not Iceberg metadata",
    ),
    "the key of the current snapshot": (
        "table metadata",
        lambda read: _rename("current-snapshot-id", "current-snapshot-ie")(read),
        "its main branch is not at its current snapshot",
    ),
    "the key of the snapshots": (
        "table metadata",
        lambda read: _rename("snapshots", "snapshott")(read),
        "is not listed",
    ),
    "the name of the main branch": (
        "table metadata",
        lambda read: _rename("main", "maim")(read["refs"]),
        "its main branch is not at its current snapshot",
    ),
    "the name of a column": (
        "view metadata",
        lambda read: _rename("name", "namf")(read["schemas"][0]["fields"][0]),
        "is not Iceberg metadata",
    ),
    "the current version": (
        "view metadata",
        lambda read: read.update({"current-version-id": 5}),
        "is not Iceberg metadata",
    ),
    "the current schema": (
        "table metadata",
        lambda read: read.update({"current-schema-id": 5}),
        "is not Iceberg metadata",
    ),
    **{
        f"a type in {file}": (
            file,
            lambda read: read["schemas"][0]["fields"][0].update({"type": "inu"}),
            "Iceberg has no type 'inu'",
        )
        for file in ("table metadata", "view metadata")
    },
    "a nested type": (
        "table metadata",
        lambda read: read["schemas"][0]["fields"][0].update(
            {"type": {"type": "list", "element": "lonf", "element-id": 9}}
        ),
        "Iceberg has no type 'lonf'",
    ),
}


@pytest.mark.parametrize("what", FLIPS)
def test_flipped_bits_in_metadata_are_damage(shop: Shop, what: str) -> None:
    of, change, said = FLIPS[what]
    file, _ = shop.files[of]
    whole = file.read_bytes()
    change(parsed := json.loads(whole))
    file.write_text(json.dumps(parsed))
    try:
        with opened(shop.folder) as workspace:
            (found,) = [one for one in workspace.maintenance.fsck() if one.is_damage]
            if of == "table metadata":
                with pytest.raises(DamagedFileError, match=re.escape(said)):
                    workspace.environments.rollback("prod", 1, dry_run=True)
    finally:
        file.write_bytes(whole)
    assert found.file == f"file://{file}"
    assert said in found.detail


def test_who_reads_names_a_data_file_whose_rows_are_damaged_behind_a_whole_footer(
    shop: Shop,
) -> None:
    file, _ = shop.files["data file"]
    whole = file.read_bytes()
    file.write_bytes(whole[:4] + b"\xff" * 12 + whole[16:])
    try:
        with opened(shop.folder) as workspace:
            assert [one for one in workspace.maintenance.fsck(deep=True) if one.is_damage] == []
            with pytest.raises(DamagedFileError, match=re.escape(str(file))):
                workspace.queries.read("prod", "marts.daily")
            status, told = asked(
                make_app(workspace, may_be_open=True, log=io.StringIO()), "/data/prod/marts.daily"
            )
    finally:
        file.write_bytes(whole)
    assert status == 500
    assert str(file) in told


def test_metadata_of_a_table_in_place_of_a_views_is_damage(shop: Shop) -> None:
    file, _ = shop.files["view metadata"]
    whole = file.read_bytes()
    file.write_bytes(shop.files["table metadata"][0].read_bytes())
    try:
        with opened(shop.folder) as workspace:
            (found,) = [one for one in workspace.maintenance.fsck() if one.is_damage]
            with pytest.raises(DamagedFileError, match="belongs to a table"):
                workspace.environments.rollback("prod", 1)
    finally:
        file.write_bytes(whole)
    assert found.file == f"file://{file}"


def test_there_are_at_least_26_kinds_of_damage() -> None:
    assert len({kind.id for kind in KINDS}) >= 26


def test_plans_name_models_whose_table_the_catalog_lost_and_no_other_environment_shows_it(
    prepared: Prepared,
) -> None:
    folder = prepared(publish_shop)
    with sqlite3.connect(folder.root / ".vde" / "vde.db") as db:
        gone = "table_namespace LIKE 'vde\\_\\_%' ESCAPE '\\' AND table_name LIKE 'daily%'"
        db.execute(f"DELETE FROM iceberg_tables WHERE {gone}")
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("prod")
        assert plan.is_empty
        assert plan.notices == (
            "the catalog 'lakehouse' lacks the tables of marts.daily, although they count as "
            "filled. Queries of them fail; `vde fsck` names each table and its repair",
        )
        with pytest.raises(ExecutionError, match=r"'dev' cannot show vde__marts\.daily__"):
            workspace.apply(workspace.plan("dev"))
        assert workspace.store.environments.get("dev") is None
    folder.edit("models/marts/daily.sql", "count(*) AS orders", "count(*) + 0.5 AS orders")
    with open_fake(folder.root) as workspace:
        repaired = workspace.plan("prod")
        assert not repaired.notices
        assert workspace.apply(repaired).published
