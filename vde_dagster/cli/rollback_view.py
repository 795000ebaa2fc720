"""What a rollback did or would do, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vde_dagster.cli.applying import failed_statements_json
from vde_dagster.cli.shapes import environment_json

if TYPE_CHECKING:
    from vde_dagster.execution.rollback import RollbackResult


def rollback_json(result: RollbackResult, *, dry_run: bool = False) -> dict[str, Any]:
    """Return plain JSON data; models are keys.

    Args:
        result: The rollback.
        dry_run: Whether nothing happened.
    """
    return {
        "environment": environment_json(result.environment),
        "restored": result.restored,
        "dry_run": dry_run,
        "definitions_only": result.definitions_only,
        "moved": {str(name): {"rows": rows} for name, rows in result.moved.items()},
        "held": [str(name) for name in result.held],
        "holding": {one: [str(name) for name in names] for one, names in result.holding.items()},
        "missing": {str(name): ranges.to_json() for name, ranges in result.missing.items()},
        "reverted": {str(one.name): one.to_json() for one in result.reverted},
        "failed_statements": failed_statements_json(result.failed_statements),
    }


def rollback_sentence(result: RollbackResult, *, dry_run: bool = False) -> str:
    """Say in a sentence of Rich's markup what happened, or would."""
    name, restored = f"[bold]{result.environment.name}[/]", f"version {result.restored}"
    if result.definitions_only:
        restored += ", in its definitions"
    if dry_run:
        return f"{name} would be at version {result.environment.version}, equal to {restored}"
    return f"{name} is at version {result.environment.version}, equal to {restored}"


def rollback_notes(result: RollbackResult) -> Iterator[str]:
    """Say what goes back, what is held, and what is to be computed."""
    if result.moved:
        yield f"data back as they were: {_listed(result.moved)}"
    if result.held:
        yield (
            f"held as they were, until the next plan or run of {result.environment.name}: "
            f"{_listed(result.held)}"
        )
    for other, names in result.holding.items():
        yield (
            f"{other} goes on showing what it showed of {_listed(names)}, "
            "until its next plan or run"
        )
    for one in result.reverted:
        yield f"{one.name} {'; '.join(one.sentences())}"
    if result.missing:
        yield (
            f"to be computed: {_listed(result.missing)}; "
            f"do so with: vde run {result.environment.name}"
        )


def _listed(names: Iterable[object]) -> str:
    texts = [str(name) for name in names]
    more = f" and {len(texts) - 20} more" if len(texts) > 20 else ""
    return ", ".join(texts[:20]) + more
