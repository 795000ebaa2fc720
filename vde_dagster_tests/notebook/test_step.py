"""Notebooks as steps: kernels run them, on what the plan has, and Spark stores what they yield."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from logging import getLogger
from pathlib import Path
from typing import Any

import nbformat
import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.programs.notebook.step_rows import read_parent
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.models.python_models import ModelContext
from vde_dagster_tests.notebook.files import Cells, write_notebook
from vde_dagster_tests.notebook.test_notebook_models import HEADER
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.spark

SPENDERS: Cells = [
    ("raw", HEADER),
    ("code", "%load_ext vde_dagster\nfrom helpers import doubled"),
    (
        "code",
        "rows = workspace.read('staging.orders', columns=['customer', 'amount'], "
        "where=\"amount > 1 AND customer <> 12\", order_by=['-amount'], limit=9)\nrows",
    ),
    ("code", "frame = rows.to_pandas().groupby('customer', as_index=False).amount.sum()"),
    ("code", "workspace.yields(doubled(frame.rename(columns={'amount': 'SPENT'})))"),
    ("code", "workspace.plan('dev')", "skip-execution"),
]
DAYS: Cells = [
    (
        "raw",
        "MODEL (name marts.days, start '2024-01-01', end '2024-01-05', "
        "columns (day DATE, n INT, word STRING), kind INCREMENTAL_BY_TIME_RANGE (time_column day))",
    ),
    ("code", "import datetime\nstart = end = datetime.datetime(2024, 1, 1)\nn = 1", "parameters"),
    ("code", "import polars"),
    ("code", "orders = workspace.ask('prod', 'SELECT day FROM staging.orders').to_polars()"),
    ("code", "orders = orders.with_columns(n=n, word=polars.lit('ü'))"),
    ("code", "workspace.yields(orders.filter(polars.col('day') < end.date()))"),
]
REPORT: Cells = [
    ("markdown", "MODEL (name marts.report)"),
    ("code", "least = 5"),
    ("code", "%%vde prod --into best\nSELECT * FROM marts.customers WHERE revenue > :least"),
    ("code", "workspace.root.joinpath('seeds/orders.csv').exists(), len(best)"),
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark_engine: SparkEngine) -> ProjectFolder:
    """The shop with three notebooks, in production."""
    helpers = "def doubled(rows):\n    return rows.assign(SPENT=rows.SPENT * 2)\n"
    settings = "[tool.vde.variables]\nn = 7\n"
    root = tmp_path_factory.mktemp("step") / "shop"
    folder = ProjectFolder(root, {**SHOP, "helpers.py": helpers, "pyproject.toml": settings})
    write_notebook(folder, "models/marts/spenders.ipynb", SPENDERS)
    write_notebook(folder, "models/marts/days.ipynb", DAYS)
    write_notebook(folder, "models/marts/report.ipynb", REPORT)
    with Workspace.open(folder.root) as workspace:
        assert workspace.apply(workspace.plan("prod")).published
    return folder


@pytest.fixture
def workspace(shop: ProjectFolder) -> Iterator[Workspace]:
    with Workspace.open(shop.root) as opened:
        yield opened


def _rows(workspace: Workspace, model: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workspace.queries.read("prod", model).to_pylist()
    return found


def test_what_a_notebook_yields_is_its_models_table(workspace: Workspace) -> None:
    spent = {row["customer"]: row["spent"] for row in _rows(workspace, "marts.spenders")}
    assert spent == {10: 10.0, 11: 15.0}


def test_the_cell_of_parameters_is_followed_by_the_steps_values(workspace: Workspace) -> None:
    days = _rows(workspace, "marts.days")
    assert {(row["n"], row["word"]) for row in days} == {(7, "ü")}
    assert sorted(str(row["day"])[-2:] for row in days) == ["01", "01", "03", "05"]


def test_a_notebook_without_columns_publishes_its_page(workspace: Workspace) -> None:
    ((page,),) = (row.values() for row in _rows(workspace, "marts.report"))
    assert "(True, 3)" in page
    assert "3 rows of this step" in page
    assert "VDE_NOTEBOOK_STEP" not in page, "only the notebook's own cells are shown"


def test_each_run_leaves_the_notebook_as_it_was_run(shop: ProjectFolder) -> None:
    pages = [nbformat.read(path, 4) for path in (shop.root / ".vde/pages").rglob("*.ipynb")]
    assert len(pages) == 3
    (spenders,) = (one for one in pages if "marts.spenders" in one.cells[0].source)
    counts = [cell.execution_count for cell in spenders.cells if cell.cell_type == "code"]
    assert counts == [1, 2, 3, 4, None]
    (shown,) = spenders.cells[2].outputs
    assert "2 rows of this step" in shown["data"]["text/plain"]
    (days,) = (one for one in pages if "marts.days" in one.cells[0].source)
    assert "n = 7\n" in days.cells[2].outputs[0]["text"]


def test_only_an_edit_of_code_computes_it_again(shop: ProjectFolder, workspace: Workspace) -> None:
    write_notebook(shop, "models/marts/report.ipynb", [*REPORT, ("markdown", "The end")])
    assert not workspace.plan("prod").builds
    write_notebook(shop, "models/marts/report.ipynb", [*REPORT, ("code", "1")])
    workspace.reload()
    assert [str(one.name) for one in workspace.plan("prod").builds] == ["marts.report"]
    write_notebook(shop, "models/marts/report.ipynb", REPORT)


FAILING = {
    "divides": ("1 / 0", "cell 2 of models/divides.ipynb failed: ZeroDivisionError"),
    "asks": (
        "n = 'marts.daily'\nworkspace.read(n)",
        "marts.daily, which is not named in its header or cells",
    ),
    "misses": (
        "workspace.read('marts.top', columns=['plase'])",
        "marts.top has no column 'plase'",
    ),
    "pins": ("workspace.read('marts.top', 'prod@1')", "prod@1 cannot be pinned in a step"),
    "plans": ("workspace.plan('dev')", "a step's workspace has no 'plan'"),
    "yields": ("workspace.yields(7)", "a int is not a table of rows"),
    "ends": ("import os; os._exit(3)", "the kernel of models/ends.ipynb ended in cell 2"),
    "nothing": ("7", "yielded no rows"),
    "lacks": (
        "import pandas; workspace.yields(pandas.DataFrame({'b': [1]}))",
        "returned no column 'a'",
    ),
}


def test_what_fails_in_a_notebook_is_told_by_its_cell(
    tmp_path: Path, shop: ProjectFolder, workspace: Workspace
) -> None:
    for name, (cell, _) in FAILING.items():
        header = f"MODEL (name failing.{name}, columns (a INT), depends_on (marts.top))"
        write_notebook(shop, f"models/{name}.ipynb", [("raw", header), ("code", cell)])
    try:
        with pytest.raises(ExecutionError) as told:
            workspace.apply(workspace.plan("dev"))
    finally:
        for name in FAILING:
            shop.remove(f"models/{name}.ipynb")
    said = {failure.model.name: str(failure) for failure in told.value.failures}
    for name, (_, message) in FAILING.items():
        assert message in said[name]


ROWS = """
    SELECT *, CAST(id / 10 AS FLOAT) AS small, struct(CAST(id / 10 AS FLOAT) AS x) AS deep
    FROM VALUES (1, 'a%b', double('NaN'), true), (2, 'a''c', 1.5D, false),
      (3, NULL, NULL, NULL), (4, '', -0.5D, true) AS t(id, text, number, flag)
