"""What a file says and nothing here does is told in a warning: once, with the first place."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from vde_dagster.planning.checks.diagnostics import properties_in_header
from vde_dagster.project.properties.model_properties import METADATA
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

IDLE = {
    "of a model": ("kind FULL, references (id)", "", "references", 3),
    "an engine": ("kind FULL, gateway big", "", "gateway", 3),
    "a session": ("kind FULL, session_properties (a = 1)", "", "SET before the query", 3),
    "rights": ("kind FULL, grants ('select' = ['me'])", "", "write GRANT between", 3),
    "a table of a view": ("kind VIEW, partitioned_by (id)", "", "partitioned_by", 3),
    "a format of a view": ("kind VIEW, storage_format orc", "", "storage_format", 3),
    "a view of a part": ("kind EMBEDDED, virtual_properties (a = 'b')", "", "virtual_prop", 3),
    "materialized views": ("kind VIEW (materialized true)", "", "materialized", 3),
    "rows of a whole table": ("kind FULL (disable_restatement true)", "", "disable_restate", 3),
    "policies of a whole table": ("kind FULL (on_additive_change warn)", "", "on_additive", 3),
    "statements of a part": ("kind EMBEDDED", "SET spark.sql.x = 1;", "statements before", 1),
    "audits of a part": ("kind EMBEDDED, audits (not_null(columns := id))", "", "audits are", 1),
    "an earlier value": ("kind FULL,\n  kind FULL", "", "'kind' is given twice; the last", 4),
    "a cache": ("kind FULL", "CACHE TABLE c AS SELECT 1;", "CACHE", 5),
}
USED = (
    "kind FULL, tags [project, formatting], description 'references, formatting', grain (id)",
    "kind FULL, clustered_by (id), physical_properties (project = 'x')",
    "kind VIEW, virtual_properties (references = 'x'), audits (not_null(columns := (id)))",
    "kind VIEW (materialized false), owner project, formatting false",
    "kind INCREMENTAL_BY_UNIQUE_KEY (unique_key (id, x), disable_restatement true)",
)


def warnings(tmp_path: Path, properties: str, before: str = "", count: int = 1) -> list[str]:
    folder = ProjectFolder(tmp_path / "shop")
    for number in range(count):
        folder.write(
            f"models/m{number}.sql",
            f"MODEL (\n  name db.m{number},\n  {properties}\n);\n{before}\n"
            f"SELECT {number} AS id, 2 AS x",
        )
    with open_fake(folder.root) as workspace:
        return list(workspace.plan("prod").warnings)


@pytest.mark.parametrize("case", IDLE)
def test_what_does_nothing_is_told_with_its_place(case: str, tmp_path: Path) -> None:
    properties, before, what, line = IDLE[case]
    (warning,) = warnings(tmp_path, properties, before)
    assert what in warning
    assert f"models/m0.sql:{line}" in warning
    assert "Hint: " in warning


def test_many_models_that_say_the_same_are_told_once(tmp_path: Path) -> None:
    (warning,) = warnings(tmp_path, "kind FULL, optimize_query false", count=5)
    assert "(and 4 more like it)" in warning
    assert "models/m0.sql:3" in warning


@pytest.mark.parametrize("properties", USED)
def test_what_is_used_is_not_told(properties: str, tmp_path: Path) -> None:
    told = warnings(tmp_path, properties)
    assert [one for one in told if "materialized" not in one] == []


def test_arguments_of_python_models_are_looked_at_too(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop")
    folder.write(
        "models/p.py",
        """
        from vde_dagster import model

        @model("db.p", columns={"id": "INT"}, kind={"name": "FULL", "on_additive_change": "warn"},
               project="x")
        def execute(context, **kwargs):
            project = 1
            return project
        """,
    )
    with open_fake(folder.root) as workspace:
        told = workspace.plan("prod").warnings
    assert len([one for one in told if "'project'" in one]) == 1
    assert len([one for one in told if "'on_additive_change'" in one]) == 1
    assert all("models/p.py" in one for one in told)


def test_the_page_for_sqlmeshs_people_names_them_all() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sqlmesh.md").read_text()
    section = page.partition("\n## Ignored properties\n")[2]
    named = set(re.findall(r"`([a-z_]+)`", section.partition("\n## ")[0]))

    assert named == {*METADATA, "default_catalog", "table_format", "iceberg"}


def test_a_text_that_is_no_header_has_no_properties(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, {"models/m.sql": "MODEL (name db.m); SELECT 1 AS id"})
    with open_fake(folder.root) as workspace:
        (model,) = workspace.project.models.values()
    assert set(properties_in_header(model)) == {"name"}
    # The first name stands in two brackets.
    assert properties_in_header(replace(model, source="SELECT a[(b)] AS c FROM t")) == {}
