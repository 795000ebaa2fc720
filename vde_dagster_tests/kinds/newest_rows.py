"""NEWEST_ROWS: what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds import AddedColumn, Kind, Property
from vde_dagster.project.kinds.incremental import BATCH_SIZE


@dataclass(frozen=True, slots=True)
class NewestRows(Kind):
    """Filled interval by interval; of each key the newest rows are kept, numbered.

    Args:
        row_key: Output columns whose rows are counted together.
        newest_by: The output column that says which rows are newer.
        keep: How many rows of a key are kept.
        batch_size: The most intervals that one job fills.
    """

    row_key: tuple[str, ...]
    newest_by: str
    keep: int = 1
    batch_size: int | None = None
    name: Literal["NEWEST_ROWS"] = "NEWEST_ROWS"

    summary = "interval by interval; the newest rows of each key are kept"
    properties = (
        Property(
            "row_key",
            lambda value: value.texts(),
            {"type": "string"},
            required=True,
            names_columns=True,
        ),
        Property(
            "newest_by",
            lambda value: value.text(),
            {"type": "string"},
            required=True,
            names_columns=True,
        ),
        Property("keep", lambda value: value.integer(), {"type": "integer"}),
        BATCH_SIZE,
    )
    by_intervals = True

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The key, and what orders its rows."""
        return (*self.row_key, self.newest_by)

    @property
    def added_columns(self) -> tuple[AddedColumn, ...]:
        """The number of a row among those of its key."""
        return (AddedColumn("newest", "INT", "1 is the newest row of its key"),)
