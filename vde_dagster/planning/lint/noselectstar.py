"""Queries name their columns."""

from __future__ import annotations

from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation
from vde_dagster.planning.lint.projections import outermost


def check(linted: Linted) -> Iterator[Violation]:
    """Find a star among the outermost columns of a query."""
    if any(column.is_star for column in outermost(linted.tree)):
        yield linted.violation("selects * instead of naming its columns")
