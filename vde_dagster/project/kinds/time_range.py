"""INCREMENTAL_BY_TIME_RANGE: a table that is filled interval by interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.project.kinds.base import (
    AutoRestatement,
    IntervalColumn,
    Kind,
    Property,
    later,
)
from vde_dagster.project.kinds.incremental import (
    BATCH_CONCURRENCY,
    BATCH_SIZE,
    IN_PLACE,
    LAST_INTERVALS,
    LOOKBACK,
    RESTATEMENT,
    ChangesInPlace,
)
from vde_dagster.project.kinds.time_format import strftime_format

if TYPE_CHECKING:
    from vde_dagster.project.reading.header import Value


def _time_column(value: Value) -> tuple[str, str | None]:
    """Read a column, or `(column, format)`; the format is in strftime's words, or the dialect's."""
    items = value.items()
    if not 1 <= len(items) <= 2 or len(items[0].tokens) != 1:
        raise value.error(
            f"'{value.raw}' is not a time column", "write time_column ds, or (ds, '%Y-%m-%d')"
        )
    if len(items) == 1:
        return items[0].text(), None
    # Python models have it without quotes.
    written = items[1].text() if len(items[1].tokens) == 1 else items[1].raw
    try:
        return items[0].text(), strftime_format(written, value.dialect)
    except ValueError as error:
        raise items[1].error(
            f"the format '{written}' of the time column cannot be used: {error}",
            "write it with strftime's directives ('%Y-%m-%d'), or in the model's dialect",
        ) from error


@dataclass(frozen=True, slots=True)
class IncrementalByTimeRange(ChangesInPlace):
    """Filled interval by interval; filling one overwrites exactly its rows.

    Args:
        time_column: The output column that holds each row's time.
        time_format: strftime format of the column when it is text, else None.
        lookback: How many earlier intervals each new one fills again.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
        disable_restatement: Whether production keeps what is filled for good.
        auto_restatement_cron: When production's runs fill it again by themselves, or None.
        auto_restatement_intervals: How many of the last intervals they do, or None for all.
        forward_only: Whether every change is made in place, and rows that are there stay.
        on_destructive_change: What to do when such a change removes or retypes columns.
        on_additive_change: What to do when it adds or widens columns.
        batch_concurrency: How many batches may run at the same time, or None for one.
    """

    time_column: str
    time_format: str | None = None
    lookback: int = 0
    batch_size: int | None = None
    disable_restatement: bool = later(False)
    auto_restatement_cron: str | None = later(None)
    auto_restatement_intervals: int | None = later(None)
    forward_only: bool = later(False)
    on_destructive_change: str = later("error")
    on_additive_change: str = later("allow")
    batch_concurrency: int | None = later(None)
    name: Literal["INCREMENTAL_BY_TIME_RANGE"] = "INCREMENTAL_BY_TIME_RANGE"

    summary = "interval by interval; filling one overwrites exactly its rows"
    properties = (
        Property(
            "time_column",
            _time_column,
            {"type": ["string", "array"], "items": {"type": "string"}, "maxItems": 2},
            required=True,
            names_columns=True,
            shown="`time_column` (or `(column, '%Y-%m-%d')`)",
        ),
        LOOKBACK,
        BATCH_SIZE,
        BATCH_CONCURRENCY,
        *RESTATEMENT,
        LAST_INTERVALS,
        *IN_PLACE,
    )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Kind:
        """Make the kind; the column comes with its format."""
        values = dict(given)
        column, time_format = values.pop("time_column")
        return cls(time_column=column, time_format=time_format, **values)

    def with_time_format(self, text: str | None) -> Kind:
        """Take it for the time column."""
        return replace(self, time_format=text) if text and self.time_format is None else self

    @property
    def auto_restatement(self) -> AutoRestatement | None:
        """The last intervals, by the cron."""
        cron = self.auto_restatement_cron
        return AutoRestatement(cron, self.auto_restatement_intervals) if cron else None

    @property
    def batches_at_once(self) -> int:
        """What is said: each batch replaces rows of its own."""
        return self.batch_concurrency or 1

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The time column."""
        return (self.time_column,)

    @property
    def interval_column(self) -> IntervalColumn:
        """The time column, with its format."""
        return IntervalColumn(self.time_column, self.time_format)
