"""What the checks of queries say, with its place in the file and by the model's kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_query
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.problem import Problem
from vde_dagster.sql.scanner import SourceText, scan

_COMPARES = frozenset({"=", "<", ">"})
"""How signs of comparisons end."""
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


def double_quoted(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find texts that are compared, in the quotes that are those of names in most engines."""
    model = known.model
    if model.query is None or '"' not in model.query:
        return
    tokens = [one for one in scan(SourceText(Path(), model.query)) if one.kind != "comment"]
    for before, token in pairwise(tokens):
        if token.text[0] == '"' and before.text in _COMPARES:
            text = token.text[1:-1]
            yield Problem(
                f"{model.name}: {token.text} is a text in Spark, and no column as in most engines",
                f"write '{text}' for the text, `{text}` for the column",
                place_in_query(model, token.start + 1),
                certain=False,
            )
