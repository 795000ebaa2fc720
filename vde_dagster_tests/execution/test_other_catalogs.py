"""Models that read tables of another catalog, by the names that their source gives these."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.project.loading import load as registry
from vde_dagster_tests.project.json_source import SHARED, json_models
from vde_dagster_tests.projects import ProjectFolder

LEADS = """{"models": {
  "leads": {"kind": "FULL", "query": "SELECT l.id, l.id + 1 AS n FROM crm.sales.leads AS l"},
  "view_of_leads": {"kind": "VIEW", "query": "SELECT id FROM crm.sales.leads"}
}}
"""


@pytest.mark.spark
def test_a_table_of_another_catalog_is_read_where_it_lies(
    tmp_path: Path,
    open_workspace: Callable[[ProjectFolder], Workspace],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "SOURCES", (*registry.SOURCES, json_models))
    other = tmp_path / "crm"
    settings = f"""
        [tool.vde]
        start = "2024-01-01"

        [tool.vde.spark.config]
        "spark.sql.catalog.crm_lake" = "org.apache.iceberg.spark.SparkCatalog"
        "spark.sql.catalog.crm_lake.type" = "hadoop"
        "spark.sql.catalog.crm_lake.warehouse" = "{other}"
    """
    files = {SHARED: '"shop"', "warehouse/leads.json": LEADS, "pyproject.toml": settings}
    workspace = open_workspace(ProjectFolder(tmp_path / "project", files))
    workspace.engine().session.sql("CREATE TABLE crm_lake.sales.leads AS SELECT 7 AS id")

    workspace.apply(workspace.plan("prod"))

    assert workspace.query("prod", "SELECT id, n FROM shop.leads").rows == ((7, 8),)
    assert workspace.query("prod", "SELECT id FROM shop.view_of_leads").rows == ((7,),)
    assert workspace.query("prod", "SELECT id FROM crm_lake.sales.leads").rows == ((7,),)
    assert workspace.plan("prod").is_empty
