"""Every hard case that the product has to get right has tests that are there and run.

`cases/<section>.yaml` maps a case to its tests: `path::function`, or for plans written as data
`planning/test_cases.py::<file>: <the case's words>`.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from vde_dagster_tests.corpora import each_of
from vde_dagster_tests.yaml_files import read_yaml

TESTS = Path(__file__).parent
SECTIONS = {
    "identity": [f"F{n:02d}" for n in range(1, 15)],
    "categories": [*(f"C{n:02d}" for n in range(1, 10)), "C09b", *(f"C{n}" for n in range(10, 23))],
    "intervals": [f"I{n:02d}" for n in range(1, 23)],
    "plans": [f"P{n:02d}" for n in range(1, 26)],
    "restatement": [f"R{n:02d}" for n in range(1, 11)],
    "state": [f"S{n:02d}" for n in range(1, 11)],
}
OPEN = {}
"""Cases that nothing shows yet, with why; one that gets a test leaves this list."""

CASES = [(section, case) for section, cases in SECTIONS.items() for case in cases]


@functools.cache
def table(section: str) -> dict[str, list[str]]:
    """The tests of a section, by case."""
    path = TESTS / "cases" / f"{section}.yaml"
    found: dict[str, list[str]] = read_yaml(path) if path.exists() else {}
    return found


@functools.cache
def functions(path: str) -> frozenset[str]:
    """The tests of a file that are not skipped."""
    tree = ast.parse((TESTS / path).read_text())
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if not any("skip" in ast.unparse(mark) for mark in node.decorator_list)
    )


@functools.cache
def plans(stem: str) -> frozenset[str]:
    """The cases of a file of plans written as data."""
    document = read_yaml(TESTS / "fixtures" / "planning" / f"{stem}.yaml")
    return frozenset(case["case"] for case in document["cases"])


@each_of("section, case", CASES)
def test_each_hard_case_has_tests_that_exist(section: str, case: str) -> None:
    named = table(section).get(case)
    assert bool(named) != (case in OPEN), f"{case} is open, or has tests"
    if case in OPEN:
        return
    assert named, f"cases/{section}.yaml names no test of {case}"
    for test in named:
        path, _, name = test.partition("::")
        stem, colon, words = name.partition(": ")
        if path == "planning/test_cases.py" and colon:
            assert words in plans(stem), test
        else:
            assert name in functions(path), test


def test_the_table_has_no_case_that_nobody_knows() -> None:
    for section, cases in SECTIONS.items():
        assert not set(table(section)) - set(cases)
