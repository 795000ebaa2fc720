"""A notebook's page in Dagster: a materialisation links it, and Dagster shows HTML."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import nbformat
import pytest

from vde_dagster.programs.notebook.step import page_html
from vde_dagster_tests.notebook.files import write_notebook
from vde_dagster_tests.orchestration.conftest import apply_all
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]


def test_a_run_of_dagsters_links_the_notebook_that_it_ran(tmp_path: Path) -> None:
    seven = "MODEL (name marts.seven, kind FULL); SELECT 7 AS seven"
    folder = ProjectFolder(tmp_path / "project", {"models/seven.sql": seven})
    cells = [
        ("raw", "MODEL (name marts.report)"),
        ("code", "6 * workspace.read('marts.seven').to_arrow()['seven'][0].as_py()"),
    ]
    write_notebook(folder, "models/marts/report.ipynb", cells)
    with dg.DagsterInstance.ephemeral() as instance:
        assert apply_all(folder, instance).success
        found = instance.fetch_materializations(dg.AssetKey(["marts", "report"]), limit=9).records
        seven_events = instance.fetch_materializations(dg.AssetKey(["marts", "seven"]), limit=9)
    linked = [one.asset_materialization.metadata.get("vde/page") for one in found]
    (page,) = (value for value in linked if value is not None)
    assert isinstance(page, dg.NotebookMetadataValue)
    assert ">42</pre>" in page_html(nbformat.read(page.path, 4)), "as Dagster's server shows it"
    told = [one.asset_materialization.metadata for one in seven_events.records]
    assert told
    assert not any("vde/page" in metadata for metadata in told)
