"""INCREMENTAL_UNMANAGED: a table that every fill adds rows to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds.base import Kind, Property
from vde_dagster.project.kinds.incremental import BATCH_SIZE, DISABLE_RESTATEMENT


@dataclass(frozen=True, slots=True)
class IncrementalUnmanaged(Kind):
    """Filled interval by interval; the rows are added to those that are there.

    Args:
        insert_overwrite: Whether the partitions that a fill has rows of are replaced instead; all
            rows, where the table has no partitions.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
        disable_restatement: Whether what is filled stays when it is asked to be filled again.
    """

    insert_overwrite: bool = False
    batch_size: int | None = None
    disable_restatement: bool = True
    name: Literal["INCREMENTAL_UNMANAGED"] = "INCREMENTAL_UNMANAGED"

    summary = "interval by interval; rows are added, once for each interval"
    by_intervals = True
    restates_whole = True
    properties = (
        Property("insert_overwrite", lambda value: value.boolean(), {"type": "boolean"}),
        BATCH_SIZE,
        DISABLE_RESTATEMENT,
    )

    @property
    def most_intervals(self) -> int | None:
        """The batch size."""
        return self.batch_size

    @property
    def restatable(self) -> bool:
        """Not unless the author says so: earlier rows may come from what is gone."""
        return not self.disable_restatement
