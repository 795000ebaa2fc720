"""Checks of how a model is filled: its intervals, partitions, time column and time zone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.checks.diagnostics import CheckedModel, place_in_header
from vde_dagster.planning.intervals.cadence import Cadence, IntervalUnit
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.intervals.time_column import TimeColumn
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.macros.variables import find_time_variable, find_variables
from vde_dagster.project.model import Model
from vde_dagster.sql.reading import read_query

_ASKED = re.compile(r"(?<![(,'\"])(?<!, )@\{?start_(date|ds|dt|dtntz|ts|tstz)\b", re.IGNORECASE)
"""A variable for the start of an interval, outside of a call's arguments."""
_PARTITION = re.compile(r"\s*(?:(\w+)\s*\()?\s*`?(\w+)`?")
_LASTING = {
    **dict.fromkeys(("year", "years"), IntervalUnit.YEAR),
    **dict.fromkeys(("month", "months"), IntervalUnit.MONTH),
    **dict.fromkeys(("day", "days", "date"), IntervalUnit.DAY),
    **dict.fromkeys(("hour", "hours", "date_hour"), IntervalUnit.HOUR),
}


def check_self_read(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a model that is rebuilt as a whole and reads itself."""
    model = known.model
    if model.query is None or model.kind.by_intervals:
        return
    if model.name.name.lower() not in model.query.lower():
        return

    for table in read_query(model.query).tables:
        parts = tuple(part.name.lower() for part in table.parts)
        if parts == (model.name.namespace.lower(), model.name.name.lower()):
            start = table.parts[-1].meta.get("start")
            yield Problem(
                f"{model.name} is of kind {model.kind.name} and reads itself",
                "read its source models instead, or choose an incremental kind",
                model.place(start),
            )
            return


def check_interval_filter(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a query that reads all rows of its parents for each interval."""
    model = known.model
    column = model.kind.interval_column
    if model.query is None or column is None or not model.depends_on:
        return
    if _has_interval(model) or any(_has_interval(parent.model) for parent in _inlined(parents)):
        return
    from vde_dagster.semantics.checks.interval_filters import write_interval_filter

    types = {output.name.lower(): output.type for output in known.columns or ()}
    condition = write_interval_filter(column.name, types.get(column.name.lower()), column.format)
    yield Problem(
        f"{model.name} is filled by intervals, but its query does not filter by "
        "interval: every interval reads all rows of its parents",
        f"add WHERE {condition}, on a column of a parent",
        place_in_header(model, "kind"),
        certain=False,
    )


def check_view_variables(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a view that uses an interval or the time of a run."""
    model = known.model
    if model.query is None or model.kind.owns_table or not model.kind.is_shown:
        return
    embedded = [one.model for one in _inlined(parents) if not one.model.kind.is_shown]
    for one in (model, *embedded):
        query = one.query or ""
        found = find_time_variable(query)
        if found is None:
            continue
        variable = query[slice(*found)]
        through = f" through {one.name}" if one is not model else ""
        yield Problem(
            f"{model.name} is of kind {model.kind.name} and uses {variable}{through}: a view "
            "is never filled, so it has no interval and no execution time",
            "move the condition to models that read the view, use current_date() or "
            "current_timestamp(), or choose a kind with a table",
            model.place(found[0]) if one is model else place_in_header(model, "kind"),
        )
        return


def check_partition_length(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a model whose intervals are shorter than the partitions that a fill replaces."""
    # A query that reads more than its interval is correct, for example one with `@start_date` in an
    # hourly model. A query that computes its range (`date_trunc('MM', @start_date)`) may be
    # correct.
    model = known.model
    if model.query is None or not model.kind.by_partitions:
        return
    types = {column.name.lower(): (column.type or "").upper() for column in known.columns or ()}
    steps = [_step(text, types) for text in model.partitioned_by]
    lasting = [step for step in steps if step is not None]
    unit = Cadence.of(model).unit
    asked = [
        IntervalUnit.DAY if name.lower() in ("date", "ds") else IntervalUnit.FIVE_MINUTE
        for name in _ASKED.findall(model.query)
    ]
    if not lasting or not asked:
        return
    shortest = min(lasting, key=lambda one: one.value)
    if max(unit.value, min(one.value for one in asked)) >= shortest.value:
        return
    part, whole = unit.text, shortest.text
    yield Problem(
        f"{model.name} is filled by the {part}, and each fill replaces its whole partition, a "
        f"{whole} ({', '.join(model.partitioned_by)}): rows of the rest of the {whole} are lost",
        f"fill it by the {whole} (cron, interval_unit), or partition it by the {part}; or let the "
        f"query read the whole {whole}",
        place_in_header(model, "partitioned_by"),
        certain=None not in steps,
    )


def _step(text: str, types: Mapping[str, str]) -> IntervalUnit | None:
    """Return the length of a partition: `days(at)` -> a day; None if it is not known."""
    match = _PARTITION.match(text)
    transform, column = (match[1] or "", match[2]) if match else ("", "")
    if transform.lower() in _LASTING:
        return _LASTING[transform.lower()]
    return IntervalUnit.DAY if not transform and types.get(column.lower()) == "DATE" else None


def _has_interval(model: Model) -> bool:
    found = (
        one for text in (model.query or "", *model.pre_statements) for one in find_variables(text)
    )
    return any(name.startswith(("start_", "end_")) for name, *_ in found)


def _inlined(parents: Mapping[ModelName, Snapshot]) -> list[Snapshot]:
    return [parent for parent in parents.values() if parent.model.query and not parent.has_table]


_SOME_DAY = datetime(2013, 1, 1, tzinfo=timezone.utc)
_WITHOUT_DOUBT = re.compile(
    r"(?i)(date|string|varchar|char|tinyint|smallint|int|bigint|double|float|boolean|binary"
    r"|decimal|array|map|struct)\b"
)
"""Types for which the check of a time column is certain; timestamps need no check."""
_WITHOUT_ZONE = re.compile(r"(?i)(string|varchar|char|tinyint|smallint|int|bigint|timestamp_ntz)\b")
"""Types that Spark compares with texts without using the session's time zone."""
_INSTANT = re.compile(r"[@$]\{?(?:start|end)_(?:ts|dtntz)\b", re.IGNORECASE)
_DAY = re.compile(r"[@$]\{?(?:start|end)_(?:ds|date)\b", re.IGNORECASE)
_UTC = frozenset(
    ("utc", "uct", "gmt", "z", "zulu", "universal", "etc/utc", "etc/uct", "etc/gmt", "+00:00")
)
_ZONE = "spark.sql.session.timezone"
_SET_ZONE = re.compile(
    r"(?i)^\s*SET\s+(?:TIME\s+ZONE\s+|`?spark\.sql\.session\.timeZone`?\s*=\s*)['\"]?([^'\";]+)"
)


def check_time_column(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a time column whose type or format cannot select the rows of one interval."""
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
            f"{model.name}: the time column '{apart.name}' is {type_} without a format, so "
            "20240131 is read as 31 January 2024",
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


def check_time_zone(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report time variables that Spark interprets in another time zone than UTC."""
    # If a DATE or a text without a zone is compared with a TIMESTAMP, Spark casts it to a TIMESTAMP
    # in the session's zone. If it is compared with a TIMESTAMP_NTZ or a text, Spark does not
    # convert it. See https://spark.apache.org/docs/latest/sql-ref-ansi-compliance.html.
    model = known.model
    zone = _session_zone(model)
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
        f"{model.name}: Spark converts @{name} in the session's time zone {zone} to compare it "
        "with a TIMESTAMP; intervals are in UTC, so rows near the ends of intervals are left out",
        f"compare with @{name.partition('_')[0]}_dt, which is an instant, or leave the session's "
        "time zone at UTC",
        model.place(found.start()),
        certain=False,
    )


def _session_zone(model: Model) -> str | None:
    zone = next((value for key, value in model.session if key.lower() == _ZONE), None)
    for statement in model.pre_statements:
        found = _SET_ZONE.match(statement)
        zone = found.group(1).strip() if found else zone
    return None if zone is None or zone.lower() in _UTC else zone
