"""Each version of an environment is read again as it was when it was the current one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import VdeError
from vde_dagster.execution.environments.compare import compare_data
from vde_dagster.execution.published_version import named_environment
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

SALES = """MODEL (name shop.sales, start '2024-01-01',
  kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1));
"""
FILES = {
    "models/sales.sql": SALES
    + "SELECT CAST(@start_ds AS DATE) AS day, CAST(id AS INT) AS id FROM range(3)",
    "models/names.sql": "MODEL (name shop.names, kind FULL); SELECT 'a' AS name, 1 AS id",
    "models/kept.sql": """
        MODEL (name shop.kept, kind EMBEDDED); SELECT * FROM shop.sales WHERE id > 0
    """,
    "models/top.sql": """
        MODEL (name shop.top, kind VIEW);
        SELECT name, count(*) AS days FROM shop.kept JOIN shop.names USING (id) GROUP BY name
    """,
}


def at(day: int) -> datetime:
    return datetime(2024, 1, day, 12, tzinfo=timezone.utc)


def rows(workspace: Workspace, environment: str, model: str) -> list[tuple[Any, ...]]:
    found = workspace.query(environment, f"SELECT * FROM shop.{model}")
    return [found.columns, *sorted(found.rows)]


def test_versions_read_as_they_were(
    tmp_path: Path, open_workspace: Callable[[ProjectFolder], Workspace]
) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    seen: dict[int, dict[str, list[tuple[Any, ...]]]] = {}

    def publish(day: int, *, run: bool = False, **options: Any) -> Workspace:
        """Publish, and note what readers see."""
        workspace = open_workspace(folder)
        made = workspace.plans.due if run else workspace.plan
        done = workspace.apply(made("prod", now=at(day), **options))
        assert done.environment is not None
        models = {str(name).split(".")[1] for name in done.environment.entries} - {"kept"}
        seen[done.environment.version] = {
            model: rows(workspace, "prod", model) for model in sorted(models)
        }
        return workspace

    publish(3)
    publish(4, run=True)
    folder.edit("models/names.sql", "'a' AS name", "'b' AS name")
    publish(4)
    folder.write(
        "models/sales.sql",
        SALES + "SELECT CAST(@start_ds AS DATE) AS day, id, id * 3 AS more FROM range(3)",
    )
    publish(4, forward_only=True)
    publish(5, run=True)
    folder.remove("models/top.sql")
    folder.remove("models/names.sql")
    workspace = publish(5)
    workspace.environments.rollback("prod", 1)
    seen[7] = {model: rows(workspace, "prod", model) for model in ("sales", "names", "top")}
    assert len({str(one["sales"]) for one in seen.values()}) >= 4
    for version, models in seen.items():
        for model, found in models.items():
            assert rows(workspace, f"prod@{version}", model) == found, f"{model} in {version}"
    for version, models in seen.items():
        workspace.environments.freeze(f"prod@{version}", f"v{version}")
        for model, found in models.items():
            assert rows(workspace, f"v{version}", model) == found, f"{model}, {version} frozen"
            if model != "top":
                read = workspace.queries.read(f"v{version}", f"shop.{model}").to_pylist()
                assert sorted(tuple(row.values()) for row in read) == found[1:]
    joined = "SELECT count(*) AS n FROM shop.sales s JOIN shop.names n ON s.id = n.id, shop.top"
    assert [workspace.query(f"prod@{v}", joined).rows for v in (1, 2)] == [((2,),), ((3,),)]
    with pytest.raises(VdeError, match="more"):
        workspace.query("prod@3", "SELECT more FROM shop.sales")
    publish(6)
    for version, models in seen.items():
        if version < 8:
            for model, found in models.items():
                assert rows(workspace, f"v{version}", model) == found
    changes = {one.version.version: one for one in workspace.environments.history("prod")}
    assert [changes[version].what for version in range(1, 8)] == [
        *("both", "data", "both", "definitions", "data", "definitions", "both")
    ]
    (sales,) = [one for one in changes[2].data if str(one.models[0]) == "shop.sales"]
    assert (sales.rows, sales.added, sales.removed) == (9, 3, 0)
    (sales,) = [one for one in changes[7].data if str(one.models[0]) == "shop.sales"]
    assert (sales.rows, sales.added, sales.removed) == (6, 0, 6), "what a rollback takes back"
    versions = [named_environment(workspace, f"prod@{one}") for one in (5, 1)]
    found = {str(one.name): one for one in compare_data(workspace, *versions)}
    assert (found["shop.sales"].added, found["shop.sales"].removed) == (6, 0)
    assert not found["shop.names"].same_table
    back = compare_data(workspace, *reversed(versions))
    assert [(one.added, one.removed) for one in back if one.same_table] == [(0, 6)]
