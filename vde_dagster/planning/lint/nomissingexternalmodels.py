"""Tables that others write are declared."""

from __future__ import annotations

from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation


def check(linted: Linted) -> Iterator[Violation]:
    """Find tables that a model reads and nobody declares."""
    if linted.undeclared:
        names = ", ".join(map(str, linted.undeclared))
        yield linted.violation(
            f"reads what external_models.yaml does not declare: {names} "
            "(vde create-external-models writes it)"
        )
