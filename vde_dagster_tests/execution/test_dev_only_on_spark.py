"""Tables that production shows in place of views, as Spark and PyIceberg read them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

HEADER = """MODEL (name shop.sales, start '2024-01-01', partitioned_by (day, bucket(4, id)),
  kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1));
"""
FILES = {
    "pyproject.toml": '[tool.vde]\nvirtual_environment_mode = "dev_only"',
    "models/sales.sql": HEADER
    + "SELECT CAST(@start_ds AS DATE) AS day, id, id * 2 AS amount FROM range(3)",
    "models/names.sql": """
        MODEL (name shop.names, kind FULL, partitioned_by (kind));
        SELECT 'a' AS kind, 1 AS id, 10 AS n
    """,
    "models/top.sql": """
        MODEL (name shop.top, kind VIEW); SELECT max(amount) AS most FROM shop.sales
    """,
}


def read(workspace: Workspace, engine: Any, name: str) -> list[tuple[object, ...]]:
    """Read a table as Spark does, and see that PyIceberg finds the same."""
    catalog = workspace.settings.catalog
    rows = engine.session.sql(f"SELECT * FROM `{catalog}`.shop.{name}").collect()
    found = sorted(tuple(row) for row in rows)
    table = workspace.lakehouse.load_table(TableRef("shop", name))
    arrow = table.scan().to_arrow()
    assert sorted(tuple(row.values()) for row in arrow.to_pylist()) == found
    return found


def test_engines_read_tables_that_are_shown_with_other_columns(
    tmp_path: Path,
    open_workspace: Callable[[ProjectFolder], Workspace],
) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    workspace = open_workspace(folder)
    engine = workspace.engine()
    workspace.apply(workspace.plan("prod", now=datetime(2024, 1, 3, 12, tzinfo=timezone.utc)))
    rows = read(workspace, engine, "sales")
    assert [(str(day), *rest) for day, *rest in rows][:3] == [
        ("2024-01-01", 0, 0),
        ("2024-01-01", 1, 2),
        ("2024-01-01", 2, 4),
    ]
    assert len(rows) == 6
    # Names, order and choice of columns change, the partition's own among them; nothing is copied.
    folder.write(
        "models/sales.sql",
        HEADER + "SELECT id * 2 AS total, CAST(@start_ds AS DATE) AS day, id FROM range(3)",
    )
    folder.write(
        "models/names.sql",
        "MODEL (name shop.names, kind FULL, partitioned_by (kind)); SELECT 10 AS n, 'a' AS kind",
    )
    folder.edit("models/top.sql", "amount", "total")
    workspace = open_workspace(folder)
    engine = workspace.engine()
    workspace.apply(workspace.plan("prod", now=datetime(2024, 1, 3, 12, tzinfo=timezone.utc)))
    assert len(read(workspace, engine, "sales")) == 6
    workspace.apply(workspace.plans.due("prod", now=datetime(2024, 1, 4, 12, tzinfo=timezone.utc)))
    assert len(read(workspace, engine, "sales")) == 9
    assert read(workspace, engine, "sales")[-1][0] == 4
    assert read(workspace, engine, "names") == [(10, "a")]
    assert list(workspace.query("prod", "SELECT most FROM shop.top").rows) == [(4,)]
    sql = f"SELECT count(*) FROM `{workspace.settings.catalog}`.shop.sales WHERE day = '2024-01-03'"
    assert engine.session.sql(sql).collect()[0][0] == 3
