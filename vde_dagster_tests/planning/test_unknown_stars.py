"""Stars whose columns a plan does not know: no column is lost, and none is refused by mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ExecutionError, ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import AnalysedQuery
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

PARENT = "MODEL (name m.parent, kind FULL); SELECT 1 AS id, 2 AS a"
SAMPLE = "SELECT *, 1 AS x FROM m.parent TABLESAMPLE (10 PERCENT)"
RECURSIVE = """
    WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3)
    SELECT *, 1 AS x FROM r
"""


def _folder(root: Path, header: str, query: str, **more: str) -> ProjectFolder:
    files = {"parent": PARENT, "star": f"MODEL (name m.star, {header});\n{query}", **more}
    return ProjectFolder(root, {f"models/{name}.sql": text for name, text in files.items()})


@pytest.mark.parametrize(
    ("query", "why"), [(SAMPLE, "a table with sample"), (RECURSIVE, "WITH RECURSIVE")]
)
def test_a_table_of_a_star_that_is_not_understood_is_refused(
    tmp_path: Path, query: str, why: str
) -> None:
    folder = _folder(tmp_path / "table", "kind FULL", query)
    with Workspace.open(folder.root) as workspace, pytest.raises(ProjectError) as raised:
        workspace.snapshots()
    assert raised.value.message == f"m.star: the columns of its star are not known ({why})"
    assert "declare them" in str(raised.value.hint)
    assert str(raised.value.location) == "models/star.sql:1:1"
    for name, header in (
        ("view", "kind VIEW"),
        ("declared", "kind FULL, columns (id INT, a INT, x INT)"),
    ):
        with Workspace.open(_folder(tmp_path / name, header, query).root) as workspace:
            assert len(workspace.snapshots()) == 2


MISSING = "SELECT *, 1 AS x FROM raw.missing"
READER = "MODEL (name m.reader, kind VIEW); SELECT id, x FROM m.star"


class StarOfTwo(FakeSpark):
    """The missing table exists by now, with the column `id`."""

    def prepare(self, query: str, *arguments: Any) -> AnalysedQuery:
        found = super().prepare(query, *arguments)
        if "missing" not in query:
            return found
        return replace(found, columns=(("id", "INT"), *found.columns))


def test_readers_may_name_columns_of_a_star_over_a_missing_table(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "kind VIEW", MISSING, reader=READER)
    with Workspace.open(folder.root) as workspace:
        found = {str(name): one for name, one in workspace.snapshots().items()}
    assert [column.name for column in found["m.reader"].columns] == ["id", "x"]


def test_a_fill_with_columns_that_its_plan_did_not_know_fails(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "kind FULL", MISSING)
    with open_fake(folder.root, StarOfTwo()) as workspace:
        plan = workspace.plan("prod")
        with pytest.raises(ExecutionError, match="columns that are not in the plan: id"):
            workspace.apply(plan)
        assert workspace.store.environments.get("prod") is None
