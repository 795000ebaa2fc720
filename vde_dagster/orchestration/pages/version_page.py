"""What versions of an environment changed, as Markdown: this one's data, and the last versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vde_dagster.orchestration.names import Names
from vde_dagster.orchestration.pages.links import partition_link, short_name
from vde_dagster.orchestration.pages.markdown import spans
from vde_dagster.orchestration.pages.markdown_table import markdown_table

if TYPE_CHECKING:
    from vde_dagster.execution.version_changes import DataChange, VersionChange

MAX_TABLES = 50
MAX_RANGES = 3
LISTED = 20
"""How many versions the page of an environment lists."""


def data_text(change: VersionChange) -> str:
    """Say which tables' data a version changed: intervals, rows, rows added and removed.

    Args:
        change: The version.
    """
    if not change.data:
        return "No data changed."
    rows = [
        {
            "table of": ", ".join(short_name(name) for name in table.models[:MAX_RANGES]),
            "intervals (UTC)": spans(table.intervals, MAX_RANGES),
            "rows": _number(table.rows),
            "added": _number(table.added) if not table.is_new else _whence(table),
            "removed": "" if table.is_new else _number(table.removed),
        }
        for table in change.data[:MAX_TABLES]
    ]
    text = markdown_table(rows)
    more = len(change.data) - MAX_TABLES
    return f"{text}\n\n… and {more} more" if more > 0 else text


def history_text(changes: Sequence[VersionChange], names: Names) -> str:
    """List versions, newest first, with what each changed, as `vde history` does.

    Args:
        changes: The versions.
        names: The project's names, for links to plans.
    """
    return markdown_table(
        [
            {
                "version": change.version.version,
                "published (UTC)": f"{change.version.published_at:%Y-%m-%d %H:%M}",
                "changed": change.what,
                "models": _models(change),
                "data": _data(change.data),
                "why": _why(change, names),
            }
            for change in changes[:LISTED]
        ]
    )


def _models(change: VersionChange) -> str:
    version = change.version
    parts = ((version.added, "added"), (version.changed, "changed"), (version.removed, "removed"))
    return ", ".join(f"{number} {what}" for number, what in parts if number)


def _data(tables: Sequence[DataChange]) -> str:
    moved = [table for table in tables if not table.is_new]
    back = sum(table.is_back for table in tables)
    new = len(tables) - len(moved) - back
    parts = []
    if moved:
        known = [(one.added, one.removed) for one in moved]
        rows = ""
        if all(added is not None for added, _ in known):
            added, removed = (sum(one or 0 for one in side) for side in zip(*known, strict=True))
            rows = f", +{added:,} −{removed:,} rows"  # noqa: RUF001
        parts.append(f"{len(moved)} table{'' if len(moved) == 1 else 's'}{rows}")
    if new:
        parts.append(f"{new} new")
    if back:
        parts.append(f"{back} earlier")
    return "; ".join(parts)


def _why(change: VersionChange, names: Names) -> str:
    version = change.version
    if version.dropped:
        return "dropped"
    if version.plan_id:
        link = partition_link(names.plan_key, version.plan_id, "plan")
        return link if version.note in ("", "plan") else f"{version.note} {link}"
    return version.note


def _whence(table: DataChange) -> str:
    return "earlier table" if table.is_back else "new table"


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"
