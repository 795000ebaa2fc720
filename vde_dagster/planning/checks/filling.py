"""How a model's rows come to be: of itself, of all time at every interval, or of a part of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.cadence import Cadence, IntervalUnit
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_header, place_in_query
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.model import Model
from vde_dagster.project.problem import Problem

_INTERVAL = re.compile(r"@\{?(start|end)_", re.IGNORECASE)
_ASKED = re.compile(r"(?<![(,'\"])(?<!, )@\{?start_(date|ds|dt|dtntz|ts|tstz)\b", re.IGNORECASE)
"""Where an interval begins, if it is no argument of a call."""
_PARTITION = re.compile(r"\s*(?:(\w+)\s*\()?\s*`?(\w+)`?")
_LASTING = {
    **dict.fromkeys(("year", "years"), IntervalUnit.YEAR),
    **dict.fromkeys(("month", "months"), IntervalUnit.MONTH),
    **dict.fromkeys(("day", "days", "date"), IntervalUnit.DAY),
    **dict.fromkeys(("hour", "hours", "date_hour"), IntervalUnit.HOUR),
}


def reads_itself(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find a model that is made anew as a whole, and of itself."""
    model = known.model
    if model.query is None or model.kind.by_intervals:
        return
    if model.name.name.lower() not in model.query.lower():
        return
    from vde_dagster.sql.reading import read_query
    from vde_dagster.sql.trees import tables_read

    for table in tables_read(read_query(model.query).tree):
        parts = tuple(part.name.lower() for part in table.parts)
        if parts == (model.name.namespace.lower(), model.name.name.lower()):
            start = table.parts[-1].meta.get("start")
            yield Problem(
                f"{model.name} is of kind {model.kind.name} and reads itself",
                "read the models that it is made of, or make it an incremental kind",
                place_in_query(model, None if start is None else start + 1),
            )
            return


def unfiltered(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find a model that computes all of its rows for each interval of time."""
    model = known.model
    column = model.kind.interval_column
    if model.query is None or column is None or not model.depends_on:
        return
    if _has_interval(model) or any(_has_interval(parent.model) for parent in _inlined(parents)):
        return
    yield Problem(
        f"{model.name} is filled by intervals and its query does not ask for one: every interval "
        "reads everything",
        f"add WHERE {column.name} BETWEEN @start_date AND @end_date, or the like with @start_ts "
        "and @end_ts, on a column of what is read",
        place_in_header(model, "kind"),
        certain=False,
    )


def parts_of_partitions(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find a model that replaces partitions of days, or longer ones, by the rows of parts of them.

    A query that asks for more than its interval, as `@start_date` does of an hour, is right; so may
    be one that computes what it asks for (`date_trunc('MM', @start_date)`).
    """
    model = known.model
    policy = model.kind.in_place
    if model.query is None or policy is None or not policy.by_partitions:
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
    part, whole = unit.name.lower().replace("_", " "), shortest.name.lower()
    yield Problem(
        f"{model.name} is filled by the {part}, and each fill replaces the whole {whole} that is "
        f"its partition ({', '.join(model.partitioned_by)}): rows of the rest of it are lost",
        f"fill it by the {whole} (cron, interval_unit), or partition it by the {part}; or let the "
        f"query read the whole {whole}",
        place_in_header(model, "partitioned_by"),
        certain=None not in steps,
    )


def _step(text: str, types: Mapping[str, str]) -> IntervalUnit | None:
    """Return how long a partition lasts; None where it may have nothing to do with time."""
    match = _PARTITION.match(text)
    transform, column = (match[1] or "", match[2]) if match else ("", "")
    if transform.lower() in _LASTING:
        return _LASTING[transform.lower()]
    return IntervalUnit.DAY if not transform and types.get(column.lower()) == "DATE" else None


def commits_of(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find a model that reads the commits of what is not read, or has none."""
    model = known.model
    name = model.kind.parent_by_commits
    if name is None:
        return
    place = place_in_header(model, "kind")
    parent = parents.get(name)
    if parent is None:
        what = f"{model.name} does not read {name}, whose commits its kind {model.kind.name} adds"
        hint = f"it reads {', '.join(map(str, parents)) or 'nothing'}"
        yield Problem(what, hint, place)
    elif not (parent.has_table or parent.model.kind.is_external):
        what = f"{name} has no table, so no commits that {model.name} could read"
        yield Problem(what, f"make {name} a kind with a table, or read what it reads", place)


def _has_interval(model: Model) -> bool:
    texts = (model.query, *model.pre_statements)
    return any(text is not None and _INTERVAL.search(text) for text in texts)


def _inlined(parents: Mapping[ModelName, Snapshot]) -> list[Snapshot]:
    return [parent for parent in parents.values() if parent.model.query and not parent.has_table]
