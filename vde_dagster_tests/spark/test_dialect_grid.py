"""A part of the grid of other dialects: functions on the list have the engine's values on Spark."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from benchmarks.dialect_engines import Ask, asking, duckdb_engine, postgres_engine
from benchmarks.dialect_grid import run, templates
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.sql.other_dialects.verified import verified_functions
from vde_dagster_tests.spark.random_pairs import quick_session

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]
COUNT = 8


def engine(dialect: str, folder: Path) -> AbstractContextManager[Ask]:
    if dialect == "postgres":
        return postgres_engine(folder / "pg")
    return nullcontext(duckdb_engine())


@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_listed_functions_have_the_values_of_their_engine(
    spark_engine: SparkEngine, tmp_path: Path, dialect: str, seed: int
) -> None:
    session = quick_session(spark_engine.session)
    asked = random.Random(seed).sample(templates(dialect), COUNT)
    print(f"seed {seed}: {asked}")

    def collect(query: str) -> list[str | None] | None:
        try:
            return list(session.sql(query).collect()[0])
        except Exception:  # The grid asks for halves where a query fails.
            return None

    with engine(dialect, tmp_path) as ask:
        results = run(dialect, asked, ask, asking(collect), 4, seed)

    listed = verified_functions(dialect)
    wrong = [
        (result.template, result.different)
        for result in results
        if listed.issuperset(result.keys) and result.different
    ]
    assert sum(result.equal for result in results) > COUNT
    assert not [one for one in wrong if "0001-01-01" not in str(one[1])]
