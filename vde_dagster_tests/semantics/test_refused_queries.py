"""Queries that Spark refuses for their types do not have the version of one that it answers."""

from __future__ import annotations

import pytest

from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.session import Session
from vde_dagster_tests.semantics.variants import PARENTS, SCHEMA

SESSION = Session(has_zoned_timestamps=True)
REFUSED = {
    "a cast that Spark has not, tried": (
        "SELECT id FROM t WHERE i = 1 OR TRY_CAST(i AS DATE) = NULL",
        "SELECT id FROM t WHERE i = 1 OR TRY_CAST(i AS BOOLEAN) = NULL",
    ),
    "the same of a date": (
        "SELECT id FROM t WHERE TRY_CAST(p AS INT) IS NULL OR TRUE",
        "SELECT id FROM t",
    ),
    "compared with itself": (
        "SELECT CASE WHEN TRY_CAST(h AS DECIMAL(4, 0)) < TRY_CAST(h AS DECIMAL(4, 0)) THEN i END "
        "AS x FROM t",
        "SELECT CASE WHEN h < h THEN i END AS x FROM t",
    ),
    "a cast of NULL of another type": (
        "SELECT CAST(NULL < i AS TIMESTAMP_LTZ) AS x FROM t",
        "SELECT CAST(NULL AS TIMESTAMP_LTZ) AS x FROM t",
    ),
    "the same, asked for NULL": (
        "SELECT CAST(CAST(NULL AS INT) AS DATE) IS NULL AS x FROM t",
        "SELECT TRUE AS x FROM t",
    ),
    "a FILTER without a type": (
        "SELECT sum(k) FILTER (WHERE CASE i WHEN 1 THEN NULL ELSE NULL END) AS x FROM t",
        "SELECT sum(k) FILTER (WHERE FALSE) AS x FROM t",
    ),
    "a WHERE without a type": (
        "SELECT id FROM t WHERE CASE WHEN b THEN NULL END",
        "SELECT id FROM t WHERE FALSE",
    ),
    "a star as several arguments": (
        "SELECT i FROM (SELECT i, min(*) AS o FROM t GROUP BY i)",
        "SELECT i FROM (SELECT i FROM t GROUP BY i)",
    ),
    "a LIMIT that is no INT": (
        "SELECT d FROM (SELECT d FROM t ORDER BY id LIMIT 1Y) LIMIT 0",
        "SELECT d FROM t ORDER BY id LIMIT 0",
    ),
    "an OFFSET that is no INT": (
        "SELECT d FROM (SELECT d FROM t ORDER BY id LIMIT 2 OFFSET 1L) LIMIT 0",
        "SELECT d FROM t ORDER BY id LIMIT 0",
    ),
}
ANSWERED = {
    "a text that is tried": (
        "SELECT id FROM t WHERE TRY_CAST(s AS DATE) = NULL",
        "SELECT id FROM t WHERE TRY_CAST(u AS INT) = NULL",
    ),
    "a number that is tried": (
        "SELECT id FROM t WHERE TRY_CAST(k AS INT) IS NULL OR TRUE",
        "SELECT id FROM t",
    ),
    "a cast of NULL": (
        "SELECT CAST(CAST(NULL AS INT) AS BIGINT) AS x FROM t",
        "SELECT CAST(NULL AS BIGINT) AS x FROM t",
    ),
    "a CASE with a type": (
        "SELECT id FROM t WHERE CASE WHEN b THEN FALSE END",
        "SELECT id FROM t WHERE FALSE",
    ),
}


def _have_one_version(one: str, other: str) -> bool:
    made = [analyze(q, SCHEMA, parents=PARENTS, session=SESSION).version for q in (one, other)]
    rows, columns = ({str(v) for v in found} for found in zip(*map(_parts, made), strict=True))
    return len(rows) == len(columns) == 1


def _parts(version: object) -> tuple[object, list[object]]:
    return version.rows, list(version.columns.values())  # type: ignore[attr-defined]


@pytest.mark.parametrize("pair", REFUSED.values(), ids=REFUSED)
def test_a_refused_query_has_a_version_of_its_own(pair: tuple[str, str]) -> None:
    assert not _have_one_version(*pair)


@pytest.mark.parametrize("pair", ANSWERED.values(), ids=ANSWERED)
def test_an_answered_query_keeps_its_version(pair: tuple[str, str]) -> None:
    assert _have_one_version(*pair)
