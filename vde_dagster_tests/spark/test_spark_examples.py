"""Every documented example of Spark's functions means the same when the package has read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.spark.registry import EVERYTHING, settings
from vde_dagster_tests.spark.spark_examples import documented_examples, run_examples

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]


def test_examples_come_out_alike(spark_engine: SparkEngine, tmp_path: Path) -> None:
    session = spark_engine.session
    assert session is not None
    with settings(session, EVERYTHING):
        examples = documented_examples(session)
        assert len(examples) > 1000
        report = run_examples(session, tmp_path, examples)
    print(report.figures())
    for text, message in report.failing.items():
        print(f"fails on Spark: {text}: {message}")
    assert len(report.failing) < 30
    assert report.differences == (), f"{report.figures()}\n" + "\n".join(
        map(str, report.differences)
    )
