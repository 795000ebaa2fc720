"""Models are not due more often than what they read."""

from __future__ import annotations

from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation


def check(linted: Linted) -> Iterator[Violation]:
    """Find parents with longer intervals than their reader's."""
    own = linted.snapshot.cadence.unit
    for name, parent in linted.parents.items():
        timed = parent.model.kind.by_intervals
        if timed and parent.cadence.unit.value > own.value:
            yield linted.violation(
                f"has intervals of a {_words(own.name)}, and reads {name}, which has those of a "
                f"{_words(parent.cadence.unit.name)}",
                "cron",
            )


def _words(unit: str) -> str:
    return unit.lower().replace("_", " ")
