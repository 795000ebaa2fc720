"""The documented notebook, run by a kernel of its own on a real project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from vde_dagster.cli.commands.project import new_project
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.turns(12, "plays and tours")]

TOUR = Path(__file__).parents[2] / "docs" / "notebooks" / "tour.ipynb"


def _run(cells: list[str], folder: Path) -> list[list[dict[str, Any]]]:
    """Run cells in a kernel; return the outputs of each."""
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in notebook.cells]


def _told(outputs: list[dict[str, Any]], form: str = "text/plain") -> str:
    shown = [one["data"][form] for one in outputs if form in one.get("data", {})]
    return "\n".join([*(one["text"] for one in outputs if "text" in one), *shown])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    root = tmp_path_factory.mktemp("notebook") / "shop"
    new_project(root)
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"))
    return ProjectFolder(root)


def test_the_tour_shows_what_its_texts_say(project: ProjectFolder) -> None:
    cells = [cell.source for cell in nbformat.read(TOUR, 4).cells if cell.cell_type == "code"]
    _, read, asked, total, best, pins, made, plan, version, weekdays = _run(cells, project.root)
    assert "3 rows of prod@1" in _told(read)
    assert "<th title='date32[day]'>order_date</th>" in _told(read, "text/html")
    assert "customer" in _told(asked)
    assert "of prod@1" in _told(asked)
    with Workspace.open(project.root) as workspace:
        spent = workspace.queries.read("prod", "marts.daily_revenue")["revenue"].to_pylist()
    assert _told(total) == repr(sum(spent))
    assert "of prod@1" in _told(best)
    assert _told(pins) == "pinned: prod@1\n"
    assert "wrote models/marts/weekdays.sql" in _told(made)
    assert "marts.weekdays" in _told(made, "text/html")
    assert "computes 1 model" in _told(plan)
    assert _told(version) == "1"
    assert "shape: (" in _told(weekdays)
    assert (project.root / "models/marts/weekdays.sql").read_text() == (
        "MODEL (\n  name marts.weekdays,\n  kind FULL\n);\n\n"
        "SELECT date_format(order_date, 'E') AS weekday, sum(revenue) AS revenue\n"
        "FROM marts.daily_revenue\nGROUP BY date_format(order_date, 'E')\n"
    )


def test_the_documented_step_is_a_model_and_runs_by_hand(project: ProjectFolder) -> None:
    path = "models/marts/customers.ipynb"
    (project.root / path).write_bytes((TOUR.parent / "customers.ipynb").read_bytes())
    with Workspace.open(project.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        rows = workspace.queries.read("prod", "marts.customers", order_by=["-share"]).to_pylist()
        customers = workspace.query("prod", "SELECT DISTINCT customer FROM staging.orders").rows
    assert {row["customer"] for row in rows} == {name for (name,) in customers}
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    cells = [cell.source for cell in nbformat.read(TOUR.parent / "customers.ipynb", 4).cells]
    *_, yielded = _run(
        [cell for cell in cells[2:] if not cell.startswith("Rows are")], project.root
    )
    assert f"{len(rows)} rows of the model" in _told(yielded)
