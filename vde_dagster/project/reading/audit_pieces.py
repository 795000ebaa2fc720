"""What queries of built-in audits have in common."""

from __future__ import annotations

Items = dict[str, tuple[str, ...]]
"""SQL texts by argument; a single value is a list of one."""


def rows_where(items: Items, failing: str) -> str:
    """Return the query of rows that fail, of those that `condition` holds for."""
    condition = items.get("condition")
    narrowed = f"({condition[0]}) AND ({failing})" if condition else failing
    return f"SELECT * FROM @this_model WHERE {narrowed}"


def narrowed_by(items: Items) -> str:
    """Return ` WHERE condition`, or nothing where the call has no condition."""
    condition = items.get("condition")
    return f" WHERE {condition[0]}" if condition else ""


def outside(items: Items, value: str) -> str:
    """Return the test that a value is outside `min_v` and `max_v`; NULL is no limit."""
    strict = items["inclusive"][0].upper() == "FALSE"
    low, high = items["min_v"][0], items["max_v"][0]
    tests = []
    if low.upper() != "NULL":
        tests.append(f"{value} {'<=' if strict else '<'} {low}")
    if high.upper() != "NULL":
        tests.append(f"{value} {'>=' if strict else '>'} {high}")
    return " OR ".join(tests) or "FALSE"
