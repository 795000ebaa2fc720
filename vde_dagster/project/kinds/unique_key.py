"""INCREMENTAL_BY_UNIQUE_KEY: a table with one row per key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds.base import Property
from vde_dagster.project.kinds.incremental import BATCH_SIZE, LOOKBACK, Incremental, key_columns


@dataclass(frozen=True, slots=True)
class IncrementalByUniqueKey(Incremental):
    """Filled interval by interval; rows are merged on a key.

    Args:
        unique_key: Output columns that identify a row; NULLs count as equal.
        lookback: How many earlier intervals each new one fills again.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
    """

    unique_key: tuple[str, ...]
    lookback: int = 0
    batch_size: int | None = None
    name: Literal["INCREMENTAL_BY_UNIQUE_KEY"] = "INCREMENTAL_BY_UNIQUE_KEY"

    summary = "interval by interval; rows are merged on the key"
    restates_whole = True
    properties = (
        Property(
            "unique_key",
            key_columns,
            {"type": ["string", "array"], "items": {"type": "string"}},
            required=True,
            names_columns=True,
        ),
        LOOKBACK,
        BATCH_SIZE,
    )

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The key."""
        return self.unique_key
