"""Examples of commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from vde_dagster.api.commands import Output, Workflow, on_project, simple_table
from vde_dagster.api.workspace import Workspace


def test_Output(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).result({"rows": 3}, "3 rows")
    assert capsys.readouterr().out.split() == ["{", '"rows":', "3", "}"]


def test_Workflow() -> None:
    files = Workflow({Path("ci.yml"): "check: vde ci check\n"}, left=("add the token VDE_TOKEN",))
    assert list(files.files) == [Path("ci.yml")]


def test_on_project() -> None:
    @on_project
    def models(workspace: Workspace, output: Output) -> None:
        """Show the number of models.

        Example: vde models
        """
        number = len(workspace.project.models)
        output.result({"models": number}, f"{number} models")

    assert "project" in models.__signature__.parameters  # type: ignore[attr-defined]


def test_simple_table() -> None:
    console = Console(width=40, record=True)
    console.print(simple_table(["model", "rows"], [["marts.daily", 3]]))
    assert "marts.daily" in console.export_text()
