"""What the janitor decided, for people."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from vde_dagster.cli.output import simple_table
from vde_dagster.cli.plan_view import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from vde_dagster.lakehouse.cleaning import Decision
from vde_dagster.lakehouse.janitor import JanitorReport


def show_janitor(console: Console, report: JanitorReport) -> None:
    """Print what is done with its reason, and what that frees; the JSON form says what is kept."""
    acted = report.acted
    rows = [
        (
            decision.action.replace("_", " "),
            subject,
            decision.error or decision.reason,
            decision.outcome,
            size(decision.bytes),
        )
        for decision, subject in _lines(acted)
    ]
    if rows:
        console.print(simple_table(("action", "subject", "reason", "outcome", "size"), rows))
    verb = "would free" if report.dry_run else "freed"
    failed = len(report.failures)
    kept = len(report.decisions) - len(acted)
    console.print(
        f"{verb} {size(report.bytes) or '0 B'} in {count(len(acted), 'step')}, keeps {kept}"
        + (f"; [red]{failed} failed, the next run tries again[/]" if failed else "")
    )


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


def size(number: int | None) -> str:
    """Write a number of bytes for people: `1.5 MB`."""
    if number is None:
        return ""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
