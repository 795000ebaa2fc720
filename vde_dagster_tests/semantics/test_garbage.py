"""What reading a query needs is freed by itself, so that thousands need no garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from vde_dagster.semantics.analysis import analyze

SCHEMA = {"a": {"id": "INT", "v": "INT"}, "b": {"id": "INT", "w": "INT"}}

QUERIES = {
    "a left join": "SELECT a.id, b.w FROM a LEFT JOIN b ON a.id = b.id",
    "a left join of a grouped query": """
        WITH c AS (SELECT id, MAX(v) AS v FROM a GROUP BY id)
        SELECT b.id, c.v FROM b LEFT JOIN c ON c.id = b.id""",
    "a full join": "SELECT a.id, b.w FROM a FULL JOIN b ON a.id = b.id",
    "windows in each other": """
        SELECT id, SUM(SUM(v) OVER (ORDER BY id)) OVER (PARTITION BY id) AS s
        FROM a GROUP BY id, v""",
    "a scalar subquery": "SELECT id, (SELECT MAX(w) FROM b) AS m FROM a",
    "a correlated subquery": "SELECT id, (SELECT MAX(w) FROM b WHERE b.id = a.id) AS m FROM a",
    "a union": "SELECT id, v FROM a UNION ALL SELECT id, w FROM b",
    "what is not understood": "SELECT my_function(a.id) AS x FROM a LEFT JOIN b ON a.id = b.id",
}


@pytest.fixture(scope="module", autouse=True)
def _older_objects_are_left_alone() -> Iterator[None]:
    """Let collections look at what a test makes, not at all that the tests before it keep."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_reading_a_query_leaves_no_circles_of_objects(query: str) -> None:
    analyze(query, SCHEMA)  # Fills what is kept for all queries.
    gc.collect()
    gc.disable()
    try:
        analyze(query, SCHEMA)
        assert gc.collect() == 0
    finally:
        gc.enable()
