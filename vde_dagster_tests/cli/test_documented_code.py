"""What docs/dagster_code.md says of reading a published model, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "dagster_code.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def documented() -> list[str]:
    """Return the blocks of code of the section, in order."""
    _, _, rest = PAGE.read_text().partition("\n### Reading a published model\n")
    return BLOCK.findall(rest.partition("\n### ")[0])


def run(code: str, root: Path) -> dict[str, Any]:
    """Run a block as the file that it would be in a project's folder."""
    names: dict[str, Any] = {"__name__": "definitions", "__file__": str(root / "definitions.py")}
    exec(compile(code, str(root / "definitions.py"), "exec"), names)
    return names


@pytest.mark.spark
def test_the_assets_read_what_is_published_with_spark_and_without(
    unchanged: ProjectFolder, spark_engine: SparkEngine
) -> None:
    definitions = run(documented()[0], unchanged.root)["defs"]
    chosen = dg.define_asset_job("chosen", selection=["best_day", "revenue"])
    job = dg.Definitions.merge(definitions, dg.Definitions(jobs=[chosen])).resolve_job_def("chosen")
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance)
    told = {
        name: done.asset_materializations_for_node(name)[0].metadata
        for name in ("best_day", "revenue")
    }
    assert told["best_day"]["day"].value == "2024-01-02"
    assert told["revenue"]["total"].value == pytest.approx(220.15)


@pytest.mark.spark
def test_the_script_reads_the_same_without_dagster(
    unchanged: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(unchanged.root.parent)
    frame = run(documented()[1], unchanged.root)["frame"]
    assert list(frame.columns) == ["order_date", "orders", "customers", "revenue"]
    assert len(frame) == 5


@pytest.mark.spark
def test_reading_starts_no_engine_and_takes_columns_in_any_case_and_order(
    unchanged: ProjectFolder,
) -> None:
    with Workspace.open(unchanged.root) as workspace:
        rows = workspace.queries.read("prod", "MARTS.Daily_Revenue", ["customers", "ORDERS"])
        assert rows.column_names == ["customers", "orders"]
        assert rows.sort_by([("orders", "descending")]).to_pylist()[0] == {
            "customers": 2,
            "orders": 2,
        }
        assert not workspace.started_engine


@pytest.mark.parametrize(
    ("environment", "model", "columns", "message", "hint"),
    [
        ("dev", "marts.daily_revenue", [], "environment 'dev' does not exist", "vde apply dev"),
        (
            "prod",
            "marts.daily_revenu",
            [],
            "does not contain the model 'marts.daily_revenu'",
            "marts.daily_revenue",
        ),
        ("prod", "staging.orders", [], "staging.orders has no table", "with Spark"),
        ("prod", "raw.orders", ["amuont"], "has no column 'amuont'", "'amount'"),
    ],
)
def test_what_cannot_be_read_is_one_message_with_a_hint(
    template: ProjectFolder,
    environment: str,
    model: str,
    columns: list[str],
    message: str,
    hint: str,
) -> None:
    with open_fake(template.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        with pytest.raises(UsageError, match=message) as refused:
            workspace.queries.read(environment, model, columns)
        assert hint in (refused.value.hint or "")
