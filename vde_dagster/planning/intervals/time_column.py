"""Time columns: Spark conditions for the rows of an interval.

Iceberg overwrites the rows that `condition` selects. Therefore, the condition only compares a
column with literals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from vde_dagster.base.names import quote, string_literal
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.kinds.time_format import (
    FINEST_FIRST,
    SECONDS,
    UNITS,
    expand_aliases,
    finest_directive,
    format_problem,
    sorts_by_time,
    spark_format,
)

_DEFAULT_TEXT = "%Y-%m-%d"
_DEFAULT_NUMBER = "%Y%m%d"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
MOST_VALUES = 10_000
"""Maximum number of values in a condition."""


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A model's time column, which assigns each row to an interval.

    Args:
        type: The column's Spark SQL type.
        format: strftime format of text and numbers. None means `%Y-%m-%d`, or `%Y%m%d` for numbers.
        partials: Whether an interval's end is rounded up to the precision of the column. For a
            DATE, an interval that ends at noon then includes the whole day.
    """

    name: str
    type: str
    format: str | None = None
    partials: bool = False

    def condition(self, interval: Interval) -> str:
        """Return a Spark SQL condition for the interval's rows.

        Raises:
            ExecutionError: The column's type or format cannot separate the interval's rows.
        """
        # A value represents the instant (UTC) at which its day or hour starts.
        column, kind = quote(self.name), self.type.lower()
        if kind in ("timestamp", "timestamp_ltz"):
            return _between(column, *_literals("TIMESTAMP", "%Y-%m-%d %H:%M:%S.%fZ", interval))
        if kind == "timestamp_ntz":
            return _between(column, *_literals("TIMESTAMP_NTZ", "%Y-%m-%d %H:%M:%S.%f", interval))
        if kind == "date":
            interval = self._in_steps(interval, "%d", "a DATE")
            return _between(column, *_literals("DATE", "%Y-%m-%d", interval))
        if kind in _INTEGERS:
            return self._formatted(column, interval, lambda text: str(int(text)))
        if self._is_formatted:
            return self._formatted(column, interval, string_literal)
        raise ExecutionError(
            f"the time column '{self.name}' is of type {self.type}, which is not supported for "
            "time columns",
            hint="use a TIMESTAMP, DATE, STRING or INT column as time_column",
        )

    def reading_condition(self, interval: Interval) -> str:
        """Return a Spark SQL condition that selects the interval's rows in a query.

        The result is `condition`. If `condition` would list very many values, the result is a
        condition that parses the column's values.
        """
        shortest = finest_directive(self.pattern)
        if shortest is None or not self._is_formatted or sorts_by_time(self.pattern):
            return self.condition(interval)
        if (interval.end - interval.start).total_seconds() < SECONDS[shortest] * MOST_VALUES:
            return self.condition(interval)
        text = f"CAST({quote(self.name)} AS STRING)"
        form = string_literal(spark_format(self.pattern))
        instant = f"to_timestamp_ntz({text}, {form})"
        plain = TimeColumn(self.name, "timestamp_ntz").condition(interval)
        return plain.replace(quote(self.name), instant)

    @property
    def _is_formatted(self) -> bool:
        kind = self.type.lower()
        return kind in _INTEGERS or kind.startswith(("string", "varchar", "char"))

    @property
    def pattern(self) -> str:
        """The column's strftime format, by default `%Y-%m-%d` for text and `%Y%m%d` for numbers."""
        default = _DEFAULT_NUMBER if self.type.lower() in _INTEGERS else _DEFAULT_TEXT
        return expand_aliases(self.format or default)

    def _formatted(self, column: str, interval: Interval, literal: Callable[[str], str]) -> str:
        text = self.pattern
        wrong = format_problem(text)
        if wrong is not None:
            raise ExecutionError(
                f"the time_format '{text}' of '{self.name}' cannot be used: {wrong}",
                hint="write it with strftime's %Y, %m, %d, %H, %M, %S (and %y, %b, %B, %f)",
            )
        shortest = finest_directive(text)
        assert shortest is not None
        interval = self._in_steps(interval, shortest, f"text of the format {text}")
        if sorts_by_time(text):
            start, end = (literal(_format(i, text)) for i in (interval.start, interval.end))
            return _between(column, start, end)
        values = [literal(_format(instant, text)) for instant in self._steps(interval, shortest)]
        return f"{column} IN ({', '.join(values)})"

    def _in_steps(self, interval: Interval, finest: str, what: str) -> Interval:
        """Return the interval; if `partials` is set, round its end up to the column's precision.

        Raises ExecutionError if the start or the returned end needs a higher precision.
        """
        if self.partials and _floor(interval.end, finest) != interval.end:
            end = _next(_floor(interval.end, finest), finest)
            interval = Interval(interval.start, end)
        for instant in (interval.start, interval.end):
            if _floor(instant, finest) != instant:
                raise ExecutionError(
                    f"the time column '{self.name}' is {what}, which cannot separate the interval "
                    f"{interval.text} from the rest of the {UNITS[finest]}",
                    hint=f"use a TIMESTAMP as time_column, or a cron of whole {UNITS[finest]}s",
                )
        return interval

    def _steps(self, interval: Interval, finest: str) -> list[datetime]:
        values: list[datetime] = []
        instant = interval.start
        while instant < interval.end:
            values.append(instant)
            instant = _next(instant, finest)
            if len(values) > MOST_VALUES:
                raise ExecutionError(
                    f"the time_format '{self.format}' of '{self.name}' does not sort by time, "
                    f"and the interval {interval.text} has more than {MOST_VALUES} values",
                    hint="use a format that sorts, such as %Y-%m-%d, or set a batch_size",
                )
        return values


def _between(column: str, start: str, end: str) -> str:
    return f"{column} >= {start} AND {column} < {end}"


def _literals(type_: str, pattern: str, interval: Interval) -> tuple[str, str]:
    start, end = (f"{type_} '{_format(i, pattern)}'" for i in (interval.start, interval.end))
    return start, end


def _format(instant: datetime, pattern: str) -> str:
    # Some C libraries drop leading zeros.
    return instant.strftime(pattern.replace("%Y", f"{instant.year:04d}"))


def _floor(instant: datetime, finest: str) -> datetime:
    keep = FINEST_FIRST[::-1].index(finest)
    first = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0}
    return instant.replace(**dict([*first.items()][keep:]))  # type: ignore[arg-type]


def _next(instant: datetime, finest: str) -> datetime:
    if finest == "%Y":
        return instant.replace(year=instant.year + 1)
    if finest == "%m":
        return (instant.replace(day=1) + timedelta(days=32)).replace(day=1)
    seconds = {"%d": 86400.0, "%H": 3600.0, "%M": 60.0, "%S": 1.0, "%f": 1e-6}[finest]
    return instant + timedelta(seconds=seconds)
