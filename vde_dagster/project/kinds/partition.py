"""INCREMENTAL_BY_PARTITION: a table whose partitions are replaced as they come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vde_dagster.project.kinds.base import InPlace, later
from vde_dagster.project.kinds.incremental import (
    BATCH_SIZE,
    IN_PLACE,
    LOOKBACK,
    RESTATEMENT,
    ChangesInPlace,
)


@dataclass(frozen=True, slots=True)
class IncrementalByPartition(ChangesInPlace):
    """Filled interval by interval; the partitions that the query returns rows of are replaced.

    Args:
        lookback: How many earlier intervals each new one fills again.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
        disable_restatement: Whether production keeps what is filled for good: its sources may have
            it no longer.
        auto_restatement_cron: When production's runs fill it again by themselves, or None.
        forward_only: Whether every change is made in place, and rows that are there stay.
        on_destructive_change: What to do when such a change removes or retypes columns.
        on_additive_change: What to do when it adds or widens columns.
    """

    lookback: int = 0
    batch_size: int | None = None
    disable_restatement: bool = True
    auto_restatement_cron: str | None = later(None)
    forward_only: bool = later(False)
    on_destructive_change: str = later("error")
    on_additive_change: str = later("allow")
    name: Literal["INCREMENTAL_BY_PARTITION"] = "INCREMENTAL_BY_PARTITION"

    summary = "interval by interval; the partitions that a fill has rows of are replaced"
    needs = ("partitioned_by",)
    restates_whole = True
    properties = (LOOKBACK, BATCH_SIZE, *RESTATEMENT, *IN_PLACE)

    @property
    def in_place(self) -> InPlace:
        """What its properties say; what it is partitioned by has to stay."""
        return replace(super(IncrementalByPartition, self).in_place, by_partitions=True)
