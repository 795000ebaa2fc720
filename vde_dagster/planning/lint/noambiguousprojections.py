"""Outermost columns have names, and different ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation
from vde_dagster.planning.lint.projections import first_side


def check(linted: Linted) -> Iterator[Violation]:
    """Find columns without a name, or with that of another."""
    columns = [column for column in first_side(linted.tree) if not column.is_star]
    names = [column.output_name.lower() for column in columns]
    for place, name in enumerate(names, start=1):
        if not name:
            yield linted.violation(f"has a column without a name, at position {place}")
    for name, count in Counter(filter(None, names)).items():
        if count > 1:
            yield linted.violation(f"selects {count} columns of the name '{name}'")
