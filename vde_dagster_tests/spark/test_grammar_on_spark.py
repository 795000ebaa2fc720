"""What a plan calls no Spark SQL is what Spark's parser refuses, and nothing else."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.semantics.corpus import QUERIES
from vde_dagster_tests.semantics.mutated_queries import mutated
from vde_dagster_tests.spark.grammar_search import compare_with_spark, seeded
from vde_dagster_tests.spark.spark_examples import documented_examples

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]


def test_mutated_queries_are_refused_where_spark_refuses_them(spark_engine: SparkEngine) -> None:
    examples = [example.text for example in documented_examples(spark_engine.session)]
    whole = compare_with_spark(spark_engine.session, [*QUERIES.values(), *examples])
    assert (whole.wrong, whole.accepted > 500) == ([], True)
    rng = seeded(20)
    mutants = islice(mutated(rng, [*list(QUERIES.values()) * 10, *examples]), 500)
    verdicts = compare_with_spark(spark_engine.session, mutants)
    assert verdicts.wrong == []
    assert verdicts.share >= 0.98, verdicts.missed
    assert verdicts.accepted > 50
    assert verdicts.found > 200


_COUNTS = ("1", "10", "-1", "+1", "- 2", "1.5", ".5", "1.", "0.1234567891", "a", "", "2147483648")
_UNITS = (
    "year",
    "months",
    "weeks",
    "DAY",
    "hour",
    "minutes",
    "second",
    "microsecond",
    "nanosecond",
)
_NUMBERS = ("0", "1", "5", "23", "24", "59", "60", "100", "05")
_SHAPES = ("{}-{}", "{} {}", "{} {}:{}", "{} {}:{}:{}", "{}:{}", "{}:{}:{}", "{}:{}.{}", "{}")
_YEARS, _MONTHS = ("2024", "2023", "1900", "-2024", "24"), ("1", "02", "2", "13", "4")
_HOURS = ("", "", " 10:11:12", "T1:2:3", " 24:00:00", " 10:11:12.5 +02:00", " 10", "T", " x", "Z")


def _literal(rng: random.Random) -> str:
    """A literal with a type before it, or what looks like one."""
    some = rng.choice
    parts = [(some(_COUNTS), some(_UNITS)) for _ in range(some((1, 1, 2)))]
    shape = some(_SHAPES)
    of_time = shape.format(*[some(_NUMBERS) for _ in range(shape.count("{}"))])
    day = "-".join(
        [some(_YEARS), some(_MONTHS), some(("1", "29", "30", "31", "32"))][: some((2, 3))]
    )
    return some(
        (
            "INTERVAL '" + some((" ", "")).join(f"{n} {unit}" for n, unit in parts) + "'",
            "INTERVAL " + " ".join(f"{n} {unit}" for n, unit in parts),
            "INTERVAL " + " ".join(f"{some(('', '-'))}'{n}' {unit}" for n, unit in parts),
            f"INTERVAL '{some(('', '-', ' '))}{of_time}' {some(_UNITS).rstrip('s')} TO "
            f"{some(('month', 'hour', 'minute', 'second'))}",
            f"{some(('DATE', 'TIMESTAMP', 'TIMESTAMP_NTZ'))} '{day}{some(_HOURS)}'",
            f"TIME '{of_time}'",
        )
    )


def test_literals_are_refused_where_spark_cannot_read_them(spark_engine: SparkEngine) -> None:
    rng = seeded(21)
    texts = dict.fromkeys(f"SELECT {_literal(rng)} AS x" for _ in range(1500))
    verdicts = compare_with_spark(spark_engine.session, texts)
    assert verdicts.wrong == []
    assert verdicts.share >= 0.98, verdicts.missed
    assert verdicts.accepted > 100
