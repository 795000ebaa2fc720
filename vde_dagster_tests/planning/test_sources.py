"""Which columns of which tables a fill reads: itself and through views."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.resolver import Resolver, TableRead, tables_read
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

T = "MODEL (name db.t, kind FULL); SELECT 1 AS x, 2 AS y, array(3) AS z, 4 AS w"
VIEW = "MODEL (name db.v, kind VIEW); SELECT x, y + w AS s FROM db.t"


def columns_read(root: Path, query: str, view: str = VIEW) -> tuple[str, ...] | None:
    """What a model with a query reads of `db.t`."""
    (read,) = reads(root, query, view)
    return read.columns


def reads(root: Path, query: str, view: str) -> tuple[TableRead, ...]:
    """The tables that a model with a query reads."""
    files = {
        "models/t.sql": T,
        "models/v.sql": view,
        "models/over.sql": "MODEL (name db.over, kind VIEW); SELECT x AS a, s AS b FROM db.v",
        "models/m.sql": f"MODEL (name db.m, kind FULL); {query}",
    }
    folder = ProjectFolder(root, files)
    warehouse = Warehouse()
    plan = warehouse.plan(folder.root)
    tables = {model.table.id: model.table for model in plan.models if model.table}
    resolver = Resolver("prod", plan.entries, plan.snapshots, tables)
    snapshot = plan.snapshots[plan.entries[ModelName("db", "m")].snapshot_id]
    return tables_read(snapshot, resolver, "lakehouse")


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT x FROM db.t", ("x",)),
        ("SELECT x FROM db.t WHERE y > 1", ("x", "y")),
        ("SELECT count(*) AS n FROM db.t", ()),
        ("SELECT x FROM (SELECT x, y FROM db.t EXCEPT SELECT x, w FROM db.t)", ("w", "x", "y")),
        ("SELECT x FROM (SELECT x, y FROM db.t INTERSECT SELECT x, y FROM db.t)", ("x", "y")),
        ("SELECT count(*) AS n FROM (SELECT y FROM db.t EXCEPT SELECT 1)", ("y",)),
        ("SELECT x FROM (SELECT x, explode(z) AS e FROM db.t)", ("x", "z")),
        ("SELECT t.x FROM db.t LATERAL VIEW explode(z) AS e", ("x", "z")),
        ("SELECT 1 AS one FROM db.t WHERE EXISTS (SELECT 2 EXCEPT SELECT t.w)", ("w",)),
        ("SELECT x FROM db.t TABLESAMPLE (5 ROWS)", None),
    ],
)
def test_columns_that_may_decide_rows_are_read(
    tmp_path: Path, query: str, columns: tuple[str, ...] | None
) -> None:
    assert columns_read(tmp_path / "project", query) == columns


@pytest.mark.parametrize(
    ("view", "query", "columns"),
    [
        ("SELECT x, y + w AS s FROM db.t", "SELECT x FROM db.v", ("x",)),
        ("SELECT x, y + w AS s FROM db.t", "SELECT s FROM db.v", ("w", "y")),
        ("SELECT x, y + w AS s FROM db.t", "SELECT count(*) AS n FROM db.v", ()),
        ("SELECT x, y + w AS s FROM db.t", "SELECT a FROM db.over", ("x",)),
        ("SELECT x, y + w AS s FROM db.t", "SELECT b FROM db.over", ("w", "y")),
        ("SELECT x, y + w AS s FROM db.t", "SELECT X FROM db.V", ("x",)),
        ("SELECT x, y + w AS s FROM db.t", "SELECT a FROM db.over UNION SELECT s FROM db.v", "wxy"),
        ("SELECT x, y AS s FROM db.t WHERE w > 1", "SELECT x FROM db.v", ("w", "x")),
        ("SELECT DISTINCT x, y AS s FROM db.t", "SELECT x FROM db.v", ("x", "y")),
        ("SELECT x, sum(y) AS s FROM db.t GROUP BY x", "SELECT s FROM db.v", ("x", "y")),
        ("SELECT x, sum(y) AS s FROM db.t GROUP BY x", "SELECT x FROM db.v", ("x",)),
        ("SELECT x, y AS s FROM db.t UNION ALL SELECT w, 1 FROM db.t", "SELECT s FROM db.v", "y"),
        ("SELECT x, y AS s FROM db.t EXCEPT SELECT 1, 2", "SELECT x FROM db.v", ("x", "y")),
        ("SELECT x, explode(z) AS s FROM db.t", "SELECT x FROM db.v", ("x", "z")),
        ("SELECT x, y AS s FROM db.t TABLESAMPLE (5 ROWS)", "SELECT x FROM db.v", None),
        (
            "SELECT x, (SELECT max(w) FROM db.t AS o WHERE o.y = t.y) AS s FROM db.t",
            "SELECT x FROM db.v",
            ("x",),
        ),
        (
            "SELECT x, (SELECT max(w) FROM db.t AS o WHERE o.y = t.y) AS s FROM db.t",
            "SELECT s FROM db.v",
            ("w", "y"),
        ),
        (
            "SELECT x, row_number() OVER (PARTITION BY y ORDER BY w) AS s FROM db.t",
            "SELECT s FROM db.v",
            ("w", "y"),
        ),
    ],
)
def test_columns_are_followed_through_views(
    tmp_path: Path, view: str, query: str, columns: tuple[str, ...] | str | None
) -> None:
    header = "MODEL (name db.v, kind VIEW); "
    expected = tuple(columns) if isinstance(columns, str) else columns
    assert columns_read(tmp_path / "project", query, header + view) == expected


def test_reads_that_an_earlier_version_found_are_not_believed(tmp_path: Path) -> None:
    folder = ProjectFolder(
        tmp_path / "project",
        {"models/t.sql": T, "models/m.sql": "MODEL (name db.m, kind FULL); SELECT x FROM db.t"},
    )
    plan = Warehouse().plan(folder.root)
    tables = {model.table.id: model.table for model in plan.models if model.table}
    resolver = Resolver("prod", plan.entries, plan.snapshots, tables)
    snapshot = plan.snapshots[plan.entries[ModelName("db", "m")].snapshot_id]
    (read,) = tables_read(replace(snapshot, canonicaliser="5"), resolver, "lakehouse")
    assert read.columns is None
