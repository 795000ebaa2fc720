"""INCREMENTAL_BY_CHANGES in plans: its versions are those of FULL, and wrong headers are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.projects import ProjectFolder

EXTERNAL = """
    - name: raw.orders
      columns: {id: INT, customer_id: INT, amount: INT}
"""
QUERY = "SELECT customer_id, sum(amount) AS total FROM raw.orders GROUP BY customer_id"


def _snapshot(root: Path, kind: str, query: str = QUERY) -> Snapshot:
    model = f"MODEL (name m.it, kind {kind}); {query}"
    folder = ProjectFolder(root, {"models/it.sql": model, "external_models.yaml": EXTERNAL})
    built = build_snapshots(load_project(folder.root).models, lambda name: None, warnings=[])
    return built[ModelName("m", "it")]


def test_its_rows_are_those_of_a_full_model_so_the_one_becomes_the_other(tmp_path: Path) -> None:
    full = _snapshot(tmp_path / "full", "FULL")
    found = _snapshot(tmp_path / "by", "INCREMENTAL_BY_CHANGES (key customer_id)")
    assert found.fill_version == full.fill_version
    assert found.version == full.version
    assert found.id != full.id


@pytest.mark.parametrize(
    ("kind", "query", "message"),
    [
        ("INCREMENTAL_BY_CHANGES", QUERY, r"it\.sql:1.* requires 'key'"),
        ("INCREMENTAL_BY_CHANGES (key nobody)", QUERY, "nobody"),
        ("INCREMENTAL_BY_CHANGES (key total)", QUERY, "no parent's rows contain the key"),
        (
            "INCREMENTAL_BY_CHANGES (key id)",
            "SELECT id FROM raw.orders ORDER BY amount LIMIT 3",
            "no parent's rows contain the key id",
        ),
    ],
)
def test_a_wrong_header_is_told_with_its_place(
    tmp_path: Path, kind: str, query: str, message: str
) -> None:
    with pytest.raises(ProjectError, match=message) as found:
        _snapshot(tmp_path, kind, query)
    assert "it.sql" in str(found.value)
