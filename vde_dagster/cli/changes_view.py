"""Changes of a model, for JSON and for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vde_dagster.cli.output import simple_table
from vde_dagster.cli.plan_view import count
from vde_dagster.cli.rows_view import rows_json, show_rows

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.base.names import ModelName
    from vde_dagster.execution.changes.reading import ArrowChanges, FoundChanges
    from vde_dagster.planning.changes.columns import ColumnEvent
    from vde_dagster.state.change_cursors import ChangeCursor

_SHOWN, _SHOWN_OF_STEPS = ("_change_type",), ("_change_type", "_version")
"""Of the columns in front, those that differ within one answer: the table shows no others."""


def changes_json(found: FoundChanges) -> dict[str, Any]:
    """Return the documented JSON form of changes."""
    changes = found.changes
    cursor = None
    if found.cursor is not None:
        cursor = {"name": found.cursor, "ack": _ack(found)}
    return {
        **changes.to_json(),
        **rows_json(changes.columns, found.rows),
        "more": found.more,
        "cursor": cursor,
    }


def cursors_json(
    environment: str, model: ModelName, last: int | None, cursors: Iterable[ChangeCursor]
) -> dict[str, Any]:
    """Return the documented JSON form of a model's cursors.

    Args:
        environment: The environment.
        model: The model.
        last: The environment's current version; None where it is gone.
        cursors: The cursors.
    """
    return {
        "environment": environment,
        "model": str(model),
        "current": last,
        "cursors": [
            {
                "name": one.name,
                "version": one.version,
                "behind": last - one.version if last is not None else None,
                "moved_at": one.moved_at.isoformat(),
                "moved_by": one.moved_by,
            }
            for one in cursors
        ],
    }


def show_cursors(console: Console, found: dict[str, Any]) -> None:
    """Print a model's cursors as a table, from their JSON form."""
    columns = ("name", "version", "behind", "moved_at", "moved_by")
    rows = [[one[column] for column in columns] for one in found["cursors"]]
    if rows:
        console.print(simple_table(("cursor", *columns[1:]), rows))
    else:
        console.print(f"no cursor of {found['model']} in '{found['environment']}' was moved yet")


def show_changes(console: Console, found: FoundChanges) -> None:
    """Print changes as a table, and what changed of the columns above it."""
    changes = found.changes
    for event in changes.events:
        console.print(_said(event), markup=False)
    if changes.method == "resync":
        text = f"read {changes.model} of version {changes.until} anew: {changes.why}"
        console.print(text, markup=False, soft_wrap=True)
    elif not found.rows:
        console.print("no row changed")
    else:
        kept = [
            i
            for i, (name, _) in enumerate(changes.columns)
            if name in (_SHOWN_OF_STEPS if changes.steps else _SHOWN)
            or i >= len(changes.columns) - _own(found)
        ]
        columns = [changes.columns[i] for i in kept]
        show_rows(console, columns, [tuple(row[i] for i in kept) for row in found.rows])


def changes_notes(found: FoundChanges | ArrowChanges, rows: int) -> Iterator[str]:
    """Yield what is said to people behind the rows, by their number."""
    changes = found.changes
    versions = f"from version {changes.since} to {changes.until} of '{changes.environment}'"
    if changes.method != "resync":
        more = ", and there are more" if found.more else ""
        yield f"[dim]{count(rows, 'change')} {versions}{more}[/]"
    ack = _ack(found)
    if ack is not None:
        yield f"[dim]when you have them: --cursor {found.cursor} --ack {ack}[/]"


def _ack(found: FoundChanges | ArrowChanges) -> str | None:
    """Return what a consumer acknowledges; None where nobody may, or not all was read."""
    if found.cursor is None or found.more:
        return None
    return f"{found.changes.since}-{found.changes.until}"


def _own(found: FoundChanges) -> int:
    from vde_dagster.planning.changes.query import MARKS

    return len(found.changes.columns) - len(MARKS)


def _said(event: ColumnEvent) -> str:
    if event.what == "renamed":
        return f"column {event.was} is {event.column} now"
    if event.what == "retyped":
        return f"column {event.column} was {event.was} and is {event.becomes} now"
    if event.what == "added":
        return f"column {event.column} ({event.becomes}) is new, and NULL where no change says else"
    return f"column {event.column} is gone"
