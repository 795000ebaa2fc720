"""Properties that name columns which the model does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.base.suggestions import suggest
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_header
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.problem import Problem

_TRANSFORM = re.compile(r"\s*(?:\w+\s*\((?:\s*\d+\s*,)?\s*)?(`(?:[^`]|``)*`|[^\W\d]\w*)")
"""A column, or one in a partition's transform: `day`, `days(ts)`, `bucket(4, id)`."""


_TRANSFORMS = (
    *("year", "years", "month", "months", "day", "days", "date", "hour", "hours", "date_hour"),
    *("bucket", "truncate"),
)
_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*$", re.DOTALL)


def transforms(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find what Iceberg cannot partition by."""
    model = known.model
    for text in model.partitioned_by if model.kind.owns_table else ():
        place = place_in_header(model, "partitioned_by")
        call = _CALL.match(text)
        if call is None:
            if _column(text) is None:
                hint = "write partitioned_by (column), or (days(column))"
                yield Problem(f"partitioned_by of {model.name}: '{text}' is no column", hint, place)
            continue
        name = call[1].lower()
        if name not in _TRANSFORMS:
            yield Problem(
                f"partitioned_by of {model.name}: Iceberg has no transform '{name}'",
                suggest(name, _TRANSFORMS, "transforms"),
                place,
            )
        elif name in ("bucket", "truncate") and not re.search(r"(^|,)\s*\d+\s*(,|$)", call[2]):
            yield Problem(
                f"partitioned_by of {model.name}: '{text}' has no number",
                f"write {name}(16, column)",
                place,
            )


def named_columns(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Compare what a header says of columns with those that there are."""
    model = known.model
    if known.columns is None or model.kind.is_external:
        return
    if not (model.partitioned_by or model.clustered_by or model.columns or model.grains) and (
        not model.column_descriptions
    ):
        return
    columns = [column.name for column in known.columns]
    have = {name.lower() for name in columns}

    def problems(what: str, words: str, named: list[str], certain: bool) -> Iterator[Problem]:
        for name in dict.fromkeys(named):
            if name.lower() not in have:
                yield Problem(
                    f"{model.name} has no column '{name}', which {words}",
                    suggest(name, columns, "its columns"),
                    place_in_header(model, what, name),
                    certain,
                )

    layout = [_column(text) for text in model.partitioned_by]
    yield from problems("partitioned_by", "partitioned_by names", [c for c in layout if c], True)
    sort = [_column(text) for text in model.clustered_by]
    yield from problems("clustered_by", "clustered_by names", [c for c in sort if c], True)
    if model.query is not None:
        declared = [column.name for column in model.columns]
        yield from problems("columns", "columns declares", declared, False)
    described = list(model.column_descriptions)
    yield from problems("column_descriptions", "column_descriptions names", described, False)
    grains = [name for grain in model.grains for name in grain]
    yield from problems("grain", "its grain names", grains, False)


def undeclared(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find a Python model that does not say which columns its table has."""
    model = known.model
    if model.python is not None and model.kind.owns_table and not model.columns:
        yield Problem(
            f"{model.name} is a Python model and does not declare its columns",
            "give the decorator columns={'name': 'TYPE', …}",
            model.location,
        )


def _column(text: str) -> str | None:
    found = _TRANSFORM.match(text)
    return found[1].strip("`").replace("``", "`") if found else None
