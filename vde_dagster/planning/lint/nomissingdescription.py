"""Models have descriptions."""

from __future__ import annotations

from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation


def check(linted: Linted) -> Iterator[Violation]:
    """Find a model of which nothing is said to people."""
    if not linted.model.description:
        yield linted.violation("has no description")
