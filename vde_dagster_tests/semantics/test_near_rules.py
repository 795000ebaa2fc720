"""Queries that a rewriting nearly takes for one have two versions."""

from __future__ import annotations

from vde_dagster.semantics.analysis import analyze
from vde_dagster_tests.corpora import each_of
from vde_dagster_tests.semantics.near_rules import NEAR_PAIRS, SCHEMA, NearPair


@each_of("pair", NEAR_PAIRS)
def test_queries_with_other_answers_have_other_versions(pair: NearPair) -> None:
    one, other = (analyze(query, SCHEMA).version for query in (pair.one, pair.other))

    assert (one.rows, [*one.columns.values()]) != (other.rows, [*other.columns.values()])
