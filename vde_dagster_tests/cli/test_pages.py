"""Messages name pages of the documentation by `vde help`, because a wheel has no folder docs/."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.cli.help import read_pages

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


_PAGE = r"vde help \w|\bdocs/\w+\.md"
"""Names of pages, in texts."""


def _texts() -> Iterator[tuple[str, str]]:
    """Yield texts that a user may read, with their files, from files that name a page.

    Docstrings of commands are their help.
    """
    for path in (ROOT / "vde_dagster").rglob("*.py"):
        text = path.read_text()
        # A text may continue in the next literal; parsing all of the package takes seconds.
        if not re.search(_PAGE, re.sub(r"""["']\s*[a-z]{0,2}["']""", "", text)):
            continue
        tree = ast.parse(text)
        silent = {
            id(node.value)
            for parent in ast.walk(tree)
            for node in _body(parent)
            if isinstance(node, ast.Expr) and not _is_command(path, parent)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in silent:
                continue
            if isinstance(node.value, str):
                yield str(path.relative_to(ROOT)), node.value


def _body(node: ast.AST) -> list[ast.stmt]:
    body = getattr(node, "body", ())
    return body if isinstance(body, list) else []


def _is_command(path: Path, node: ast.AST) -> bool:
    named = path.stem in ("command", "commands") or path.parent.name == "commands"
    return named and isinstance(node, ast.FunctionDef)


def test_messages_name_pages_that_the_installed_package_has() -> None:
    texts = list(_texts())
    named = [(where, name) for where, text in texts for name in re.findall(r"vde help (\w+)", text)]
    assert len(named) > 15
    assert {name for _, name in named} - {"COMMAND", "PAGE", "plan"} <= read_pages().keys()
    assert [found for found in texts if re.search(r"\bdocs/\w+\.md", found[1])] == []
