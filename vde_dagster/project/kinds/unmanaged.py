"""INCREMENTAL_UNMANAGED: a table that every fill adds rows to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vde_dagster.project.kinds.base import InPlace, Property, later
from vde_dagster.project.kinds.incremental import (
    BATCH_SIZE,
    IN_PLACE,
    RESTATEMENT,
    ChangesInPlace,
)


@dataclass(frozen=True, slots=True)
class IncrementalUnmanaged(ChangesInPlace):
    """Filled interval by interval; the rows are added to those that are there.

    Args:
        insert_overwrite: Whether the partitions that a fill has rows of are replaced instead; all
            rows, where the table has no partitions.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
        disable_restatement: Whether production keeps what is filled for good: its sources may have
            it no longer.
        auto_restatement_cron: When production's runs fill it again by themselves, or None.
        forward_only: Whether every change is made in place, and rows that are there stay.
        on_destructive_change: What to do when such a change removes or retypes columns.
        on_additive_change: What to do when it adds or widens columns.
    """

    insert_overwrite: bool = False
    batch_size: int | None = None
    disable_restatement: bool = True
    auto_restatement_cron: str | None = later(None)
    forward_only: bool = later(False)
    on_destructive_change: str = later("error")
    on_additive_change: str = later("allow")
    name: Literal["INCREMENTAL_UNMANAGED"] = "INCREMENTAL_UNMANAGED"

    summary = "interval by interval; rows are added, once for each interval"
    restates_whole = True
    properties = (
        Property("insert_overwrite", lambda value: value.boolean(), {"type": "boolean"}),
        BATCH_SIZE,
        *RESTATEMENT,
        *IN_PLACE,
    )

    @property
    def earlier_intervals(self) -> int:
        """None: their rows would be added again."""
        return 0

    @property
    def in_place(self) -> InPlace:
        """What its properties say; whether rows are added or replaced has to stay."""
        replaces = self.insert_overwrite
        return replace(
            super(IncrementalUnmanaged, self).in_place,
            fixed=("insert_overwrite",) if replaces else (),
            by_partitions=replaces,
            refills=replaces,
        )
