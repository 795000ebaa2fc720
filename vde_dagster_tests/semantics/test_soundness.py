"""Random queries and edits of them, run on DuckDB: equal versions must mean equal results."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.simplify import empty_relations, joins
from vde_dagster_tests.semantics import mutations
from vde_dagster_tests.semantics.random_queries import SCHEMA, Queries
from vde_dagster_tests.semantics.soundness import Checker, UnsoundError

SEEDS = (101, 102, 103, 104)


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_equal_versions_have_equal_results(seed: int) -> None:
    tally = Checker(seed).run(250)
    print(f"seed {seed}: {tally.queries} queries, {tally.compared} comparisons")
    assert tally.pairs >= 250
    assert tally.compared >= 50
    assert sum(tally.opaque.values()) < tally.queries / 4


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", [201, 202])
def test_rewritten_queries_have_equal_results(seed: int) -> None:
    """Most of these pairs are equal by a rule of `semantics.simplify` alone."""
    tally = Checker(seed).run_dense(1500)
    print(f"seed {seed}: {tally.queries} queries, {tally.compared} comparisons")
    assert tally.compared >= 300
    assert not [why for why in tally.opaque if why.startswith("not understood")]


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", [301, 302])
def test_numbers_of_all_types_change_nothing_about_that(seed: int) -> None:
    tally = Checker(seed, other_types=True).run(150)
    dense = Checker(seed, other_types=True).run_dense(500)
    print(f"seed {seed}: {tally.compared} comparisons, {dense.compared} of few words")
    assert tally.compared >= 50
    assert dense.compared >= 50


@pytest.mark.parametrize(
    ("module", "rule"),
    [
        (joins, "_rejects_nulls"),
        (joins, "_is_same_row"),
        (empty_relations, "_keeps_no_rows"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__.rsplit(".", 1)[-1],
)
def test_a_wrong_rewriting_is_found(
    module: ModuleType, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, rule, lambda *given: True)
    with pytest.raises(UnsoundError):
        Checker(201).run_dense(4000)


def test_the_check_can_fail() -> None:
    """Two queries that differ, given one version, are told apart."""
    checker = Checker(1)
    one = checker.check("SELECT k FROM a")
    assert one is not None
    two = checker.check("SELECT k FROM a WHERE k > 9")
    assert two is not None
    two.version = one.version
    with pytest.raises(AssertionError, match="unequal results"):
        checker._compare(one, two)


KEPT = [
    mutations.swap_operands,
    mutations.flip_comparison,
    mutations.between_to_and,
    mutations.wrap_table,
    mutations.add_parentheses,
]


@pytest.mark.parametrize("edit", KEPT, ids=lambda edit: edit.__name__)
def test_edits_that_keep_the_meaning_keep_the_version(edit: mutations.Edit) -> None:
    rng = random.Random(7)
    tried = 0
    while tried < 60:
        text, _ = Queries(rng).query()
        before = analyze(text, SCHEMA).version
        tree = edit(mutations.parse_one(text, dialect="spark"), rng)
        if tree is None or before.opaque:
            continue
        tried += 1
        edited = tree.sql("spark")
        assert analyze(edited, SCHEMA).version == before, (text, edited)
