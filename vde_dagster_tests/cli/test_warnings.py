"""What looks like a mistake is said by every command that plans, a line each, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/orders.sql": "MODEL (name db.orders, kind FULL);\nSELECT 1 AS id, '[b]' AS status",
    "models/open.sql": "MODEL (name db.open, kind FULL);\n"
    "SELECT id FROM db.orders\nWHERE status = NULL OR id <> NULL",
}
FIRST = (
    "warning: models/open.sql:3:7: db.open: a comparison with NULL is never true. "
    "Hint: write … IS NULL"
)
SECOND = (
    "warning: models/open.sql:3:24: db.open: a comparison with NULL is never true. "
    "Hint: write … IS NOT NULL"
)


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "shop", FILES)


@pytest.mark.parametrize("how", [(), ("--no-diff",), ("--summary",)])
def test_a_plan_ends_with_its_warnings(
    folder: ProjectFolder, vde: Vde, how: tuple[str, ...]
) -> None:
    called = vde("plan", "prod", "--project", folder.root, *how)
    assert called.code == 0
    assert called.out.splitlines()[-2:] == [FIRST, SECOND]


def test_a_plan_in_json_has_them_as_a_list(folder: ProjectFolder, vde: Vde) -> None:
    called = vde("plan", "prod", "--project", folder.root, "--json")
    assert [f"warning: {said}" for said in called.json["warnings"]] == [FIRST, SECOND]
    assert "warning" not in called.err


def test_a_plan_with_nothing_to_do_says_them_all_the_same(folder: ProjectFolder, vde: Vde) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    called = vde("plan", "prod", "--project", folder.root)
    assert called.out.splitlines() == [
        "prod is up to date: nothing to do",
        FIRST,
        SECOND,
    ]


def test_an_apply_says_them_beside_its_result_even_when_nothing_is_left_to_do(
    folder: ProjectFolder, vde: Vde
) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    called = vde("apply", "prod", "--project", folder.root, "--yes")
    assert called.code == 0
    assert called.err.splitlines()[:2] == [FIRST, SECOND]
    assert "warning" not in called.out
