"""A time column that cannot tell the intervals apart that its model is filled by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.cadence import Cadence
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_header
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.time_column import TimeColumn
from vde_dagster.project.problem import Problem

_SOME_DAY = datetime(2013, 1, 1, tzinfo=timezone.utc)
_WITHOUT_DOUBT = re.compile(
    r"(?i)(date|string|varchar|char|tinyint|smallint|int|bigint|double|float|boolean|binary"
    r"|decimal|array|map|struct)\b"
)
"""Types by which a fill is sure to go; a timestamp tells any interval."""


def time_columns(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Ask for the rows of one interval, as a fill does."""
    model = known.model
    apart = model.kind.interval_column
    if apart is None:
        return
    types = {column.name.lower(): column.type for column in known.columns or ()}
    type_ = types.get(apart.name.lower()) or ("STRING" if apart.format else None)
    if type_ is None or not _WITHOUT_DOUBT.match(type_):
        return
    if type_.lower() in ("smallint", "int", "bigint") and not apart.format:
        yield Problem(
            f"{model.name}: the time column '{apart.name}' is {type_} without a format, so that "
            "20240131 is taken for 31 January 2024",
            f"write time_column ({apart.name}, '%Y%m%d'), or the format that its numbers have",
            place_in_header(model, "kind", apart.name),
            certain=False,
        )
    unit = Cadence.of(model).unit
    start = unit.floor(_SOME_DAY)
    # The second one begins within a day, month or year unless the unit is one, or longer.
    first = unit.shift(start, 1)
    interval = Interval(first, unit.shift(first, 1))
    try:
        TimeColumn(apart.name, type_, apart.format).condition(interval)
    except ExecutionError as error:
        yield Problem(
            f"{model.name}: {error.message}".replace(str(interval), "of its cron", 1),
            error.hint or "use a TIMESTAMP column",
            place_in_header(model, "kind", apart.name),
        )
