"""Exporters: consumers of the state's outbox in other distributions, each with a cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.plugins import Seam
from vde_dagster.errors import ExecutionError, VdeError

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.state.db.outbox import OutboxRecord

MOST_RECORDS = 1_000
"""Given to an exporter at a time."""

Exporter = Callable[["Workspace", "Sequence[OutboxRecord]"], None]
"""Takes records in order, and returns once they are kept elsewhere; those that fail come again."""

_PLUGINS: Seam[Exporter] = Seam("exporters")


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of one call of an exporter.

    Args:
        records: How many it took.
        last: The number of the last of all that it has taken.
        forgotten: How many were forgotten by the state before it came for them.
    """

    records: int
    last: int
    forgotten: int


def export(workspace: Workspace, name: str) -> Exported:
    """Give an exporter the records since its last call; at least once each, in order.

    Raises:
        UsageError: No such exporter is installed, or it is broken.
        ExecutionError: It failed; what it took before counts.
    """
    exporter = _PLUGINS.require(name)
    outbox = workspace.store.outbox
    first = last = outbox.cursor(name)
    oldest = outbox.number().oldest
    forgotten = max(oldest - 1 - first, 0) if first else 0
    count = 0
    while records := outbox.since(last, MOST_RECORDS):
        try:
            exporter(workspace, records)
        except VdeError:
            raise
        except Exception as error:
            raise ExecutionError(
                f"exporter '{name}' failed at records {records[0].number} to {records[-1].number}: "
                f"{type(error).__name__}: {error}",
                hint=f"`vde export {name}` goes on there",
            ) from error
        last, count = records[-1].number, count + len(records)
        outbox.move_cursor(name, last)
    return Exported(count, last, forgotten)
