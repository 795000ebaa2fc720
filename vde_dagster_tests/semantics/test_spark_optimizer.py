"""What Spark's optimiser simplifies: which pairs have one version, see the fixture."""

from __future__ import annotations

from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.session import Session
from vde_dagster_tests.corpora import each_of
from vde_dagster_tests.semantics.optimizer_pairs import PAIRS, SCHEMA, Pair

ASSUMED = Session(has_zoned_timestamps=True)


@each_of("pair", PAIRS)
def test_a_pair_has_one_version_unless_it_says_why_not(pair: Pair) -> None:
    one, other = (
        analyze(query, SCHEMA, session=ASSUMED).version for query in (pair.one, pair.other)
    )
    assert one.opaque is None
    assert other.opaque is None
    alike = one.rows == other.rows and list(one.columns.values()) == list(other.columns.values())
    assert alike is (pair.apart is None)


def test_more_than_half_of_them_are_recognised() -> None:
    assert sum(pair.apart is None for pair in PAIRS) / len(PAIRS) > 0.5
