"""What the documentation says of the code is there: files that it names, examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`((?:vde_dagster|vde_dagster_tests|benchmarks|docs|models)/[\w/.]*)`")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
EXAMPLE = re.compile(r"^\s*>>> ", re.MULTILINE)
INSTALL = re.compile(r"pip install '(vde-dagster[^']*)'")
LINK = re.compile(r"\]\(([\w/.-]+)(?:#[\w-]+)?\)")


def _examples() -> list[str]:
    files = sorted((ROOT / "vde_dagster").rglob("*.py"))
    named = [
        path.relative_to(ROOT).with_suffix("") for path in files if EXAMPLE.search(path.read_text())
    ]
    return [".".join(path.parts) for path in named]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_links_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text()
    named = {path for path in NAMED.findall(text) if not (ROOT / path).exists()}
    if page.name == "tutorial.md":  # its models are those of a new project; test_tutorial runs it
        named = {path for path in named if not path.startswith("models/")}
    links = {path for path in LINK.findall(text) if not (page.parent / path).exists()}
    assert (named, links) == (set(), set())


def test_this_package_is_installed_as_it_can_be_from_no_index() -> None:
    texts = [*PAGES, *(ROOT / "vde_dagster").rglob("*.py"), *(ROOT / "models").rglob("*.py")]
    said = [(path.name, how) for path in texts for how in INSTALL.findall(path.read_text())]
    assert len(said) >= 4
    assert [one for one in said if not one[1].endswith(" @ git+URL")] == []


@pytest.mark.parametrize("module", _examples())
def test_examples_in_docstrings_are_true(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def test_there_are_examples_where_words_alone_are_hard_to_read() -> None:
    assert {
        "vde_dagster.base.hashing",
        "vde_dagster.planning.environments.resolver",
        "vde_dagster.project.loading.load",
        "vde_dagster.semantics.versions.digests",
        "vde_dagster.sql.query_text",
    } <= set(_examples())
