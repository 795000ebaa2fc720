"""Kinds that keep rows of earlier fills: runs, edits, rollbacks, restatements, a killed process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import SMALL_SPARK
from vde_dagster_tests.faults import VARIABLE
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.conftest import empty_database

__all__ = ["empty_database"]

pytestmark = pytest.mark.spark

QUERY = "SELECT id, day, v FROM raw.events WHERE day BETWEEN @start_date AND @end_date"
HEADER = "MODEL (name m.{}, start '2024-01-01', end '2024-01-03', kind {});\n" + QUERY
KINDS = {
    "merged": "INCREMENTAL_BY_UNIQUE_KEY (unique_key COALESCE(id, 0), batch_size 1, when_matched "
    "WHEN MATCHED AND source.v < 0 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET target.v = target.v + source.v, target.day = source.day)",
    "parted": "INCREMENTAL_BY_PARTITION (batch_size 1), partitioned_by id",
    "added": "INCREMENTAL_UNMANAGED (batch_size 1)",
    "custom": "CUSTOM (materialization 'add', batch_size 1)",
}
FILES = {
    "models/events.sql": """
        MODEL (name raw.events, kind SEED (path '../seeds/events.csv'),
          columns (id INT, day DATE, v INT));
    """,
    "seeds/events.csv": """
        id,day,v
        1,2024-01-01,1
        2,2024-01-01,10
        1,2024-01-02,2
        3,2024-01-02,5
        3,2024-01-03,-1
        1,2024-01-03,4
    """,
    "materializations/add.py": """
        from pyspark.sql.functions import lit

        from vde_dagster import materialization


        @materialization("add")
        def write(rows, target):
            writer = target.writer(rows)
            writer.overwrite(lit(True)) if target.anew else writer.append()
    """,
    **{f"models/{name}.sql": HEADER.format(name, kind) for name, kind in KINDS.items()},
}
EVERY = [(1, 1), (1, 2), (1, 3), (2, 1), (3, 2), (3, 3)]
SCRATCH: dict[str, list[tuple[Any, ...]]] = {
    "merged": [(1, 3, 7), (2, 1, 10)],
    "parted": [(1, 3, 4), (2, 1, 10), (3, 3, -1)],
    "added": [(1, 1, 1), (1, 2, 2), (1, 3, 4), (2, 1, 10), (3, 2, 5), (3, 3, -1)],
    "custom": [(1, 1, 1), (1, 2, 2), (1, 3, 4), (2, 1, 10), (3, 2, 5), (3, 3, -1)],
}
"""What each table holds when its days are filled in order, once each."""


def tables(workspace: Workspace, *names: str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each model that production shows, days by their number."""
    queries = {
        name: f"SELECT id, day(day), v FROM m.{name} ORDER BY 1, 2, 3" for name in names or KINDS
    }
    return {n: [tuple(r) for r in workspace.query("prod", q).rows] for n, q in queries.items()}


@pytest.mark.usefixtures("spark_engine")
def test_runs_edits_rollbacks_and_restatements_end_as_if_computed_from_scratch(
    tmp_path: Path,
) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    for name in KINDS:
        folder.edit(f"models/{name}.sql", "end '2024-01-03'", "end '2024-01-01'")
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        for name in KINDS:
            folder.edit(f"models/{name}.sql", "end '2024-01-01'", "end '2024-01-03'")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        workspace.apply(workspace.plans.due("prod"))
        assert tables(workspace) == SCRATCH
        assert workspace.plan("prod").is_empty
        workspace.apply(workspace.plans.due("prod"))
        assert tables(workspace) == SCRATCH

        # An edit makes new tables, and leaves the old ones as they were.
        for name in KINDS:
            folder.edit(f"models/{name}.sql", "day, v FROM", "day, v * 10 AS v FROM")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        assert tables(workspace) == {
            name: [(one, day, v * 10) for one, day, v in rows] for name, rows in SCRATCH.items()
        }
        workspace.environments.rollback("prod")
        assert tables(workspace) == SCRATCH

        # All of it again, from its first interval on, for those that allow it.
        again = ("m.merged", "m.custom")
        workspace.apply(workspace.plan("prod", restate=again))
        assert tables(workspace) == SCRATCH
        for name in ("parted", "added"):
            folder.edit(f"models/{name}.sql", "v * 10 AS v", "v")
            folder.edit(
                f"models/{name}.sql", "batch_size 1", "batch_size 1, disable_restatement false"
            )
        workspace.reload()
        workspace.apply(workspace.plan("prod", select=("m.parted", "m.added")))
        workspace.apply(workspace.plan("prod", restate=("m.parted", "m.added")))
        assert tables(workspace) == SCRATCH


@pytest.mark.turns(6, "processes with Spark that die")
@pytest.mark.parametrize("passage", [3, 9])
def test_a_process_that_dies_between_a_commit_and_its_record_loses_and_doubles_nothing(
    tmp_path: Path, empty_database: Path, spark_engine: SparkEngine, passage: int
) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    config = "\n".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in SMALL_SPARK.items())
    (folder.root / "pyproject.toml").write_text(
        f'[tool.vde.spark]\nmaster = "local[1]"\n[tool.vde.spark.config]\n{config}\n'
    )
    (folder.root / ".vde").mkdir()
    shutil.copy(empty_database, folder.root / ".vde" / "vde.db")
    fault = {"point": "fill.advance.file", "mode": "kill_before", "occurrence": passage}
    died = subprocess.run(
        [sys.executable, "-m", "vde_dagster_tests.execution.spark_worker", str(folder.root)],
        env={**os.environ, VARIABLE: json.dumps(fault)},
        cwd=Path(__file__).parents[2],
        timeout=240,
        check=False,
    )
    assert died.returncode == -9
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        assert tables(workspace) == SCRATCH
