"""Pairs of queries near a rule of versions, which Spark answers differently."""

from __future__ import annotations

from typing import Any

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.semantics.near_rules import NEAR_PAIRS, SCHEMA
from vde_dagster_tests.spark.answers import ask
from vde_dagster_tests.spark.random_pairs import quick_session

pytestmark = pytest.mark.spark

_ROWS = {
    "e": "(1, 2, 2, 10L, '%a', DATE '2020-03-01', TIMESTAMP '2020-02-29 23:30:00', TIMESTAMP_NTZ "
    "'2020-02-29 23:30:00', 'EU', 'a', 5, TRUE), (2, 2, 1, 2L, 'x', DATE '2020-02-29', TIMESTAMP "
    "'2020-02-29 10:00:00', TIMESTAMP_NTZ '2020-02-29 10:00:00', 'EU', 'b', 7, FALSE), "
    "(3, NULL, 0, NULL, 'ba', NULL, NULL, NULL, 'US', 'b', 9, NULL), "
    "(4, 1, 1, 3L, NULL, NULL, NULL, NULL, 'US', 'c', 1, TRUE)",
    "u": "(1, 2, 5), (2, 1, 6), (3, NULL, 7)",
}
"""Rows as literals: Spark computes what stands over such before it simplifies conditions."""
_SETTINGS = {
    "ansi": {},
    "no ansi": {"spark.sql.ansi.enabled": "false"},
    "ntz": {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
}


def _session(engine: SparkEngine, mode: str) -> Any:
    session = quick_session(engine.session)
    for name, rows in _ROWS.items():
        columns = ", ".join(SCHEMA[name])
        made = session.sql(f"SELECT * FROM VALUES {rows} AS v({columns})")
        made.createOrReplaceTempView(name)
    for key, value in {"spark.sql.ansi.enabled": "true", **_SETTINGS[mode]}.items():
        session.conf.set(key, value)
    return session


@pytest.mark.parametrize("mode", _SETTINGS)
def test_spark_answers_queries_near_a_rule_differently(
    spark_engine: SparkEngine, mode: str
) -> None:
    session = _session(spark_engine, mode)
    alike = []
    for pair in NEAR_PAIRS:
        if pair.mode == mode:
            one, other = ask(session, pair.one), ask(session, pair.other)
            places = list(range(len(one.types)))
            if one.error == other.error and one.columns(places) == other.columns(places):
                alike.append(f"{pair.name}: {one}")
    assert not alike, "\n".join(alike)
