"""Variants near the rules of versions on Spark: those of one version have one answer."""

from __future__ import annotations

import random

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.spark.variant_search import MODES, Mode, search

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]

VARIANTS = 90


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_variants_of_one_version_have_one_answer(spark_engine: SparkEngine, mode: Mode) -> None:
    seed = random.randrange(10**9)
    found = search(spark_engine.session, seed, VARIANTS, mode)
    print(f"seed {seed}: {found.compared.total()} of {found.tried} variants have one version")

    assert found.wrong == [], f"seed {seed}: " + "\n".join(found.wrong)
    assert found.compared.total() > VARIANTS / 10, f"seed {seed}"


def test_a_rule_that_ignores_types_is_found(
    spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparisons that convert are taken for such that do not."""
    monkeypatch.setattr(
        "vde_dagster.semantics.simplify.facts.Facts.comparable", lambda *given: True
    )

    assert any(search(spark_engine.session, seed, 300, MODES[1]).wrong for seed in range(3))
