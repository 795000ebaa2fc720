"""Models have audits."""

from __future__ import annotations

from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation


def check(linted: Linted) -> Iterator[Violation]:
    """Find a model without audits; what is only a part of other queries can have none."""
    if linted.model.kind.is_shown and not linted.model.audits:
        yield linted.violation("has no audits")