"""
VALUES = ModelName("db", "values")


@pytest.fixture(scope="module")
def values(
    tmp_path_factory: pytest.TempPathFactory, spark_engine: SparkEngine
) -> Iterator[Workspace]:
    model = {"models/v.sql": f"MODEL (name {VALUES}, kind FULL); {ROWS}"}
    folder = ProjectFolder(tmp_path_factory.mktemp("values") / "values", model)
    with Workspace.open(folder.root) as opened:
        assert opened.apply(opened.plan("prod")).published
        yield opened


@pytest.fixture
def context(values: Workspace) -> ModelContext:
    now = datetime(2024, 1, 1, tzinfo=timezone.utc)
    hour = Interval(now, now.replace(hour=1))
    session, name = values.engine().session, ModelName("db", "notebook")
    return ModelContext(session, hour, now, getLogger(), name, "spark", {VALUES: ROWS})


@pytest.mark.parametrize(
    "given",
    [
        {"where": "id >= 2 AND NOT (id = 3)"},
        {"where": "text = 'a''c' OR text IS NULL"},
        {"where": "text LIKE 'a%' AND text NOT LIKE 'a\\%%'"},
        {"where": "id IN (1, 3) OR id BETWEEN 4 AND 9"},
        {"where": "number IS NAN OR number < 0.25"},
        {"where": 'flag = TRUE AND "ID" > 1.5'},
        {"where": "number IS NOT NULL"},
        {"where": "small = 0.1 OR small IN (0.3, 7)"},
        {"where": "deep.X > 0.1 AND small <= 0.3"},
        {"where": "number < 1e400 AND small < 'inf'"},
        {"order_by": ["number"], "columns": ["ID"]},
        {"order_by": ["-number"], "columns": ["id", "text"], "limit": 3},
        {"order_by": ["flag", "-id"], "limit": 2},
    ],
    ids=str,
)
def test_a_step_reads_the_rows_that_a_read_without_spark_has(
    given: dict[str, Any], values: Workspace, context: ModelContext
) -> None:
    given = {"order_by": ["id"], **given}
    without = values.queries.read("prod", str(VALUES), **given)
    step = read_parent(context, str(VALUES), **given)
    assert step.column_names == [name.lower() for name in without.column_names]
    assert repr(step.to_pylist()) == repr(without.to_pylist())


def test_a_step_reads_nothing_that_it_does_not_name(context: ModelContext) -> None:
    with pytest.raises(UsageError, match=r"marts\.top, which is not named in its header or cells"):
        read_parent(context, "marts.top")
