"""INCREMENTAL_BY_CHANGES in plans: its versions are those of FULL, and wrong headers are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.failures import Problem
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


def _snapshot(
    root: Path, kind: str, query: str = QUERY, warnings: list[Problem] | None = None
) -> Snapshot:
    model = f"MODEL (name m.it, kind {kind}); {query}"
    folder = ProjectFolder(root, {"models/it.sql": model, "external_models.yaml": EXTERNAL})
    found = [] if warnings is None else warnings
    built = build_snapshots(load_project(folder.root).models, lambda name: None, warnings=found)
    return built[ModelName("m", "it")]


def test_its_rows_are_those_of_a_full_model_so_the_one_becomes_the_other(tmp_path: Path) -> None:
    full = _snapshot(tmp_path / "full", "FULL")
    found = _snapshot(tmp_path / "by", "INCREMENTAL_BY_CHANGES (key customer_id)")
    for refresh in ("whole", "changes", "auto"):
        other = _snapshot(tmp_path / refresh, f"FULL (refresh {refresh})")
        assert (other.fill_version, other.version) == (full.fill_version, full.version)
    assert found.fill_version == full.fill_version
    assert found.version == full.version
    assert found.id != full.id


@pytest.mark.parametrize(
    ("kind", "query", "message"),
    [
        ("INCREMENTAL_BY_CHANGES", QUERY, r"it\.sql:1.* requires 'key'"),
        ("INCREMENTAL_BY_CHANGES (key nobody)", QUERY, "nobody"),
        (
            "INCREMENTAL_BY_CHANGES (key total)",
            QUERY,
            r"no parent's rows contain the key.*not determine the key \(total\).*choose a key",
        ),
        (
            "INCREMENTAL_BY_CHANGES (key id)",
            "SELECT id FROM raw.orders ORDER BY amount LIMIT 3",
            r"it\.sql:1:\d+: .*no parent's rows contain the key id.*: LIMIT 3",
        ),
    ],
)
def test_a_wrong_header_is_told_with_its_place(
    tmp_path: Path, kind: str, query: str, message: str
) -> None:
    with pytest.raises(ProjectError, match=message) as found:
        _snapshot(tmp_path, kind, query)
    assert "it.sql" in str(found.value)


@pytest.mark.parametrize(
    ("refresh", "query", "found"),
    [
        (
            "changes",
            "SELECT id FROM raw.orders\nORDER BY amount LIMIT 3",
            "models/it.sql:2:23: m.it: `refresh changes` has no effect, because all rows are "
            "computed: the query takes the first rows: LIMIT 3. Hint: remove the clause, or select "
            "the first rows of each group with row_number(), or remove the property",
        ),
        (
            "changes",
            "SELECT id, current_date() AS today FROM raw.orders",
            "models/it.sql:1:30: m.it: `refresh changes` has no effect, because all rows are "
            "computed: the query reads current_date(). Hint: take the time from a column of a "
            "parent, or remove the property",
        ),
        (
            "changes",
            "SET spark.sql.shuffle.partitions = 3;\nSELECT id FROM raw.orders",
            "models/it.sql:1:30: m.it: `refresh changes` has no effect, because all rows are "
            "computed: the model has its own statements. Hint: remove the property",
        ),
        ("changes", QUERY, ""),
        ("whole", "SELECT id FROM raw.orders LIMIT 3", ""),
    ],
)
def test_changes_that_cannot_be_followed_are_a_warning_at_the_clause(
    tmp_path: Path, refresh: str, query: str, found: str
) -> None:
    warnings: list[Problem] = []
    _snapshot(tmp_path, f"FULL (refresh {refresh})", query, warnings)
    assert [str(one) for one in warnings] == ([found] if found else [])
