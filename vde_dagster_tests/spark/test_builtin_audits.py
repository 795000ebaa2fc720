"""Spark finds the bad rows that the cases of the built-in audits say."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.project.loading.loader import load_project
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.project.builtin_audit_cases import CASES

pytestmark = pytest.mark.spark


def test_built_in_audits_find_the_same_rows_on_spark(
    spark_engine: SparkEngine, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for number, (call, _, _) in enumerate(CASES):
        header = f"MODEL (name a.m{number}, kind FULL, audits ({call}));"
        query = "SELECT 1 AS id, '' AS name, 1 AS x, 1 AS y"
        (folder / f"m{number}.sql").write_text(f"{header} {query}")
    project = load_project(tmp_path)
    counts = []
    for number, (_, rows, _) in enumerate(CASES):
        listed, limit, count = rows.partition(" LIMIT ")
        values = f"(SELECT * FROM VALUES {listed} AS t(id, name, x, y){limit}{count})"
        (audit,) = project.models[ModelName("a", f"m{number}")].audits
        query = audit.query.replace("@this_model", f"{values} AS m")
        counts.append(f"SELECT {number} AS number, COUNT(*) AS bad FROM ({query})")

    found = spark_engine.session.sql(" UNION ALL ".join(counts)).collect()

    bad = dict(sorted((row["number"], row["bad"]) for row in found))
    assert [(CASES[number][0], count) for number, count in bad.items()] == [
        (call, expected) for call, _, expected in CASES
    ]
