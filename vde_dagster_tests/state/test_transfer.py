"""Export and import: everything comes along, into either database."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from vde_dagster.base import plugins
from vde_dagster.base.names import ModelName
from vde_dagster.base.plugins import Plugin
from vde_dagster.errors import StoreError, UsageError
from vde_dagster.planning.engine_tasks import AuditResult, AuditTask
from vde_dagster.state.db.transfer import export_state, import_state
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import FakeClock, day, days, environment, plan, table


@pytest.fixture
def filled(tmp_path: Path, clock: FakeClock) -> StateStore:
    store = StateStore.open(f"sqlite:///{tmp_path / 'from' / 'vde.db'}", clock=clock)
    made = store.tables.ensure(table())
    store.plans.save(plan("p1", tables=[made]))
    store.fills.record(FillRecord(made.id, day(0), "p1", 5, 7))
    store.outdated.remember({made.id: (days(0), clock.now())})
    task = AuditTask("p1", ModelName("db", "orders"), "not_null(a)", "SELECT 1", True, day(0))
    store.audits.save(task, made.id, AuditResult(1, ({"a": "€"},), 0.5))
    value = environment(entries=[("db.orders", "db.orders@1", made.id)])
    store.database.run_transaction(lambda conn: store.environments.write_version(conn, value, 0))
    with store.database.transaction() as conn:
        conn.exec_driver_sql(
            "INSERT INTO iceberg_tables VALUES ('lakehouse', 'db', 'orders', 'x', NULL, 'VIEW')"
        )
    return store


def test_everything_comes_along(filled: StateStore, store: StateStore, tmp_path: Path) -> None:
    counts = export_state(filled.database, tmp_path / "state.gz")
    assert import_state(store.database, tmp_path / "state.gz") == counts
    assert store.environments.get("prod") == filled.environments.get("prod")
    assert store.plans.load("p1") == filled.plans.load("p1")
    assert store.audits.results(plan_id="p1") == filled.audits.results(plan_id="p1")
    ids = [entry.table_id for entry in filled.environments.get("prod").entries.values()]  # type: ignore[union-attr]
    assert store.tables.load(ids) == filled.tables.load(ids)  # type: ignore[arg-type]
    assert store.outdated.ranges_by_table(ids) == {ids[0]: days(0)}  # type: ignore[arg-type]
    task = AuditTask("p1", ModelName("db", "orders"), "goes_on", "SELECT 1", True, day(0))
    store.audits.save(task, None, AuditResult(0, (), 0.5))
    assert [found.audit for found in store.audits.results(plan_id="p1")] == [
        "not_null(a)",
        "goes_on",
    ]
    export_state(store.database, tmp_path / "again.gz")


def test_store_with_something_in_it_is_not_overwritten(filled: StateStore, tmp_path: Path) -> None:
    export_state(filled.database, tmp_path / "state.gz")
    with pytest.raises(UsageError, match="not empty"):
        import_state(filled.database, tmp_path / "state.gz")


def test_other_schema_is_refused(filled: StateStore, store: StateStore, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "state.gz", "wt") as file:
        file.write(json.dumps({"format": "vde-state-1", "schema": "9999"}) + "\n")
    with pytest.raises(StoreError, match="schema 9999"):
        import_state(store.database, tmp_path / "state.gz")


@pytest.mark.parametrize(
    "content",
    [
        b"hello",
        gzip.compress(b"hello\n"),
        gzip.compress(b"[1]\n"),
        gzip.compress(b'{"format": "vde-state-1"}\n'),
        gzip.compress(b"{}")[:12],
    ],
    ids=["text", "no JSON", "no object", "no schema", "cut off"],
)
def test_other_files_are_refused(store: StateStore, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UsageError, match="not an export"):
        import_state(store.database, tmp_path / "file")
    with pytest.raises(UsageError, match=r"the file .* does not exist"):
        import_state(store.database, tmp_path / "other")


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda data: data[: len(data) // 2],
    "other bytes": lambda data: data[:-8] + bytes(8),
    "no JSON": lambda data: _with_line(data, "{hello"),
    "no row": lambda data: _with_line(data, "7"),
    "an object": lambda data: _with_line(data, '{"a": 1}'),
    "twice": lambda data: _with_line(data, gzip.decompress(data).decode().splitlines()[1]),
    "a column that is missing": lambda data: _with_line(data, '["vde_news", {"seq": 99}]'),
    "another column": lambda data: _with_line(data, '["vde_news", {"hello": 1}]'),
    "another value": lambda data: _with_line(data, '["vde_news", {"seq": 99, "at": "x"}]'),
}


def _with_line(data: bytes, line: str) -> bytes:
    return gzip.compress(gzip.decompress(data) + line.encode() + b"\n")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_export_is_one_message_and_imports_nothing(
    damage: str, filled: StateStore, store: StateStore, tmp_path: Path
) -> None:
    path = tmp_path / "state.gz"
    export_state(filled.database, path)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(UsageError, match=r"state\.gz is damaged: .*; nothing was imported"):
        import_state(store.database, path)
    assert store.project.is_new()


def test_an_export_without_the_tables_of_a_broken_plug_in_is_refused(
    filled: StateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint("pager", "vde_pager_that_is_gone:metadata", "vde_dagster.state_tables")
    broken = Plugin("state_tables", "pager", "vde-pager", "1.0", entry)
    monkeypatch.setattr(plugins, "find_installed_plugins", lambda: (broken,))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=r"plug-in 'pager' .* cannot be imported"):
        export_state(filled.database, tmp_path / "state.gz")
    assert sorted(tmp_path.iterdir()) == before


def test_an_export_that_cannot_be_written_leaves_no_file(
    filled: StateStore, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=r"cannot write .*folder: Is a directory"):
        export_state(filled.database, tmp_path / "folder")
    assert sorted(tmp_path.iterdir()) == before
