"""Equal versions against Spark's own answers: what is taken for one has to be one there."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.planning.rendering.render import replace_tables
from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.versions.version import SemanticVersion
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.semantics.test_cases import PARENTS, SCHEMA, TABLES
from vde_dagster_tests.spark.answers import Answer, ask, make_views, plain
from vde_dagster_tests.spark.random_pairs import (
    compare_dense_pairs,
    compare_random_pairs,
    quick_session,
    shared,
)
from vde_dagster_tests.yaml_files import read_yaml

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]

FIXTURES = Path(__file__).parents[1] / "fixtures" / "semantics"
QUERIES = 60


@pytest.fixture(scope="module")
def session(spark_engine: SparkEngine) -> Any:
    session = quick_session(spark_engine.session)
    make_views(session, SCHEMA, TABLES["keys"], random.Random(5))
    return session


def _cases(name: str) -> list[tuple[str, str, str]]:
    sections = read_yaml(FIXTURES / name)
    return [(section, *case[:2]) for section, cases in sections.items() for case in cases]


def _version(query: str) -> SemanticVersion:
    return analyze(query, SCHEMA, parents=PARENTS).version


def _run(session: Any, query: str) -> Answer:
    def view(name: Any) -> str | None:
        found = str(name) if str(name) in SCHEMA else name.name
        return f"SELECT * FROM `{found.replace('.', '_')}`" if found in SCHEMA else None

    return ask(session, replace_tables(plain(query), view))


def test_queries_of_equal_versions_have_equal_answers(session: Any) -> None:
    wrong = []
    for section, before, after in _cases("same.yaml"):
        if "BY NAME" in before or "current_timestamp" in before:
            continue  # Spark's SQL has no UNION BY NAME; the clock does not stand still.
        one, two = _version(before), _version(after)
        left, right = shared(one, two)
        first, second = _run(session, before), _run(session, after)
        if first.error or second.error:
            wrong.append(f"{section}: {first.error} and {second.error}\n  {before}\n  {after}")
        elif first.columns(left) != second.columns(right):
            wrong.append(f"{section}:\n  {before}\n  {after}\n  {first}\n  {second}")
    assert not wrong, "\n".join(wrong)


def test_queries_that_spark_answers_differently_have_other_versions(session: Any) -> None:
    wrong = []
    for section, before, after in _cases("spark_differs.yaml"):
        one, two = _version(before), _version(after)
        first, second = _run(session, before), _run(session, after)
        if one.rows == two.rows and one.columns == two.columns:
            wrong.append(f"{section}: one version\n  {before}\n  {after}")
        if first == second or (first.error and second.error):
            wrong.append(f"{section}: no difference\n  {before}\n  {after}\n  {first}")
    assert not wrong, "\n".join(wrong)


def test_random_queries_of_equal_versions_have_equal_answers(spark_engine: SparkEngine) -> None:
    seed = random.randrange(10**9)
    tally = compare_random_pairs(quick_session(spark_engine.session), seed, QUERIES)
    print(f"seed {seed}: {tally.compared} pairs compared")
    assert tally.wrong == (), f"seed {seed}: " + "\n".join(tally.wrong)
    assert tally.compared > QUERIES / 6, f"seed {seed}"


def test_random_queries_of_all_types_of_numbers_have_equal_answers(
    spark_engine: SparkEngine,
) -> None:
    """Floats that are equal and told apart by their texts, NaN, infinities, decimals, times."""
    seed = random.randrange(10**9)
    session = quick_session(spark_engine.session)
    tally = compare_random_pairs(session, seed, QUERIES // 2, other_types=True)
    dense = compare_dense_pairs(session, seed, QUERIES, other_types=True)
    print(f"seed {seed}: {tally.compared} and {dense.compared} pairs compared")
    assert tally.wrong + dense.wrong == (), f"seed {seed}: " + "\n".join(tally.wrong + dense.wrong)
    assert tally.compared + dense.compared > QUERIES / 12, f"seed {seed}"
