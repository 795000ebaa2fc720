"""INCREMENTAL_UNMANAGED: a table that every fill adds rows to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from vde_dagster.project.kinds.base import InPlace, Kind, Property, later
from vde_dagster.project.kinds.incremental import (
    BATCH_CONCURRENCY,
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
        batch_concurrency: How many batches may run at the same time, or None for one.
    """

    insert_overwrite: bool = False
    batch_size: int | None = None
    disable_restatement: bool = True
    auto_restatement_cron: str | None = later(None)
    forward_only: bool = later(False)
    on_destructive_change: str = later("error")
    on_additive_change: str = later("allow")
    batch_concurrency: int | None = later(None)
    name: Literal["INCREMENTAL_UNMANAGED"] = "INCREMENTAL_UNMANAGED"

    summary = "interval by interval; rows are added, once for each interval"
    restates_whole = True
    properties = (
        Property("insert_overwrite", lambda value: value.boolean(), {"type": "boolean"}),
        BATCH_SIZE,
        BATCH_CONCURRENCY,
        *RESTATEMENT,
        *IN_PLACE,
    )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Kind:
        """Make the kind.

        Raises:
            ValueError: Batches that replace partitions are to run at the same time.
        """
        if given.get("insert_overwrite") and given.get("batch_concurrency", 1) > 1:
            raise ValueError(
                "with insert_overwrite batches follow each other, as each replaces what the ones "
                "before it wrote: 'batch_concurrency' has to be 1"
            )
        return cls(**given)

    @property
    def batches_at_once(self) -> int:
        """What is said: rows are only added."""
        return self.batch_concurrency or 1

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
