"""Examples of reports."""

from __future__ import annotations

from vde_dagster.api.reports import (
    Document,
    gather_document,
    literal,
    plain_table,
    plan_comment,
    summary,
    without_mentions,
)
from vde_dagster.api.workspace import Workspace


def test_Document(workspace: Workspace) -> None:
    document: Document = gather_document(workspace)
    assert document.models[0].columns[0].name == "day"


def test_gather_document(workspace: Workspace) -> None:
    workspace.apply(workspace.plan("prod"))
    published = gather_document(workspace, "prod")
    assert [len(table.fills) for table in published.tables] == [1]


def test_literal() -> None:
    assert literal("a * b < c") == "a \\* b &lt; c"


def test_plain_table() -> None:
    assert plain_table(["model"], [["a|b"]]) == "| model |\n|---|\n| a\\|b |"


def test_plan_comment(workspace: Workspace) -> None:
    text = plan_comment(workspace.plan("prod", save=False))
    assert text.startswith("<!-- vde plan prod -->")


def test_summary(workspace: Workspace) -> None:
    assert summary(workspace.plan("prod", save=False)) == "1 added, 1 to compute"


def test_without_mentions() -> None:
    assert without_mentions("ask @ann") == "ask @\u2060ann"
