"""Reading changes, and a consumer's cursor in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.between import ModelChanges, changes_between
from vde_dagster.execution.changes.by_version import changes_by_version

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.execution.warehouse import Warehouse

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class FoundChanges:
    """Changes that were read.

    Args:
        changes: From where to where, and how they were found.
        rows: The changes, in the order of the key where there is one.
        more: Whether there are more than were asked for.
        cursor: The cursor that they were read by, or None.
    """

    changes: ModelChanges
    rows: tuple[tuple[Any, ...], ...]
    more: bool = False
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ArrowChanges:
    """Changes that were read into Arrow.

    Args:
        changes: From where to where, and how they were found.
        table: The changes, in the order of the key where there is one.
        more: Whether there are more than were asked for.
        cursor: The cursor that they were read by, or None.
    """

    changes: ModelChanges
    table: pa.Table
    more: bool = False
    cursor: str | None = None


def read_arrow_changes(
    warehouse: Warehouse, changes: ModelChanges, cursor: str | None, limit: int | None
) -> ArrowChanges:
    """Read changes into Arrow; see `Workspace.changes_arrow`."""
    # Also where nothing changed: the engine knows what Arrow's types are.
    wanted = limit + 1 if limit is not None else None
    table = warehouse.engine().query_arrow(ordered(changes), wanted)
    more = limit is not None and table.num_rows > limit
    return ArrowChanges(changes, table.slice(0, limit) if more else table, more, cursor)


def read_changes(
    warehouse: Warehouse, changes: ModelChanges, cursor: str | None, limit: int | None
) -> FoundChanges:
    """Read changes; see `Workspace.changes`."""
    rows: Sequence[tuple[Any, ...]] = ()
    if changes.method == "resync":
        marks = ("resync", 0, None, changes.until, changes.publication_id)
        rows = [(*marks, *(None for _ in changes.columns[len(marks) :]))]
    elif changes.method != "nothing":
        wanted = limit + 1 if limit is not None else None
        rows = warehouse.engine().query(ordered(changes), wanted)[1]
    more = limit is not None and len(rows) > limit
    return FoundChanges(changes, tuple(rows[:limit] if more else rows), more, cursor)


def plan_changes(
    warehouse: Warehouse,
    environment: str,
    model: ModelName,
    since: int | None,
    until: int | None,
    cursor: str | None,
    *,
    each: bool,
) -> ModelChanges:
    """Find out how the changes are read that somebody asks for; see `Workspace.changes`."""
    if (since is None) == (cursor is None):
        raise UsageError(
            "it is not said from where on the changes are wanted"
            if since is None
            else "both a version and a cursor say from where on the changes are wanted",
            hint="give either the version that you have, or a cursor's name",
        )
    if cursor is not None:
        check_cursor(cursor)
        since = warehouse.store.change_cursors.version(environment, model, cursor)
    ask = changes_by_version if each else changes_between
    return ask(warehouse, environment, model, since or 0, until)


def acknowledge(
    warehouse: Warehouse,
    environment: str,
    model: ModelName,
    cursor: str,
    since: int,
    until: int,
    who: str,
) -> None:
    """Move a cursor over changes that its consumer has; doing so again changes nothing.

    Raises:
        UsageError: It is no cursor's name, or the environment has had no such version.
        ConflictError: Somebody else moved the cursor.
    """
    check_cursor(cursor)
    store = warehouse.store
    current = store.environments.get(environment)
    if current is None or not 0 < until <= current.version:
        last = current.version if current is not None else 0
        raise UsageError(
            f"environment '{environment}' has had no version {until}",
            hint=f"its last one is {last}" if last else "`vde environments` lists the environments",
        )
    store.change_cursors.move(environment, model, cursor, since, until, who)


def check_cursor(name: str) -> None:
    """Make sure that a text may be a cursor's name.

    Raises:
        UsageError: It may not.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' is not a cursor's name",
            hint="use up to 64 letters, digits, dots, hyphens and underscores, for example billing",
        )


def ordered(changes: ModelChanges) -> str:
    """Order changes by step and key, and what goes before what comes."""
    by = ["_change_ordinal"] if changes.steps else []
    by += [quote(name) for name in changes.key]
    by.append("_change_type IN ('insert', 'update_after')")
    return f"SELECT * FROM ({changes.query}) ORDER BY {', '.join(by)}"
