"""Snapshots remembered on disk are those that were computed, and damage is no error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.memo import SnapshotMemo
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.serialise import from_bytes, to_bytes
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/orders.sql": """
        MODEL (name db.orders, kind FULL, audits (unique_values(columns := (id))));
        SELECT 1 AS id, 'x' AS `odd "name"`, CAST(NULL AS DECIMAL(10, 2)) AS amount
    """,
    "models/report.sql": """
        MODEL (name db.report, kind VIEW, column_descriptions (id = 'which order'));
        SELECT o.id, sum(o.amount) AS total FROM db.orders AS o WHERE o.id > 0 GROUP BY o.id
    """,
    "models/daily.sql": """
        MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day), start '2024-01-01');
        SELECT id, rand() AS luck, DATE '2024-01-01' AS day FROM db.report
    """,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return ProjectFolder(tmp_path / "project", FILES).root


def built(root: Path, path: Path) -> dict[ModelName, Snapshot]:
    """Build the project's snapshots as a new process would, with what `path` remembers."""
    memo = SnapshotMemo(path)
    found = build_snapshots(load_project(root).models, lambda name: None, memo=memo)
    memo.save()
    return found


def test_what_is_remembered_is_what_was_computed(root: Path, tmp_path: Path) -> None:
    first = built(root, tmp_path / "memo")
    written = (tmp_path / "memo").stat().st_mtime_ns
    second = built(root, tmp_path / "memo")
    assert second == first
    assert [s.version.unique_keys for s in second.values()] == [
        s.version.unique_keys for s in first.values()
    ]
    assert any(s.version.unique_keys for s in second.values())
    assert (tmp_path / "memo").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: b"",
        lambda entry: b"\x90",
        lambda entry: b"{",
        lambda entry: entry[: len(entry) // 2],
        lambda entry: entry + b"\x00",
        lambda entry: to_bytes(("seen", [], 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
        lambda entry: b"\xff" * len(entry),
    ],
    ids=["empty", "no values", "text", "cut", "too long", "values of other types", "noise"],
)
def test_damaged_entry_is_computed_again(
    damage: Callable[[bytes], bytes], root: Path, tmp_path: Path
) -> None:
    first = built(root, tmp_path / "memo")
    whole = (tmp_path / "memo").read_bytes()
    head, _, body = whole.partition(b"\n")
    entries = from_bytes(dict[str, bytes], body)
    assert len(entries) == len(FILES)
    damaged = to_bytes({key: damage(entry) for key, entry in entries.items()})
    (tmp_path / "memo").write_bytes(head + b"\n" + damaged)
    assert built(root, tmp_path / "memo") == first
    assert (tmp_path / "memo").read_bytes() == whole


def test_a_file_that_was_cut_is_an_empty_one(root: Path, tmp_path: Path) -> None:
    first = built(root, tmp_path / "memo")
    whole = (tmp_path / "memo").read_bytes()
    (tmp_path / "memo").write_bytes(whole[:-20])
    assert built(root, tmp_path / "memo") == first
    assert (tmp_path / "memo").read_bytes() == whole


def test_file_of_another_format_is_an_empty_one(root: Path, tmp_path: Path) -> None:
    first = built(root, tmp_path / "memo")
    (tmp_path / "memo").write_bytes(b"\x80 anything")
    assert built(root, tmp_path / "memo") == first
