"""Which rows belong to an interval, as a Spark condition on the time column.

The condition is also what Iceberg overwrites by, so it holds nothing but comparisons of a column
with literals.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from vde_dagster.base.names import quote, string_literal
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.interval import Interval

_FINEST_FIRST = ("%f", "%S", "%M", "%H", "%d", "%m", "%Y")
_KNOWN = {*_FINEST_FIRST, "%y", "%b", "%B", "%%"}
_ALIASES = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%D": "%m/%d/%y"}
_DEFAULT_TEXT = "%Y-%m-%d"
_DEFAULT_NUMBER = "%Y%m%d"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_MOST_VALUES = 10_000


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """The column that says which interval a row belongs to.

    Args:
        name: Its physical name.
        type: Its Spark SQL type.
        format: strftime format of text and numbers; None means `%Y-%m-%d`, or `%Y%m%d` for
            numbers. Dates and timestamps need none.
    """

    name: str
    type: str
    format: str | None = None

    def condition(self, interval: Interval) -> str:
        """Return a Spark SQL condition that holds for exactly the interval's rows.

        A value stands for the instant (UTC) at which its day, hour … starts.

        Raises:
            ExecutionError: The column's type or format cannot tell the interval's rows apart.
        """
        column, kind = quote(self.name), self.type.lower()
        if kind in ("timestamp", "timestamp_ltz"):
            return _between(column, *_literals("TIMESTAMP", "%Y-%m-%d %H:%M:%S.%fZ", interval))
        if kind == "timestamp_ntz":
            return _between(column, *_literals("TIMESTAMP_NTZ", "%Y-%m-%d %H:%M:%S.%f", interval))
        if kind == "date":
            self._check_step(interval, "%d", "a DATE")
            return _between(column, *_literals("DATE", "%Y-%m-%d", interval))
        if kind == "string" or kind.startswith(("varchar", "char", "string ")):
            return self._formatted(column, interval, _DEFAULT_TEXT, string_literal)
        if kind in _INTEGERS:
            return self._formatted(column, interval, _DEFAULT_NUMBER, lambda text: str(int(text)))
        raise ExecutionError(
            f"the time column '{self.name}' is of type {self.type}, which tells no time",
            hint="use a TIMESTAMP, DATE, STRING or INT column as time_column",
        )

    @property
    def pattern(self) -> str:
        """The strftime format of text and numbers, written out."""
        default = _DEFAULT_NUMBER if self.type.lower() in _INTEGERS else _DEFAULT_TEXT
        return _expand(self.format or default)

    def _formatted(
        self, column: str, interval: Interval, default: str, literal: Callable[[str], str]
    ) -> str:
        text = _expand(self.format or default)
        finest = next((d for d in _FINEST_FIRST if d in text), None)
        if finest is None or not set(re.findall("%.", text)) <= _KNOWN:
            raise ExecutionError(
                f"the time_format '{text}' of '{self.name}' cannot be used",
                hint="write it with strftime's %Y, %m, %d, %H, %M, %S (and %y, %b, %B, %f)",
            )
        self._check_step(interval, finest, f"text of the format {text}")
        if _keeps_order(text):
            start, end = (literal(_format(i, text)) for i in (interval.start, interval.end))
            return f"{column} >= {start} AND {column} < {end}"
        values = [literal(_format(instant, text)) for instant in self._steps(interval, finest)]
        return f"{column} IN ({', '.join(values)})"

    def _check_step(self, interval: Interval, finest: str, what: str) -> None:
        """Refuse intervals whose ends lie within one value of the column."""
        for instant in (interval.start, interval.end):
            if _floor(instant, finest) != instant:
                raise ExecutionError(
                    f"the time column '{self.name}' is {what}, which cannot tell the interval "
                    f"{interval} from the rest of its {_UNITS[finest]}",
                    hint=f"use a TIMESTAMP as time_column, or a cron of whole {_UNITS[finest]}s",
                )

    def _steps(self, interval: Interval, finest: str) -> list[datetime]:
        values: list[datetime] = []
        instant = interval.start
        while instant < interval.end:
            values.append(instant)
            instant = _next(instant, finest)
            if len(values) > _MOST_VALUES:
                raise ExecutionError(
                    f"the time_format '{self.format}' of '{self.name}' does not sort by time, "
                    f"and {interval} has more than {_MOST_VALUES} of its values",
                    hint="use a format that sorts, such as %Y-%m-%d, or set a batch_size",
                )
        return values


_UNITS = {
    "%f": "microsecond",
    "%S": "second",
    "%M": "minute",
    "%H": "hour",
    "%d": "day",
    "%m": "month",
    "%Y": "year",
}


def _between(column: str, start: str, end: str) -> str:
    return f"{column} >= {start} AND {column} < {end}"


def _literals(type_: str, pattern: str, interval: Interval) -> tuple[str, str]:
    start, end = (f"{type_} '{_format(i, pattern)}'" for i in (interval.start, interval.end))
    return start, end


def _format(instant: datetime, pattern: str) -> str:
    """Format with four-digit years everywhere (the C library drops leading zeros)."""
    return instant.strftime(pattern.replace("%Y", f"{instant.year:04d}"))


def _expand(pattern: str) -> str:
    for short, long in _ALIASES.items():
        pattern = pattern.replace(short, long)
    return pattern


def _keeps_order(pattern: str) -> bool:
    """Say whether texts of a format sort like the instants: year first, each part once."""
    parts = re.findall("%.", pattern)
    return parts == ["%Y", "%m", "%d", "%H", "%M", "%S", "%f"][: len(parts)]


def _floor(instant: datetime, finest: str) -> datetime:
    keep = _FINEST_FIRST[::-1].index(finest)
    parts = ("month", "day", "hour", "minute", "second", "microsecond")
    defaults = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0}
    return instant.replace(**{name: defaults[name] for name in parts[keep:]})  # type: ignore[arg-type]


def _next(instant: datetime, finest: str) -> datetime:
    if finest == "%Y":
        return instant.replace(year=instant.year + 1)
    if finest == "%m":
        return (instant.replace(day=1) + timedelta(days=32)).replace(day=1)
    seconds = {"%d": 86400.0, "%H": 3600.0, "%M": 60.0, "%S": 1.0, "%f": 1e-6}[finest]
    return instant + timedelta(seconds=seconds)
