"""Equal versions against Spark's own answers: what is taken for one has to be one there."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from vde_dagster.planning.render import replace_tables
from vde_dagster.semantics import SemanticVersion, leaf_version, semantic_version
from vde_dagster.spark import SparkEngine
from vde_dagster_tests.semantics import random_queries
from vde_dagster_tests.semantics.mutations import mutate
from vde_dagster_tests.semantics.test_cases import PARENTS, SCHEMA, TABLES
from vde_dagster_tests.spark.answers import Answer, ask, make_views, plain

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).parents[1] / "fixtures" / "semantics"
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # Generating code takes longer than nine rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
QUERIES = 60


def _session(engine: SparkEngine) -> Any:
    session = engine.session.newSession()
    for key, value in QUICK.items():
        session.conf.set(key, value)
    return session


@pytest.fixture(scope="module")
def session(spark_engine: SparkEngine) -> Any:
    session = _session(spark_engine)
    make_views(session, SCHEMA, TABLES["keys"], random.Random(5))
    return session


def _cases(name: str) -> list[tuple[str, str, str]]:
    sections = yaml.safe_load((FIXTURES / name).read_text())
    return [(section, *case[:2]) for section, cases in sections.items() for case in cases]


def _version(query: str) -> SemanticVersion:
    return semantic_version(query, SCHEMA, parents=PARENTS)


def _run(session: Any, query: str) -> Answer:
    def view(name: Any) -> str | None:
        found = str(name) if str(name) in SCHEMA else name.name
        return f"SELECT * FROM `{found.replace('.', '_')}`" if found in SCHEMA else None

    return ask(session, replace_tables(plain(query), view))


def _shared(one: SemanticVersion, two: SemanticVersion) -> tuple[list[int], list[int]]:
    """Where the columns of equal versions stand in either query."""
    left = {v: i for i, v in enumerate(one.columns.values())}
    right = {v: i for i, v in enumerate(two.columns.values())}
    both = sorted(left.keys() & right.keys())
    return [left[v] for v in both], [right[v] for v in both]


def test_queries_of_equal_versions_have_equal_answers(session: Any) -> None:
    wrong = []
    for section, before, after in _cases("same.yaml"):
        if "BY NAME" in before or "current_timestamp" in before:
            continue  # Spark's SQL has no UNION BY NAME; the clock does not stand still.
        one, two = _version(before), _version(after)
        left, right = _shared(one, two)
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
    rng = random.Random(seed)
    session = _session(spark_engine)
    make_views(session, random_queries.SCHEMA, {}, rng, rows=5)
    known = {name: leaf_version(name, types) for name, types in random_queries.SCHEMA.items()}
    compared = 0
    for _ in range(QUERIES):
        text, _ = random_queries.Queries(rng).query(1)
        changed = mutate(text, rng)
        if changed is None:
            continue
        try:
            one, two = (
                semantic_version(query, random_queries.SCHEMA, parents=known)
                for query in (text, changed[0])
            )
        except Exception:
            continue
        left, right = _shared(one, two)
        if one.rows != two.rows or not left:
            continue
        first, second = ask(session, text), ask(session, changed[0])
        if first.error or second.error:
            continue
        compared += 1
        assert first.columns(left) == second.columns(right), f"{seed}: {text}\n{changed[0]}"
    print(f"seed {seed}: {compared} pairs compared")
    assert compared > QUERIES / 6, f"seed {seed}"
