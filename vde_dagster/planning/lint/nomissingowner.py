"""Models have owners."""

from __future__ import annotations

from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation


def check(linted: Linted) -> Iterator[Violation]:
    """Find a model that nobody owns."""
    if not linted.model.owner:
        yield linted.violation("has no owner")
