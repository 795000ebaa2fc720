"""A time column, or texts of instants, that cannot tell the intervals apart that fill a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.cadence import Cadence
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_header, place_in_query
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.time_column import TimeColumn
from vde_dagster.project.model import Model
from vde_dagster.project.problem import Problem

_SOME_DAY = datetime(2013, 1, 1, tzinfo=timezone.utc)
_WITHOUT_DOUBT = re.compile(
    r"(?i)(date|string|varchar|char|tinyint|smallint|int|bigint|double|float|boolean|binary"
    r"|decimal|array|map|struct)\b"
)
"""Types by which a fill is sure to go; a timestamp tells any interval."""
_WITHOUT_ZONE = re.compile(r"(?i)(string|varchar|char|tinyint|smallint|int|bigint|timestamp_ntz)\b")
"""Types that Spark compares with texts without asking for the session's time zone."""
_INSTANT = re.compile(r"[@$]\{?(?:start|end)_(?:ts|dtntz)\b", re.IGNORECASE)
_DAY = re.compile(r"[@$]\{?(?:start|end)_(?:ds|date)\b", re.IGNORECASE)
_UTC = frozenset(
    ("utc", "uct", "gmt", "z", "zulu", "universal", "etc/utc", "etc/uct", "etc/gmt", "+00:00")
)
_ZONE = "spark.sql.session.timezone"
_SET_ZONE = re.compile(
    r"(?i)^\s*SET\s+(?:TIME\s+ZONE\s+|`?spark\.sql\.session\.timeZone`?\s*=\s*)['\"]?([^'\";]+)"
)


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
            f"{model.name}: {error.message}".replace(interval.text, "of its cron", 1),
            error.hint or "use a TIMESTAMP column",
            place_in_header(model, "kind", apart.name),
        )


def read_in_other_zone(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find texts of instants that Spark reads in a time zone which is not that of intervals.

    Compared with a TIMESTAMP, a text without a zone is cast to one in the session's, and so is a
    DATE (https://spark.apache.org/docs/latest/sql-ref-ansi-compliance.html); a TIMESTAMP_NTZ or a
    text is compared as it is.
    """
    model = known.model
    zone = _zone_of(model)
    if zone is None or model.query is None or not model.kind.by_intervals:
        return
    apart = model.kind.interval_column
    types = {column.name.lower(): column.type for column in known.columns or ()}
    type_ = (types.get(apart.name.lower()) if apart else None) or ""
    if _WITHOUT_ZONE.match(type_) or (apart is not None and apart.format):
        return
    found = _INSTANT.search(model.query)
    if found is None and type_.lower() in ("timestamp", "timestamp_ltz"):
        found = _DAY.search(model.query)
    if found is None:
        return
    name = found.group().lstrip("@${")
    yield Problem(
        f"{model.name}: its session's time zone is {zone}, in which Spark reads @{name} where it "
        "meets a TIMESTAMP, and intervals are those of UTC: rows near their ends are left out",
        f"compare with @{name.partition('_')[0]}_dt, which is an instant, or leave the session's "
        "time zone at UTC",
        place_in_query(model, found.start()),
        certain=False,
    )


def _zone_of(model: Model) -> str | None:
    """Return the time zone of a model's session, unless it is UTC."""
    zone = next((value for key, value in model.session if key.lower() == _ZONE), None)
    for statement in model.pre_statements:
        found = _SET_ZONE.match(statement)
        zone = found.group(1).strip() if found else zone
    return None if zone is None or zone.lower() in _UTC else zone
