"""Models that have tables say what identifies a row."""

from __future__ import annotations

from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation


def check(linted: Linted) -> Iterator[Violation]:
    """Find a model without a grain."""
    if linted.model.kind.owns_table and not linted.model.grains:
        yield linted.violation("has no grain")
