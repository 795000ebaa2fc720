"""Texts with brackets are printed as they are: Rich would read `[a]` as a style and omit it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from vde_dagster.base.names import ModelName
from vde_dagster.cli.main_job import run_main_job
from vde_dagster.cli.output import Output
from vde_dagster.cli.progress import ApplyProgress
from vde_dagster.execution.events import VirtualUpdateRan
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder


def test_a_statement_that_failed_is_printed_whole() -> None:
    text = io.StringIO()
    sentence = "shop.one: cannot run GRANT[a], see [/tmp/x]"

    Output.show_failed_statements(Console(file=text, width=200), "prod", [sentence])

    assert text.getvalue().startswith(f"{sentence}\n")


def test_a_statement_that_ran_is_printed_whole(template: ProjectFolder) -> None:
    text = io.StringIO()
    with open_fake(template.root) as workspace:
        progress = ApplyProgress(Console(file=text, width=200), workspace.plan("prod"))
    statement = "SELECT a[i] RLIKE '[/a]'"

    progress.show(VirtualUpdateRan("prod", ModelName("shop", "one"), statement, None))

    assert text.getvalue() == f"shop.one: {statement}\n"


def test_the_main_job_names_the_table_of_settings_in_an_error(
    template: ProjectFolder,
) -> None:
    template.write("pyproject.toml", "[tool]\nvde = 3\n")
    text = io.StringIO()

    assert run_main_job(template.root, "prod", Console(file=text, width=200)) == 2

    assert text.getvalue().endswith("Hint: write [tool.vde]\n")


def test_notes_name_a_folder_with_brackets(
    vde: Vde, template: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = template.root.rename(template.root.with_name("my [shop]"))
    monkeypatch.chdir(root)

    assert f"my [shop]  {root}\n" in vde("info").out
    saved = vde("plan", "prod", "--save", "a [b].json")
    assert saved.err.endswith("vde apply prod --plan 'a [b].json'\n")
    key = vde("keys", "make", "anna", "--to", "[anna].pem")
    assert key.err.startswith("the private key is in [anna].pem:")
