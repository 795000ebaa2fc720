"""What the checks of queries say, with its place in the file and by the model's kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_query
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.problem import Problem
from vde_dagster.sql.scanner import SourceText, scan

_COMPARES = frozenset({"=", "<", ">", "!", "LIKE", "BETWEEN"})
"""Words and signs of comparisons; of those of two characters, the one beside a text."""
_SETTING = "spark.sql.ansi.doubleQuotedIdentifiers"
_AS_NAMES = re.compile(re.escape(_SETTING) + r"`?\s*=\s*true", re.IGNORECASE)
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
    """Find texts that are compared, in the quotes that are those of names in most engines.

    Where a setting makes names of all of them, each is refused: they are read as texts.
    """
    model = known.model
    if model.query is None or '"' not in model.query:
        return
    tokens = [one for one in scan(SourceText(Path(), model.query)) if one.kind != "comment"]
    said = [f"{key} = {value}" for key, value in model.session]
    names = any(_AS_NAMES.search(text) for text in (*said, *model.pre_statements))
    listed = False  # Whether it is a list of what a column is IN.
    for at, token in enumerate(tokens):
        before, after = (tokens[n].text if 0 <= n < len(tokens) else "" for n in (at - 1, at + 1))
        if before == "(":
            listed = at > 1 and tokens[at - 2].text.upper() == "IN"
        elif before == ")":
            listed = False
        compared = before.upper() in _COMPARES or after.upper() in _COMPARES or listed
        if token.text[0] == '"' and (compared or names):
            text = token.text[1:-1]
            what = f"{token.text} is a text in Spark, and no column as in most engines"
            if names:
                what = f"{token.text} would be a name by {_SETTING}, which is not supported"
            yield Problem(
                f"{model.name}: {what}",
                f"write '{text}' for the text, `{text}` for the column",
                place_in_query(model, token.start + 1),
                certain=names,
            )
