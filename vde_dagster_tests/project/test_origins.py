"""Every character of a model's query knows where it came from in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import from_bytes, to_bytes
from vde_dagster_tests.project.conftest import WriteProject

HEADER = "MODEL (name a.m, kind FULL{});\n"


def model(root: Path) -> Model:
    return load_project(root).models[ModelName("a", "m")]


def places(found: Model, *words: str) -> list[str]:
    """The lines and columns of words, each the first one behind the word before."""
    told, at = [], 0
    for word in words:
        at = (found.query or "").index(word, at)
        place = found.place(at)
        told.append(f"{place.line}:{place.column}")
    return told


CASES = {
    "comments and lines": (
        "/* of\nall */ SELECT -- x\n  x,\n\n  'x\ny' AS x\nFROM t AS q",
        ["SELECT", "x", "'x", "AS x", "default", "t AS q"],
        ["3:8", "4:3", "6:3", "7:4", "8:6", "8:6"],
    ),
    "a macro": (
        "SELECT\n  @IF(true, one,\n    two) AS a, b\nFROM s.t",
        ["SELECT", "one", "AS a", "b", "s.t"],
        ["2:1", "3:3", "4:10", "4:16", "5:6"],
    ),
    "a time": (
        "SELECT 1 AS a FROM s.t\nWHERE d = @start_ds  AND e",
        ["d =", "@start_ds", "start", "AND", "e"],
        ["3:7", "3:11", "3:11", "3:22", "3:26"],
    ),
    "a temporary view": (
        "CREATE TEMPORARY VIEW v AS\nSELECT b FROM s.t;\nSELECT a\nFROM v",
        ["WITH", "v AS", "b", "SELECT a", "v"],
        ["2:1", "2:1", "3:8", "4:1", "5:6"],
    ),
    "Jinja": (
        "JINJA_QUERY_BEGIN;\nSELECT a,\n{% if true %}\n  b\n{% endif %}\nFROM s.t\nJINJA_END;",
        ["a", "b", "FROM"],
        ["3:1", "5:3", "7:1"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_place_of_the_query_is_one_of_the_file(case: str, write_project: WriteProject) -> None:
    text, words, told = CASES[case]
    root = write_project({"models/m.sql": HEADER.format("") + text})
    assert places(model(root), *words) == told
    assert places(model(root), *words) == told, "as the cache has it"


def test_words_of_another_dialect_have_their_places(write_project: WriteProject) -> None:
    text = 'SELECT "a"::int AS x,\n  "b" AS y\nFROM s.t'
    root = write_project({"models/m.sql": HEADER.format(", dialect duckdb") + text})
    assert places(model(root), "`a`", "x", "`b`", "y", "FROM") == [
        *("2:8", "2:20", "3:3", "3:10", "4:1"),
    ]


def test_origins_are_no_part_of_what_a_model_is(write_project: WriteProject) -> None:
    one = model(write_project({"models/m.sql": HEADER.format("") + "SELECT 1 AS a"}))
    stored = from_bytes(Model, to_bytes(one))
    assert stored.origins == one.origins != ()
    earlier = from_bytes(Model, to_bytes(one).replace(b"\xa7origins", b"\xa7earlier"))
    assert earlier == one
    assert earlier.place(3) == one.location
