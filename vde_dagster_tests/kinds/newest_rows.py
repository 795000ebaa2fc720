"""The kind NEWEST_ROWS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.api.kinds import AddedColumn, Kind, Property


@dataclass(frozen=True, slots=True)
class NewestRows(Kind):
    """Filled interval by interval; of each key the newest rows are kept, numbered.

    Args:
        row_key: Output columns whose rows are counted together.
        newest_by: The output column that orders rows by age.
        keep: Number of rows per key.
        batch_size: Maximum number of intervals per job.
    """

    row_key: tuple[str, ...]
    newest_by: str
    keep: int = 1
    batch_size: int | None = None
    name: Literal["NEWEST_ROWS"] = "NEWEST_ROWS"

    summary = "interval by interval; the newest rows of each key are kept"
    properties = (
        Property.columns("row_key", required=True),
        Property.column("newest_by", required=True),
        Property.number("keep"),
        Kind.BATCH_SIZE,
    )
    by_intervals = True

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The key, and the column that orders its rows."""
        return (*self.row_key, self.newest_by)

    @property
    def added_columns(self) -> tuple[AddedColumn, ...]:
        """The number of a row among those of its key."""
        return (AddedColumn("newest", "INT", "1 is the newest row of its key"),)
