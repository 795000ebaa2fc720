"""The versions of an environment, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.cli.output import simple_table
from vde_dagster.cli.plan_view import count
from vde_dagster.cli.shapes import instant_json, short_time

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.version_changes import DataChange, VersionChange

_HEADERS = (
    "version",
    "published (UTC)",
    "by",
    "plan",
    "added",
    "changed",
    "removed",
    "data",
    "note",
)


def history_json(environment: str, changes: Sequence[VersionChange]) -> dict[str, Any]:
    """Return the documented JSON form."""
    return {
        "environment": environment,
        "versions": [
            {
                "version": change.version.version,
                "published_at": instant_json(change.version.published_at),
                "published_by": change.version.published_by,
                "plan": change.version.plan_id,
                "note": change.version.note,
                "added": change.version.added,
                "changed": change.version.changed,
                "removed": change.version.removed,
                "dropped": change.version.dropped,
                "changes": change.what,
                "data": [table.to_json() for table in change.data],
            }
            for change in changes
        ],
    }


def show_history(console: Console, changes: Sequence[VersionChange]) -> None:
    """Print a line a version."""
    rows = [
        (
            change.version.version,
            short_time(change.version.published_at),
            change.version.published_by,
            change.version.plan_id,
            change.version.added,
            change.version.changed,
            change.version.removed,
            _data(change.data),
            "dropped" if change.version.dropped else change.version.note,
        )
        for change in changes
    ]
    console.print(simple_table(_HEADERS, rows))


def _data(tables: Sequence[DataChange]) -> str:
    """Sum up what happened to tables: `3 tables +10 -2, 1 new table, 1 earlier table`."""
    moved = [table for table in tables if not table.is_new]
    parts = []
    if moved:
        known = [(table.added, table.removed) for table in moved]
        rows = ""
        if all(added is not None for added, _ in known):
            rows = f" +{sum(a or 0 for a, _ in known)} -{sum(r or 0 for _, r in known)}"
        parts.append(count(len(moved), "table") + rows)
    back = sum(table.is_back for table in tables)
    new = len(tables) - len(moved) - back
    parts += [
        count(many, what) for many, what in ((new, "new table"), (back, "earlier table")) if many
    ]
    return ", ".join(parts)
