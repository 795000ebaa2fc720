"""Reading changes: which somebody asks for, and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.between import changes_between
from vde_dagster.execution.changes.by_version import changes_by_version
from vde_dagster.execution.changes.cursors import check_cursor
from vde_dagster.execution.changes.model_changes import ModelChanges

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.execution.warehouse import Warehouse


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


def ordered(changes: ModelChanges) -> str:
    """Order changes by step and key, and what goes before what comes."""
    by = ["_change_ordinal"] if changes.steps else []
    by += [quote(name) for name in changes.key]
    by.append("_change_type IN ('insert', 'update_after')")
    return f"SELECT * FROM ({changes.query}) ORDER BY {', '.join(by)}"
