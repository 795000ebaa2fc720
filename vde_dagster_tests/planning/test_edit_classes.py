"""Everyday edits: nothing that changed is kept, and little that did not change is built."""

from __future__ import annotations

import pytest

from vde_dagster_tests.planning.edit_classes import Measured, measure_all
from vde_dagster_tests.planning.edit_classes_page import PAGE, page


@pytest.fixture(scope="module")
def measured() -> list[Measured]:
    return measure_all()


def test_every_table_that_a_rebuild_would_change_is_built(measured: list[Measured]) -> None:
    assert {e.title: sorted(e.needed - e.builds) for e in measured if e.needed - e.builds} == {}
    assert {e.title: sorted(e.wrong) for e in measured if e.wrong} == {}


def test_the_data_file_names_what_rebuilds_on_duckdb_show(measured: list[Measured]) -> None:
    claimed = {edit.title: sorted(edit.expected) for edit in measured}
    assert claimed == {edit.title: sorted(edit.needed) for edit in measured}


def test_nine_tenths_of_the_harmless_edits_build_nothing(measured: list[Measured]) -> None:
    harmless = [edit for edit in measured if edit.harmless]
    assert len(harmless) >= 30
    assert sum(not edit.builds for edit in harmless) >= 0.9 * len(harmless)


def test_the_set_of_28_edits_builds_42_models_or_fewer(measured: list[Measured]) -> None:
    marked = [edit for edit in measured if edit.in_set]
    assert len(marked) == 28
    assert sum(len(edit.builds) for edit in marked) <= 42


def test_at_least_40_classes_of_edits_are_documented(measured: list[Measured]) -> None:
    assert len({edit.title for edit in measured}) >= 40


def test_the_page_is_what_was_measured(measured: list[Measured]) -> None:
    assert PAGE.read_text() == page(measured), (
        "docs/edits.md is out of date: python -m vde_dagster_tests.planning.edit_classes"
    )
