"""Changes in place, on Spark, of tables whose rows name no interval: none is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

FIRST = datetime(2024, 1, 4, 12, tzinfo=timezone.utc)
LATER = FIRST + timedelta(days=1)
QUERY = "SELECT day, id % 2 AS part, id, v FROM m.rows WHERE day BETWEEN @start_date AND @end_date"
FILES = {
    "models/rows.sql": """
        MODEL (name m.rows, kind VIEW);
        SELECT CAST(d AS DATE) AS day, i AS id, i * 10 AS v, concat('s', i) AS s
        FROM VALUES ('2024-01-01', 1), ('2024-01-02', 2), ('2024-01-03', 3), ('2024-01-04', 4)
          AS t(d, i)
    """,
    "models/parted.sql": f"""
        MODEL (name m.parted, start '2024-01-01', partitioned_by (id, part),
          kind INCREMENTAL_BY_PARTITION (forward_only true, disable_restatement false));
        {QUERY}
    """,
    "models/added.sql": f"""
        MODEL (name m.added, start '2024-01-01',
          kind INCREMENTAL_UNMANAGED (forward_only true, disable_restatement false));
        {QUERY}
    """,
}
MODELS = ("parted", "added")


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


def rows(workspace: Workspace, environment: str, columns: str) -> dict[str, list[tuple[Any, ...]]]:
    queries = {name: f"SELECT {columns} FROM m.{name} ORDER BY id" for name in MODELS}
    return {name: list(workspace.query(environment, q).rows) for name, q in queries.items()}


def test_tables_without_rows_by_interval_are_previewed_deployed_restated_and_rolled_back(
    folder: ProjectFolder, open_workspace: Callable[[ProjectFolder], Workspace]
) -> None:
    workspace = open_workspace(folder)
    workspace.apply(workspace.plan("prod", PlanOptions(now=FIRST)))
    for name in MODELS:
        folder.edit(f"models/{name}.sql", "id, v FROM", "id, v + 1 AS v, s FROM")
    workspace.reload()
    workspace.apply(workspace.plan("dev", PlanOptions(now=FIRST)))
    old = [(1, 10, None), (2, 20, None)]
    assert rows(workspace, "dev", "id, v, s") == {
        "parted": [*old, (3, 31, "s3")],
        "added": [*old, (3, 30, None)],
    }
    workspace.apply(workspace.plans.due("dev", PlanOptions(now=LATER)))
    assert rows(workspace, "dev", "id, v, s") == {
        "parted": [*old, (3, 31, "s3"), (4, 41, "s4")],
        "added": [*old, (3, 30, None), (4, 41, "s4")],
    }
    three = [(1, 10), (2, 20), (3, 30)]
    assert rows(workspace, "prod", "id, v") == dict.fromkeys(MODELS, three)

    workspace.apply(workspace.plan("prod", PlanOptions(now=FIRST)))
    workspace.apply(workspace.plans.due("prod", PlanOptions(now=LATER)))
    deployed = [*old, (3, 30, None), (4, 41, "s4")]
    assert rows(workspace, "prod", "id, v, s") == dict.fromkeys(MODELS, deployed)

    workspace.environments.rollback("prod", 1)
    assert rows(workspace, "prod", "id, v") == dict.fromkeys(MODELS, three)
    workspace.environments.rollback("prod", 3)
    assert rows(workspace, "prod", "id, v, s") == dict.fromkeys(MODELS, deployed)
    workspace.environments.rollback("prod", 1, definitions_only=True)
    four = [*three, (4, 41)]
    assert rows(workspace, "prod", "id, v") == dict.fromkeys(MODELS, four)
    workspace.apply(workspace.plan("prod", PlanOptions(now=LATER)))
    again = PlanOptions(restate=("m.parted", "m.added"), now=LATER)
    workspace.apply(workspace.plan("prod", again))
    whole = [(i, i * 10 + 1, f"s{i}") for i in range(1, 5)]
    assert rows(workspace, "prod", "id, v, s") == dict.fromkeys(MODELS, whole)
    workspace.apply(workspace.plans.due("prod", PlanOptions(now=LATER + timedelta(days=1))))
    assert rows(workspace, "prod", "id, v, s") == dict.fromkeys(MODELS, whole)
