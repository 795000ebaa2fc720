"""Lineage beside the truth by hand: what columns are made of and decided by, and the rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.semantics.analysis import analyze
from vde_dagster_tests.yaml_files import read_yaml

CASES = read_yaml(Path(__file__).parents[1] / "fixtures" / "semantics" / "lineage.yaml")

SCHEMA = {
    "t": {
        **dict.fromkeys("abcd", "INT"),
        "s": "STRUCT<x: INT, y: INT>",
        "l": "ARRAY<INT>",
        "m": "MAP<STRING, INT>",
        "n": "STRING",
    },
    "u": dict.fromkeys("aef", "INT"),
}


def told(sources: Iterable[Any]) -> str:
    """Write sources as the fixture has them."""
    return ", ".join(sorted(f"{one.table}.{one.column} {one.kind}" for one in sources))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["it"])
def test_lineage_is_what_the_query_does(case: dict[str, str]) -> None:
    lineage = analyze(case["query"], SCHEMA).lineage
    found = {
        name: told((*sources, *lineage.conditions[name]))
        for name, sources in lineage.columns.items()
    }
    wanted = {name: text for name, text in case.items() if name not in ("it", "query", "rows")}
    assert found == wanted
    assert told(lineage.rows) == case.get("rows", "")
