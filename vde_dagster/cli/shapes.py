"""Environments, rows, changes and comparisons as documented JSON (docs/cli.md) and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from vde_dagster.base.json_values import json_value, text_value
from vde_dagster.base.texts import count
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.intervals.interval import iso
from vde_dagster.terminal.tables import show_rows, simple_table

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.base.names import ModelName
    from vde_dagster.execution.changes.reading import FoundChanges
    from vde_dagster.execution.environments.compare_tables import Comparison
    from vde_dagster.planning.changes.columns import ColumnEvent
    from vde_dagster.state.environments.changes import ChangeCursor
    from vde_dagster.state.environments.environments import EnvironmentSummary
    from vde_dagster.state.environments.mirror import MirrorStanding


def instant_json(value: datetime | None) -> str | None:
    return iso(value) if value is not None else None


def environment_json(environment: Environment | EnvironmentSummary) -> dict[str, Any]:
    return {
        "name": environment.name,
        "version": environment.version,
        "models": (
            len(environment.entries) if isinstance(environment, Environment) else environment.models
        ),
        "published_at": instant_json(environment.published_at),
        "published_by": environment.published_by,
        "plan": environment.plan_id,
        "expires_at": instant_json(environment.expires_at),
        "note": environment.note,
        "frozen": environment.frozen,
        "held": _held_tables(environment),
    }


def mirror_json(standing: MirrorStanding | None, now: datetime) -> dict[str, Any] | None:
    if standing is None:
        return None
    since = standing.since
    return {
        "views": standing.views,
        "behind": standing.behind,
        "since": instant_json(since),
        "seconds": int((now - since).total_seconds()) if since is not None else 0,
        "failure": standing.failure,
    }


def mirror_text(standing: MirrorStanding | None, now: datetime) -> str:
    """Return a mirror's state, such as `2 of 5 views outdated since … (for 0:05:00)`."""
    if standing is None or standing.since is None:
        return str(standing or "")
    seconds = int((now - standing.since).total_seconds())
    return f"{standing} (for {timedelta(seconds=seconds)})"


def _held_tables(environment: Environment | EnvironmentSummary) -> int:
    if environment.frozen is not None:
        return 0
    if not isinstance(environment, Environment):
        return environment.held
    return sum(entry.held is not None for entry in environment.entries.values())


def rows_json(
    columns: Sequence[tuple[str, str]], rows: Sequence[tuple[Any, ...]]
) -> dict[str, Any]:
    """Return rows as documented JSON, with columns as (name, Spark SQL type)."""
    return {
        "columns": [{"name": name, "type": kind} for name, kind in columns],
        "rows": [[json_value(value) for value in row] for row in rows],
    }


_SHOWN, _SHOWN_OF_STEPS = ("_change_type",), ("_change_type", "_version")
"""The `change_columns` to print without `--each`, and with `--each`."""


def changes_json(found: FoundChanges[Any]) -> dict[str, Any]:
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
    """Return cursors as documented JSON; `last` is the environment's current version, if any."""
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
    headers = ("cursor", "version", "behind", "moved_at", "moved_by")
    if rows := [list(one.values()) for one in found["cursors"]]:
        console.print(simple_table(headers, rows))
    else:
        console.print(f"{found['model']} has no cursor in '{found['environment']}' yet")


def show_changes(console: Console, found: FoundChanges[Any]) -> None:
    """Print changes as a table, with changes of columns above it."""
    changes = found.changes
    for event in changes.events:
        console.print(_event_text(event), markup=False)
    if changes.method == "resync":
        text = f"reload {changes.model} at version {changes.until}: {changes.why}"
        console.print(text, markup=False, soft_wrap=True)
    elif not found.rows:
        console.print("no rows changed")
    else:
        marks = _SHOWN_OF_STEPS if changes.steps else _SHOWN
        columns = list(enumerate(changes.columns))
        kept = [i for i, (name, _) in columns if i >= len(changes.change_columns) or name in marks]
        shown = [changes.columns[i] for i in kept]
        show_rows(console, shown, [tuple(row[i] for i in kept) for row in found.rows])


def changes_notes(found: FoundChanges[Any], rows: int, *, commit: bool) -> Iterator[str]:
    """Yield notes on printed changes: number, versions, and the options that move the cursor.

    Args:
        commit: Whether this command moves the cursor.
    """
    changes = found.changes
    versions = f"from version {changes.since} to {changes.until} of '{changes.environment}'"
    if changes.method != "resync":
        more = ", and there are more" if found.more else ""
        yield f"[dim]{count(rows, 'change')} {versions}{more}[/]"
    ack = _ack(found)
    if ack is not None and not commit:
        moves = f"to move the cursor to version {changes.until}"
        yield f"[dim]{moves}: --cursor {found.cursor} --ack {ack}[/]"


def _ack(found: FoundChanges[Any]) -> str | None:
    """Return `--ack`'s value, such as `40-41`; None without a cursor or if rows remain unread."""
    if found.cursor is None or found.more:
        return None
    return f"{found.changes.since}-{found.changes.until}"


def _event_text(event: ColumnEvent) -> str:
    if event.what == "renamed":
        return f"column {event.was} was renamed to {event.column}"
    if event.what == "retyped":
        return f"column {event.column} changed its type from {event.was} to {event.becomes}"
    if event.what == "added":
        return f"column {event.column} ({event.becomes}) was added; unchanged rows have NULL"
    return f"column {event.column} was removed"


_HEADINGS = {
    "differing": "rows that differ",
    "only_source": "rows only in the first",
    "only_target": "rows only in the second",
}


def comparison_json(found: Comparison) -> dict[str, Any]:
    return {
        "source": found.source,
        "target": found.target,
        "on": list(found.keys),
        "schema": {
            "added": dict(found.schema.added),
            "removed": dict(found.schema.removed),
            "changed": {name: list(types) for name, types in found.schema.changed.items()},
        },
        "rows": dict(found.rows),
        "columns": dict(found.columns),
        "not_compared": list(found.not_compared),
        "samples": {
            kind: [
                dict(zip(sample.columns, map(json_value, row), strict=True)) for row in sample.rows
            ]
            for kind, sample in found.samples.items()
        },
    }


def show_comparison(console: Console, found: Comparison) -> None:
    console.print(f"{found.source} → {found.target}, by {', '.join(found.keys)}", markup=False)
    schema = [
        *((name, type_, "") for name, type_ in found.schema.removed.items()),
        *((name, "", type_) for name, type_ in found.schema.added.items()),
        *((name, *types) for name, types in found.schema.changed.items()),
    ]
    if schema:
        console.print(simple_table(("column", "first", "second"), schema))
    rows = [(word.replace("_", " "), f"{count:,}") for word, count in found.rows.items()]
    console.print(simple_table(("rows", "count"), rows))
    differing = [(name, f"{count:,}") for name, count in found.columns.items() if count]
    if differing:
        console.print(simple_table(("column", "values that differ"), differing))
    if found.not_compared:
        console.print(f"not compared: {', '.join(found.not_compared)}", markup=False)
    for kind, sample in found.samples.items():
        console.print(_HEADINGS[kind])
        shown = [[text_value(value) for value in row] for row in sample.rows]
        console.print(simple_table(sample.columns, shown))
