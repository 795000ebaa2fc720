"""Which columns of which tables a fill reads: what may decide rows unseen is all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.resolver import Resolver
from vde_dagster.planning.sources import tables_read
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

T = "MODEL (name db.t, kind FULL); SELECT 1 AS x, 2 AS y, array(3) AS z, 4 AS w"
VIEW = "MODEL (name db.v, kind VIEW); SELECT x, y + w AS s FROM db.t"


def columns_read(root: Path, query: str, view: str = VIEW) -> tuple[str, ...] | None:
    """What a model with a query reads of `db.t`."""
    files = {
        "models/t.sql": T,
        "models/v.sql": view,
        "models/m.sql": f"MODEL (name db.m, kind FULL); {query}",
    }
    folder = ProjectFolder(root, files)
    warehouse = Warehouse()
    plan = warehouse.plan(folder.root)
    tables = {model.table.id: model.table for model in plan.models if model.table}
    resolver = Resolver("prod", plan.entries, plan.snapshots, tables)
    snapshot = plan.snapshots[plan.entries[ModelName("db", "m")].snapshot_id]
    (read,) = tables_read(snapshot, resolver, "lakehouse")
    return read.columns


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT x FROM db.t", ("x",)),
        ("SELECT x FROM db.t WHERE y > 1", ("x", "y")),
        ("SELECT count(*) AS n FROM db.t", ()),
        ("SELECT x FROM db.v", ("w", "x", "y")),
        ("SELECT x FROM (SELECT x, y FROM db.t EXCEPT SELECT x, w FROM db.t)", None),
        ("SELECT x FROM (SELECT x, y FROM db.t INTERSECT SELECT x, w FROM db.t)", None),
        ("SELECT x FROM (SELECT x, explode(z) AS e FROM db.t)", None),
        ("SELECT t.x FROM db.t LATERAL VIEW explode(z) AS e", None),
        ("SELECT x FROM db.t TABLESAMPLE (5 ROWS)", None),
    ],
)
def test_columns_that_may_decide_rows_are_read(
    tmp_path: Path, query: str, columns: tuple[str, ...] | None
) -> None:
    assert columns_read(tmp_path / "project", query) == columns


def test_view_whose_rows_are_decided_unseen_is_read_whole(tmp_path: Path) -> None:
    view = "MODEL (name db.v, kind VIEW); SELECT x, explode(z) AS s FROM db.t"
    assert columns_read(tmp_path / "project", "SELECT x FROM db.v", view) is None
