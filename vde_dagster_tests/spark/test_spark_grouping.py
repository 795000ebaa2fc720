"""Spark's precedence, in examples; and that its canonical form is read back to itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.spark.our_grouping import canonical, our_grouping
from vde_dagster_tests.spark.spark_grouping import (
    BINARY,
    POSTFIX,
    PREFIX,
    groupings,
    long_texts,
    pairs,
    spark_grouping,
    triples,
)

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]


@pytest.fixture(scope="module")
def session(spark_engine: SparkEngine) -> Any:
    return spark_engine.session


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a || b || c", "(a || b || c)"),
        ("a AND b OR c AND d AND e", "((a AND b) OR (c AND d AND e))"),
        ("NOT a = b", "(NOT (a = b))"),
        ("a <> b", "(NOT (a = b))"),
        ("a BETWEEN b AND c AND d", "(between(a, b, c) AND d)"),
        ("- a :: STRING", "(- CAST(a AS STRING))"),
        ("a IS NOT DISTINCT FROM b", "(a <=> b)"),
        ("a : f . g", "a:f.g"),
        ("a . f [x]", "a.f[x]"),
        ("a IN (b, c)", "(a IN (b, c))"),
    ],
)
def test_the_canonical_form(session: Any, text: str, grouped: str) -> None:
    assert spark_grouping(session, text) == grouped


def test_what_cannot_be_parsed(session: Any) -> None:
    for text in ("a +", "a = NOT b", "a + b AS c", "a IN (b) = c", "a IS NULL IS NULL"):
        with pytest.raises(ValueError):
            spark_grouping(session, text)


def test_there_are_texts_for_every_operator(session: Any) -> None:
    found = groupings(session, pairs())
    parsed = [text for text, grouping in found.items() if grouping is not None]
    print(f"{len(found)} pairs, {len(parsed)} of them parse; {len(triples())} triples")
    for op in BINARY:
        assert any(f" {op} " in text for text in parsed), op
    for op in (*PREFIX, *POSTFIX):
        assert any(op in text for text in parsed), op
    unknown = [g for g in found.values() if g is not None and "(" in g and "Unresolved" in g]
    assert unknown == []


def test_the_canonical_form_means_itself(session: Any) -> None:
    """Brackets leave nothing to precedence, so Spark reads the form as what it was made from."""
    texts = random.Random(1).sample([*pairs(), *triples()], 400)
    for text, grouping in groupings(session, texts).items():
        if grouping is not None:
            assert spark_grouping(session, grouping) == grouping, text


def test_every_pair_and_triple_is_grouped_as_spark_does(session: Any) -> None:
    """What is left open makes a query opaque; nothing that Spark can parse is refused."""
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    texts = [*pairs(), *rng.sample(triples(), 1500), *long_texts(rng, 400)]
    wrong: list[str] = []
    alike = left_open = 0
    for text, spark in groupings(session, texts).items():
        if spark is None:
            continue
        ours = our_grouping(text)
        if ours == "":
            left_open += 1
        elif ours is not None and canonical(ours) == canonical(spark):
            alike += 1
        else:
            wrong.append(f"{text}: {spark} there, {ours} here")
    print(f"{alike} groupings alike, {left_open} left open")
    assert not wrong, f"seed {seed}:\n" + "\n".join(wrong)
    assert alike > 5 * left_open
