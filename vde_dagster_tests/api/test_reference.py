"""The public API is complete, small, and described by its page."""

from __future__ import annotations

import vde_dagster
from vde_dagster_tests.api import reference

MOST_NAMES = 120


def test_every_name_has_a_docstring_and_an_example() -> None:
    without = []
    for module in reference.modules():
        short = module.__name__.rsplit(".", 1)[1]
        examples = reference.examples(short)
        assert sorted(examples) == sorted(module.__all__), short
        without += [name for name in module.__all__ if not reference.docstring(module, name)]
    assert without == []
    assert sorted(reference.examples("project_files")) == sorted(vde_dagster.__all__)


def test_the_api_stays_small() -> None:
    names = [name for module in reference.modules() for name in reference.public_names(module)]
    assert len(names) == len(set(names)) <= MOST_NAMES


def test_the_page_is_what_the_code_says() -> None:
    again = "python -m vde_dagster_tests.api.reference"
    assert reference.PAGE.read_text("utf-8") == reference.page(), f"write it anew: {again}"
