"""What the checks of queries say, with its place in the model's file and by the model's kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_query
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.problem import Problem

NAMES = ("unnamed", "repeated")
"""Rules about the names of output columns."""


def query_problems(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Tell the mistakes in a model's query."""
    model = known.model
    for one in known.findings:
        if one.rule in NAMES and not model.kind.is_shown:
            continue  # Its readers may well do without the column.
        certain = one.certain and not (one.rule == "unnamed" and not model.kind.owns_table)
        location = place_in_query(model, one.column)
        yield Problem(f"{model.name}: {one.message}", one.hint, location, certain)
