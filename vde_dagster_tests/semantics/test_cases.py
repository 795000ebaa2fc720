"""Pairs of queries in `fixtures/semantics/*.yaml`: what each edit changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.semantics.versions.version import SemanticVersion, leaf_version
from vde_dagster_tests.corpora import each_of
from vde_dagster_tests.yaml_files import read_yaml

FIXTURES = Path(__file__).parents[1] / "fixtures" / "semantics"
TABLES: dict[str, Any] = read_yaml(FIXTURES / "schema.yaml")
SCHEMA: dict[str, dict[str, str]] = TABLES["tables"]
PARENTS = {
    name: replace(leaf_version(name, SCHEMA[name]), unique_keys=tuple(map(frozenset, keys)))
    for name, keys in TABLES["keys"].items()
}


def load(name: str) -> list[Any]:
    """The cases of a file."""
    return [case for cases in read_yaml(FIXTURES / name).values() for case in cases]


def version(query: str) -> SemanticVersion:
    return analyze(query, SCHEMA, parents=PARENTS).version


@each_of("case", load("same.yaml") + load("open_stars.yaml"))
def test_same(case: list[str]) -> None:
    before, after = map(version, case)
    assert before.opaque is None
    assert after.opaque is None
    assert before.rows == after.rows
    assert sorted(before.columns.values()) == sorted(after.columns.values())


@each_of("case", load("rows.yaml"))
def test_rows_differ(case: list[str]) -> None:
    before, after = map(version, case)
    assert before.opaque is None
    assert after.opaque is None
    assert before.rows != after.rows


@each_of("case", load("columns.yaml"))
def test_columns_differ(case: list[Any]) -> None:
    before, after = version(case[0]), version(case[1])
    assert before.opaque is None
    assert after.opaque is None
    assert before.rows == after.rows
    shared = set(before.columns.values()) & set(after.columns.values())
    changed = {n for v in (before, after) for n, c in v.columns.items() if c not in shared}
    assert changed == set(case[2])


@each_of("case", load("opaque.yaml"))
def test_opaque(case: dict[str, str]) -> None:
    before, after = version(case["query"]), version(case["different"])
    assert before.opaque
    assert before.rows != after.rows
    assert not set(before.columns.values()) & set(after.columns.values())
    assert len(set(before.columns.values())) == len(before.columns)
    if "same" in case:
        assert version(case["same"]) == before


@each_of("case", read_yaml(FIXTURES / "errors.yaml"))
def test_mistakes(case: dict[str, Any]) -> None:
    with pytest.raises(SemanticError) as caught:
        version(case["query"])
    error = caught.value
    assert error.exit_code == 2
    for key in ("line", "column"):
        if key in case:
            assert getattr(error, key) == case[key]
    for word in case["words"]:
        assert word in str(error)
