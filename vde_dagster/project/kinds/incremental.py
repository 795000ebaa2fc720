"""Kinds filled by intervals of time: by time range, by partition, and unmanaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.project.kinds.base import IntervalColumn, Kind, Property
from vde_dagster.project.kinds.time_format import strftime_format

if TYPE_CHECKING:
    from vde_dagster.project.property_value import Value


def _read_time_column(value: Value) -> tuple[str, str | None]:
    items = value.items()
    if not 1 <= len(items) <= 2 or len(items[0].tokens) != 1:
        raise value.error(
            f"'{value.raw}' is not a time column", "write time_column ds, or (ds, '%Y-%m-%d')"
        )
    if len(items) == 1:
        return items[0].text(), None
    # Python models write it without quotes.
    written = items[1].text() if len(items[1].tokens) == 1 else items[1].raw
    try:
        return items[0].text(), strftime_format(written, value.dialect)
    except ValueError as error:
        raise items[1].error(
            f"invalid format '{written}' of the time column: {error}",
            "write it with strftime's directives ('%Y-%m-%d'), or in the model's dialect",
        ) from error


@dataclass(frozen=True, slots=True)
class IncrementalByTimeRange(Kind):
    """A table filled by intervals, where each fill replaces exactly the rows of its interval.

    `time_format` is the time column's strftime format if the column is text, else None.
    """

    time_column: str
    time_format: str | None = None
    lookback: int = 0
    batch_size: int | None = None
    disable_restatement: bool = Kind.later(False)
    auto_restatement_cron: str | None = Kind.later(None)
    auto_restatement_intervals: int | None = Kind.later(None)
    forward_only: bool = Kind.later(False)
    on_destructive_change: str = Kind.later("error")
    on_additive_change: str = Kind.later("allow")
    batch_concurrency: int | None = Kind.later(None)
    name: Literal["INCREMENTAL_BY_TIME_RANGE"] = "INCREMENTAL_BY_TIME_RANGE"

    summary = "interval by interval; a fill overwrites exactly the rows of its interval"
    by_intervals = True
    changes_in_place = True
    properties = (
        Property(
            "time_column",
            _read_time_column,
            {"type": ["string", "array"], "items": {"type": "string"}, "maxItems": 2},
            required=True,
            names_columns=True,
        ),
        Kind.LOOKBACK,
        Kind.BATCH_SIZE,
        Kind.BATCH_CONCURRENCY,
        *Kind.RESTATEMENT,
        Property.number("auto_restatement_intervals"),
        *Kind.IN_PLACE,
    )

    @classmethod
    def from_properties(cls, given: Mapping[str, Any]) -> Kind:
        values = dict(given)
        column, time_format = values.pop("time_column")
        return cls(time_column=column, time_format=time_format, **values)

    def with_time_format(self, text: str | None) -> Kind:
        return replace(self, time_format=text) if text and self.time_format is None else self

    @property
    def named_columns(self) -> tuple[str, ...]:
        return (self.time_column,)

    @property
    def interval_column(self) -> IntervalColumn:
        return IntervalColumn(self.time_column, self.time_format)


@dataclass(frozen=True, slots=True)
class IncrementalByPartition(Kind):
    """A table filled by intervals, where each fill replaces the partitions of its rows."""

    lookback: int = 0
    batch_size: int | None = None
    disable_restatement: bool = True
    auto_restatement_cron: str | None = Kind.later(None)
    forward_only: bool = Kind.later(False)
    on_destructive_change: str = Kind.later("error")
    on_additive_change: str = Kind.later("allow")
    name: Literal["INCREMENTAL_BY_PARTITION"] = "INCREMENTAL_BY_PARTITION"

    summary = "interval by interval; a fill replaces the partitions of its rows"
    needs = ("partitioned_by",)
    by_intervals = True
    restates_whole = True
    changes_in_place = True
    by_partitions = True
    properties = (Kind.LOOKBACK, Kind.BATCH_SIZE, *Kind.RESTATEMENT, *Kind.IN_PLACE)


@dataclass(frozen=True, slots=True)
class IncrementalUnmanaged(Kind):
    """A table filled by intervals, where each fill appends its rows.

    With `insert_overwrite`, a fill replaces all partitions that its rows belong to. If the table
    has no partitions, the fill replaces all rows.
    """

    insert_overwrite: bool = False
    batch_size: int | None = None
    disable_restatement: bool = True
    auto_restatement_cron: str | None = Kind.later(None)
    forward_only: bool = Kind.later(False)
    on_destructive_change: str = Kind.later("error")
    on_additive_change: str = Kind.later("allow")
    batch_concurrency: int | None = Kind.later(None)
    name: Literal["INCREMENTAL_UNMANAGED"] = "INCREMENTAL_UNMANAGED"

    summary = "interval by interval; rows are appended, once per interval"
    by_intervals = True
    restates_whole = True
    changes_in_place = True
    properties = (
        Property.flag("insert_overwrite"),
        Kind.BATCH_SIZE,
        Kind.BATCH_CONCURRENCY,
        *Kind.RESTATEMENT,
        *Kind.IN_PLACE,
    )

    @classmethod
    def from_properties(cls, given: Mapping[str, Any]) -> Kind:
        if given.get("insert_overwrite") and given.get("batch_concurrency", 1) > 1:
            raise ValueError(
                "insert_overwrite requires 'batch_concurrency' 1, because each batch replaces rows "
                "of earlier batches"
            )
        return cls(**given)

    @property
    def fixed(self) -> tuple[str, ...]:
        return ("insert_overwrite",) if self.insert_overwrite else ()

    @property
    def by_partitions(self) -> bool:
        return self.insert_overwrite

    @property
    def refills(self) -> bool:
        return self.insert_overwrite
