"""Cleanup, checks of files, export of the state, and delivery of outbox records to exporters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from vde_dagster.base.plugins import Seam
from vde_dagster.errors import ExecutionError, UsageError, VdeError
from vde_dagster.execution.changes.view_updates import update_change_views
from vde_dagster.planning.environments.environment import PRODUCTION

if TYPE_CHECKING:
    from pathlib import Path

    from vde_dagster.execution.handles import Handles
    from vde_dagster.lakehouse.maintenance.fsck import Finding
    from vde_dagster.lakehouse.maintenance.janitor import JanitorReport
    from vde_dagster.state.db.outbox import OutboxRecord


MOST_RECORDS = 1_000
"""Maximum number of records that an exporter receives at a time."""

Exporter = Callable[["Handles", "Sequence[OutboxRecord]"], int | None]
"""Stores records in their order, and receives them again if it raises an exception.

An exporter that leaves records for a later call returns the number of the last record that it
stored. An exporter that fails after it stored some records moves its position before it raises the
exception: `store.outbox.move_cursor(name, number)`.
"""

_PLUGINS: Seam[Exporter] = Seam("exporters")


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of sending records of the outbox to an exporter.

    Args:
        last: Number of the last record that the exporter has stored.
        forgotten: Number of records that had expired before the call.
    """

    records: int
    last: int
    forgotten: int


@dataclass(frozen=True, slots=True)
class Maintenance:
    handles: Handles

    def janitor(self, *, dry_run: bool = False, compact: bool = True) -> JanitorReport:
        """Drop expired environments and unused data, and compact tables."""
        # Spark starts only if a table has many deleted rows.
        from vde_dagster.lakehouse.maintenance.janitor import clean, retention_policy

        handles = self.handles
        handles.store.project.require_own()
        if not dry_run:
            # It removes versions of production, and possibly its tables.
            handles.store.rights.require("publish", "clean up")
            # Before deleting versions that these views read.
            update_change_views(handles, PRODUCTION, "janitor", must_succeed=True)
        settings = handles.settings
        keep_snapshots = timedelta(days=settings.snapshot_retention_days)
        return clean(
            handles.lakehouse,
            retention_policy(settings),
            keep_snapshots,
            compact=(lambda ref: handles.engine().compact(ref)) if compact else None,
            dry_run=dry_run,
        )

    def fsck(self, *, deep: bool = False) -> tuple[Finding, ...]:
        """Check the state, and the files of all tables and views that environments show."""
        from vde_dagster.lakehouse.maintenance.fsck import fsck
        from vde_dagster.lakehouse.maintenance.janitor import retention_policy

        grace = retention_policy(self.handles.settings).uncommitted_grace
        return fsck(self.handles.lakehouse, grace, deep=deep)

    def export_state(self, path: Path, *, replace: bool = False) -> dict[str, int]:
        """Write state and catalog to a file, and return the number of written rows by table.

        Raises:
            UsageError: The file exists and `replace` is false, or the file's folder does not exist.
        """
        from vde_dagster.state.db.transfer import export_state

        if path.exists() and not replace:
            raise UsageError(f"the file {path} exists", hint="choose another file, or add --force")
        if not path.absolute().parent.is_dir():
            raise UsageError(
                f"the folder {path.parent} does not exist", hint=f"mkdir -p {path.parent}"
            )
        return export_state(self.handles.store.database, path)

    def export(self, name: str) -> Exported:
        """Send an exporter the outbox's records that are new since the last call, in order.

        Each record is sent at least once.

        Raises:
            UsageError: The exporter is not installed, or is broken.
            ExecutionError: The exporter failed. The records that it has stored are not sent again.
        """
        return self.deliver(name, _PLUGINS.require(name), f"`vde export {name}`")

    def deliver(self, consumer: str, exporter: Exporter, again: str) -> Exported:
        """Pass the outbox's records after a consumer's position to `exporter`. See `export`.

        Args:
            again: Command that sends the failed records again, for the error's hint.

        Raises:
            ExecutionError: The consumer failed; its position has moved past the records that it
                stored.
        """
        outbox = self.handles.store.outbox
        first = last = outbox.cursor(consumer)
        oldest = outbox.number().oldest
        forgotten = max(oldest - 1 - first, 0) if first else 0
        count = 0
        while records := outbox.since(last, MOST_RECORDS):
            try:
                taken = exporter(self.handles, records)
            except VdeError:
                raise
            except Exception as error:
                raise ExecutionError(
                    f"exporter '{consumer}' failed at records {records[0].number} to "
                    f"{records[-1].number}: {type(error).__name__}: {error}",
                    hint=f"to send these records again, run {again}",
                ) from error
            last = records[-1].number if taken is None else taken
            count += sum(one.number <= last for one in records)
            outbox.move_cursor(consumer, last)
            if taken is not None:
                break
        return Exported(count, last, forgotten)
