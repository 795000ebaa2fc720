"""Clean-up, checks of files, moves of the state, and exports of its outbox to other systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from vde_dagster.base.plugins import Seam
from vde_dagster.errors import ExecutionError, UsageError, VdeError
from vde_dagster.execution.changes.followers import follow
from vde_dagster.planning.environments.environment import PRODUCTION

if TYPE_CHECKING:
    from pathlib import Path

    from vde_dagster.execution.handles import Handles
    from vde_dagster.lakehouse.maintenance.fsck import Finding
    from vde_dagster.lakehouse.maintenance.janitor import JanitorReport
    from vde_dagster.state.db.outbox import OutboxRecord


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What keeps a warehouse small and whole."""

    handles: Handles

    def janitor(self, *, dry_run: bool = False) -> JanitorReport:
        """Drop what no kept version of any environment reaches."""
        from vde_dagster.lakehouse.maintenance.janitor import clean, retention_policy

        handles = self.handles
        handles.store.project.require_own()
        if not dry_run:
            # It removes versions of production, and tables that may be production's.
            handles.store.rights.require("publish", "clean up")
            # Before versions are forgotten that these views read.
            follow(handles, PRODUCTION, "janitor", first=True)
        settings = handles.settings
        keep_snapshots = timedelta(days=settings.snapshot_retention_days)
        return clean(handles.lakehouse, retention_policy(settings), keep_snapshots, dry_run=dry_run)

    def fsck(self, *, deep: bool = False) -> tuple[Finding, ...]:
        """Check that every pointer leads to its files, and that what is shown is there."""
        from vde_dagster.lakehouse.maintenance.fsck import fsck
        from vde_dagster.lakehouse.maintenance.janitor import retention_policy

        grace = retention_policy(self.handles.settings).uncommitted_grace
        return fsck(self.handles.lakehouse, grace, deep=deep)

    def export_state(self, path: Path, *, replace: bool = False) -> dict[str, int]:
        """Write state and catalog to a file; return its rows by table.

        Raises:
            UsageError: The file exists, or its folder does not.
        """
        from vde_dagster.state.db.transfer import export_state

        if path.exists() and not replace:
            raise UsageError(f"{path} exists", hint="give another file, or --force to replace it")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"there is no folder {path.parent}", hint="make it first")
        return export_state(self.handles.store.database, path)


MOST_RECORDS = 1_000
"""The most that an exporter is given at a time."""

Exporter = Callable[["Handles", "Sequence[OutboxRecord]"], int | None]
"""Takes records in order, and returns once they are kept elsewhere; those that fail come again.

One that leaves the rest for a later call returns the number up to which it took them.
"""

_PLUGINS: Seam[Exporter] = Seam("exporters")


class PartlyTakenError(Exception):
    """A failure of an exporter behind records that it took.

    Args:
        taken: The number up to which records count as taken.
        error: The error that the user gets.
    """

    def __init__(self, taken: int, error: ExecutionError) -> None:
        super().__init__(error.message)
        self.taken = taken
        self.error = error


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an exporter's call; `forgotten` records were gone before it came for them."""

    records: int
    last: int
    forgotten: int


def export(handles: Handles, name: str) -> Exported:
    """Give an exporter the records since its last call; at least once each, in order.

    Raises:
        UsageError: No such exporter is installed, or it is broken.
        ExecutionError: It failed; what it took before counts.
    """
    return deliver(handles, name, _PLUGINS.require(name), f"`vde export {name}`")


def deliver(handles: Handles, consumer: str, exporter: Exporter, again: str) -> Exported:
    """Give a consumer of the outbox the records behind its place, as `export` does.

    Args:
        consumer: Names its place.
        again: The command that goes on where it fails.

    Raises:
        ExecutionError: It failed; what it took before counts.
    """
    outbox = handles.store.outbox
    first = last = outbox.cursor(consumer)
    oldest = outbox.number().oldest
    forgotten = max(oldest - 1 - first, 0) if first else 0
    count = 0
    while records := outbox.since(last, MOST_RECORDS):
        try:
            taken = exporter(handles, records)
        except PartlyTakenError as part:
            if part.taken > last:
                outbox.move_cursor(consumer, part.taken)
            raise part.error from part
        except VdeError:
            raise
        except Exception as error:
            raise ExecutionError(
                f"exporter '{consumer}' failed at records {records[0].number} to "
                f"{records[-1].number}: {type(error).__name__}: {error}",
                hint=f"{again} goes on there",
            ) from error
        last = records[-1].number if taken is None else taken
        count += sum(one.number <= last for one in records)
        outbox.move_cursor(consumer, last)
        if taken is not None:
            break
    return Exported(count, last, forgotten)
