"""A plan that is cancelled while its notebook or its Python model is in pure Python."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vde_dagster.errors import VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.programs.notebook import step
from vde_dagster_tests.notebook.files import Cells, write_notebook
from vde_dagster_tests.processes import is_running, until
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

HEADER = "MODEL (name marts.slow, columns (n INT))"
BEGIN = "import os, time\nPLACE.write_text(str(os.getpid()))\n"
CELLS = {
    "heeds the interrupt": "while True: time.sleep(0.05)",
    "does not": "while True:\n    try: time.sleep(60)\n    except BaseException: pass",
}
MODEL = """
import time
from pathlib import Path
from vde_dagster import model

@model("marts.slow", columns={"n": "INT"})
def execute(context, **_):
    Path("PLACE").write_text("begun")
    while not context.is_cancelled():
        time.sleep(0.05)
    raise RuntimeError("stopped by itself")
"""


def _cancelled(folder: ProjectFolder, place: Path) -> str:
    """Apply, cancel once the code runs, and return what the apply says."""
    with Workspace.open(folder.root) as workspace, ThreadPoolExecutor(1) as pool:
        plan = workspace.plan("prod")
        applied = pool.submit(workspace.apply, plan)
        until(place.exists)
        workspace.cancel(plan.id)
        error = applied.exception(60)
        assert isinstance(error, VdeError)
        assert workspace.store.environments.get("prod") is None
        return str(error)


@pytest.mark.parametrize("cell", CELLS)
def test_the_kernel_of_a_cancelled_plan_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    monkeypatch.setattr(step, "_KILL_AFTER_SECONDS", 2.0)
    folder, place = ProjectFolder(tmp_path / "project", {}), tmp_path / "begun"
    begin = BEGIN.replace("PLACE", f"__import__('pathlib').Path({str(place)!r})")
    cells: Cells = [("raw", HEADER), ("code", begin), ("code", CELLS[cell])]
    write_notebook(folder, "models/slow.ipynb", cells)
    assert "was canceled" in _cancelled(folder, place)
    kernel = int(place.read_text())
    assert kernel != os.getpid()
    until(lambda: not is_running(kernel), 10)


def test_a_python_model_may_ask_whether_its_plan_was_cancelled(tmp_path: Path) -> None:
    place = tmp_path / "begun"
    text = MODEL.replace("PLACE", str(place))
    folder = ProjectFolder(tmp_path / "project", {"models/slow.py": text})
    assert "was canceled" in _cancelled(folder, place)
