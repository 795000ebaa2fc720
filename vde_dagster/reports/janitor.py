"""The report of the janitor: what it did and why, and what that freed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from vde_dagster.base.texts import count
from vde_dagster.reports.document import Cell, Mark, Row, Section
from vde_dagster.reports.texts import size

if TYPE_CHECKING:
    from vde_dagster.lakehouse.maintenance.cleaning import Decision
    from vde_dagster.lakehouse.maintenance.janitor import JanitorReport


def janitor_section(report: JanitorReport) -> Section:
    """Return what is done with its reason, under what it frees; the JSON form says what is kept."""
    acted, failed = report.acted, len(report.failures)
    verb = "would free" if report.dry_run else "freed"
    steps, kept = count(len(acted), "step"), len(report.decisions) - len(acted)
    title = f"{verb} {size(report.bytes) or '0 B'} in {steps}, keeps {kept}"
    if failed:
        title += f"; {failed} failed, the next run tries again"
    rows = tuple(
        Row(
            (
                Cell(decision.action.replace("_", " ")),
                Cell(subject),
                Cell(decision.error or decision.reason),
                Cell(decision.outcome),
                Cell(size(decision.bytes)),
            )
        )
        for decision, subject in _lines(acted)
    )
    columns = ("action", "subject", "reason", "outcome", "size")
    return Section(title, "", columns, rows, Mark.BAD if failed else Mark.PLAIN)


def _lines(decisions: Iterable[Decision]) -> Iterator[tuple[Decision, str]]:
    """Yield decisions with their subject; versions that go for one reason are one line."""
    for (_, environment, _), group in itertools.groupby(decisions, _sort):
        alike = list(group)
        if not environment or len(alike) == 1:
            yield from ((decision, decision.subject) for decision in alike)
            continue
        numbers = [decision.version[1] for decision in alike if decision.version]
        span = f"{min(numbers)} to {max(numbers)}"
        if len(numbers) != max(numbers) - min(numbers) + 1:
            span = f"{span}, {len(numbers)} of them"
        yield alike[0], f"{environment} versions {span}"


def _sort(decision: Decision) -> tuple[str, str, str]:
    environment = _environment(decision)
    return decision.action, environment, decision.reason if environment else ""


def _environment(decision: Decision) -> str:
    return decision.version[0] if decision.version else ""
