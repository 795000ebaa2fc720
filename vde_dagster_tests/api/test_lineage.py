"""Examples of the meaning of queries."""

from __future__ import annotations

from vde_dagster.api.lineage import analyze


def test_analyze() -> None:
    schema = {"raw.orders": {"id": "INT", "price": "DOUBLE"}}
    found = analyze("SELECT price * 2 AS double FROM raw.orders", schema)
    same = analyze("SELECT 2 * o.price AS double FROM raw.orders AS o", schema)
    assert found.version == same.version
