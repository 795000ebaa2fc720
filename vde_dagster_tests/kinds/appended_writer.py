"""APPENDED: writing its tables."""

from __future__ import annotations

from vde_dagster.api.writers import Strategy, Write


class AppendedRows(Strategy):
    """Adds the new rows; replaces all rows if a parent's rows changed or were removed."""

    def write(self, write: Write) -> None:
        """Append, or overwrite."""
        if write.task.anew:
            write.overwrite(write.frame, write.task.branch)
        else:
            write.writer(write.frame, write.task.branch).append()
