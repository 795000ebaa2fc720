"""How a model's rows come to be: of itself, or of all time at every interval."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_header, place_in_query
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.model import Model
from vde_dagster.project.problem import Problem

_INTERVAL = re.compile(r"@\{?(start|end)_", re.IGNORECASE)


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
