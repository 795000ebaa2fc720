"""Models have unit tests."""

from __future__ import annotations

from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation


def check(linted: Linted) -> Iterator[Violation]:
    """Find a model that no unit test is of; a seed has nothing to test."""
    model = linted.model
    if not linted.tested and (model.query is not None or model.python is not None):
        yield linted.violation("has no unit test")
