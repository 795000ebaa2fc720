"""What a plan calls no Spark SQL is what Spark's parser refuses, and nothing else."""

from __future__ import annotations

from itertools import islice

import pytest

from vde_dagster.spark import SparkEngine
from vde_dagster_tests.semantics.corpus import QUERIES
from vde_dagster_tests.semantics.mutated_queries import mutated
from vde_dagster_tests.spark.grammar_search import compare_with_spark, seeded
from vde_dagster_tests.spark.spark_examples import documented_examples

pytestmark = pytest.mark.spark


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
