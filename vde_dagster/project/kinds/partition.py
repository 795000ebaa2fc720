"""INCREMENTAL_BY_PARTITION: a table whose partitions are replaced as they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds.base import later
from vde_dagster.project.kinds.incremental import (
    BATCH_SIZE,
    LOOKBACK,
    RESTATEMENT,
    Incremental,
)


@dataclass(frozen=True, slots=True)
class IncrementalByPartition(Incremental):
    """Filled interval by interval; the partitions that the query returns rows of are replaced.

    Args:
        lookback: How many earlier intervals each new one fills again.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
        disable_restatement: Whether production keeps what is filled for good: its sources may have
            it no longer.
        auto_restatement_cron: When production's runs fill it again by themselves, or None.
    """

    lookback: int = 0
    batch_size: int | None = None
    disable_restatement: bool = True
    auto_restatement_cron: str | None = later(None)
    name: Literal["INCREMENTAL_BY_PARTITION"] = "INCREMENTAL_BY_PARTITION"

    summary = "interval by interval; the partitions that a fill has rows of are replaced"
    needs = ("partitioned_by",)
    restates_whole = True
    properties = (LOOKBACK, BATCH_SIZE, *RESTATEMENT)
