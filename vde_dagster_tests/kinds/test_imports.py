"""Kinds and distributions outside the product import its public API, and libraries."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
TOY = TESTS / "fixtures" / "toy_distribution"
OUTSIDE = [
    *sorted(TOY.rglob("*.py")),
    *(
        TESTS / "kinds" / f"{kind}{part}.py"
        for kind in ("appended", "newest_rows")
        for part in ("", "_meaning", "_writer")
    ),
]


def imported(text: str) -> set[str]:
    """The product's modules, and the tests', that a text imports anywhere."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
    return {name for name in names if name.startswith("vde_dagster")}


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(TESTS)))
def test_a_file_outside_the_product_imports_the_public_api_alone(path: Path) -> None:
    own = f"vde_dagster_tests.kinds.{path.name.split('_')[0]}"
    allowed = {name for name in imported(path.read_text()) if name.startswith("vde_dagster.api.")}
    others = imported(path.read_text()) - allowed
    assert [name for name in others if path.is_relative_to(TOY) or not name.startswith(own)] == []


def test_every_file_of_the_distribution_is_looked_at() -> None:
    assert {path.name for path in OUTSIDE} >= {"kind.py", "source.py", "folder_catalog.py"}
    assert imported(
        "def f():\n    from vde_dagster.base import names\n    import vde_dagster.sql"
    ) == {
        "vde_dagster.base",
        "vde_dagster.sql",
    }
