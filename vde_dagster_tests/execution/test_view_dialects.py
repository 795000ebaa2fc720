"""Views have a representation in every dialect that has a writer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from vde_dagster.planning.rendering import view_dialects
from vde_dagster.planning.rendering.view_dialects import ViewWriter
from vde_dagster.planning.tables.pinned_reads import PinnedTable
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.lakehouse.oracle import load
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/t.sql": "MODEL (name db.t, kind FULL); SELECT 1 AS a",
    "models/v.sql": "MODEL (name db.v, kind VIEW); SELECT a FROM db.t",
}


def select(
    table: TableRef,
    columns: Iterable[tuple[str, str]],
    catalog: str,
    pinned: PinnedTable | None,
) -> str:
    assert pinned is None, "nothing is held here"
    return f"read {catalog}/{table.namespace} as {','.join(out for out, _ in columns)}"


def query(sql: str, columns: Iterable[tuple[str, str]], catalog: str, own: str) -> str | None:
    return None


def test_a_dialect_is_added_by_its_writer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(view_dialects.WRITERS, "test", ViewWriter(select, query))
    with open_fake(ProjectFolder(tmp_path, FILES).root) as workspace:
        assert workspace.apply(workspace.plan("prod")).published
        found = {}
        for ref, pointer in workspace.lakehouse.catalog.all_pointers().items():
            if pointer.kind == "VIEW":
                (version,) = load(pointer.location)["versions"]
                found[ref.name] = {r["dialect"]: r["sql"] for r in version["representations"]}
    assert list(found["t"]) == ["spark", "trino", "test"]
    assert found["t"]["test"].startswith("read lakehouse/vde__")
    assert list(found["v"]) == ["spark", "trino"], "the dialect has no words for a query"
