"""What the rules for expressions take for one, computed by Spark on values at types' edges."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.semantics.optimizer_pairs import PAIRS, SCHEMA, Pair
from vde_dagster_tests.spark.random_pairs import quick_session
from vde_dagster_tests.spark.random_values import answers, compare_random_expressions, make_tables

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]

AT_ONCE = 25


@pytest.fixture(scope="module", params=["errors", "no errors"])
def session(spark_engine: SparkEngine, request: pytest.FixtureRequest) -> Any:
    """Tables in ANSI mode; without it, tables of values that overflow."""
    session = quick_session(spark_engine.session)
    ansi = request.param == "errors"
    session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    make_tables(session, SCHEMA, 3, overflow=not ansi)
    return session


def test_pairs_of_one_version_have_one_answer(session: Any) -> None:
    assert not _wrong(session)


def test_pairs_of_one_version_have_one_answer_where_tables_are_empty(
    spark_engine: SparkEngine,
) -> None:
    session = quick_session(spark_engine.session)
    make_tables(session, SCHEMA, 3, overflow=False)
    for name in SCHEMA:
        schema = session.table(name).schema
        session.createDataFrame([], schema).createOrReplaceTempView(name)
    assert not _wrong(session)


ZONES = ("America/Sao_Paulo", "Australia/Lord_Howe", "UTC")
SPELLINGS = (
    *("numbers-of-other-types", "instants-beside-times", "units-and-intervals", "texts"),
    "quotients-and-ranges",
)
"""Sections of the fixture whose rules know of literals: time zones might tell them apart."""


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_spellings_of_one_version_have_one_answer_in_every_time_zone(
    spark_engine: SparkEngine, ansi: str
) -> None:
    session = quick_session(spark_engine.session)
    session.conf.set("spark.sql.ansi.enabled", ansi)
    pairs = [pair for pair in PAIRS if pair.name.startswith(SPELLINGS)]
    assert len(pairs) > 60
    for zone in ZONES:
        session.conf.set("spark.sql.session.timeZone", zone)
        make_tables(session, SCHEMA, 5, overflow=ansi == "false")
        assert not _wrong(session, pairs), zone


def _wrong(session: Any, pairs: Sequence[Pair] = PAIRS) -> str:
    """The pairs whose answers differ."""
    alike = [pair for pair in pairs if pair.apart is None]
    wrong = []
    for start in range(0, len(alike), AT_ONCE):
        some = alike[start : start + AT_ONCE]
        found = answers(session, [query for pair in some for query in (pair.one, pair.other)])
        for pair, one, other in zip(some, found[::2], found[1::2], strict=True):
            if one != other:
                wrong.append(f"{pair.name}:\n  {pair.one}\n  {pair.other}\n  {one}\n  {other}")
    return "\n".join(wrong)


def test_random_expressions_of_one_version_have_one_value(session: Any) -> None:
    seed = random.randrange(10**9)
    found = compare_random_expressions(session, SCHEMA["t"], seed, 600)
    assert found.wrong == (), f"seed {seed}: " + "\n".join(found.wrong)
    assert found.compared > 100, f"seed {seed}"
