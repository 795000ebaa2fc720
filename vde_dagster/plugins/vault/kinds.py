"""FIRST_SEEN: what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds import Kind, Property
from vde_dagster.project.kinds.base import later
from vde_dagster.project.kinds.incremental import (
    BATCH_SIZE,
    IN_PLACE,
    LOOKBACK,
    RESTATEMENT,
)

_COLUMNS = {"type": ["string", "array"], "items": {"type": "string"}}


def _columns(name: str, *, required: bool = False) -> Property:
    return Property(
        name, lambda value: value.texts(), _COLUMNS, required=required, names_columns=True
    )


def _column(name: str, *, required: bool = False) -> Property:
    return Property(
        name,
        lambda value: value.text(),
        {"type": "string"},
        required=required,
        names_columns=True,
    )


_FILLED = (LOOKBACK, BATCH_SIZE, *RESTATEMENT, *IN_PLACE)


@dataclass(frozen=True, slots=True)
class FirstSeen(Kind):
    """Filled interval by interval, in any order; of each key the earliest row is kept.

    Args:
        key: Output columns that identify a row; NULL in one of them is refused.
        time: The output column that says when a row was loaded.
        source: The output column that says where from, which decides between rows of one time.
    """

    key: tuple[str, ...]
    time: str
    source: str | None = None
    lookback: int = 0
    batch_size: int | None = None
    disable_restatement: bool = False
    auto_restatement_cron: str | None = None
    forward_only: bool = later(False)
    on_destructive_change: str = later("error")
    on_additive_change: str = later("allow")
    name: Literal["FIRST_SEEN"] = "FIRST_SEEN"

    summary = "interval by interval; of each key the earliest row by time, then source, is kept"
    by_intervals = True
    restates_whole = True
    changes_in_place = True
    properties = (
        _columns("key", required=True),
        _column("time", required=True),
        _column("source"),
        *_FILLED,
    )

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The key, and what says which row is the earliest."""
        return (*self.key, self.time, *((self.source,) if self.source else ()))
