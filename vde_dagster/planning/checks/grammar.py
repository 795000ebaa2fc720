"""Queries that SQLGlot reads and the grammar of the Spark that is installed does not take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_header, place_in_query
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.macros.time_variables import (
    substitute_time_variables,
    time_variable_values,
)
from vde_dagster.project.problem import Problem
from vde_dagster.sql.grammar.spark import Refusal, spark_grammar
from vde_dagster.sql.qualify import without_qualify

_VALUES = time_variable_values(*[datetime(2024, 1, n, tzinfo=timezone.utc) for n in (1, 2, 3)])
_FEW = 6
_TYPES = frozenset({"STRING", "DECIMAL", "SMALLINT"})
_CONTEXTS = (160, 80, 40, 20, 10, 0)
"""How many characters before a refused word are looked for in the author's query."""


def refused_by_spark(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Ask Spark's grammar about the queries of a model and of its audits, as Spark gets them."""
    model = known.model
    if model.query is not None:
        sent, refusal = _refusal(model.query)
        if refusal is not None:
            place = place_in_query(model, _column(model.query, sent, refusal))
            yield Problem(f"{model.name}: {_message(sent, refusal)}", _hint(refusal), place)
    for audit in model.audits:
        sent, refusal = _refusal(audit.query.replace("@this_model", str(model.name)))
        if refusal is not None:
            what = f"{model.name}: audit {audit.name}: {_message(sent, refusal)}"
            yield Problem(what, _hint(refusal), place_in_header(model, "audits", audit.name))


def _refusal(query: str) -> tuple[str, Refusal | None]:
    """Return a query as Spark gets it, and where its grammar does not go on."""
    grammar = spark_grammar()
    sent = without_qualify(substitute_time_variables(query, _VALUES))
    return sent, None if grammar is None else grammar.refusal(sent)


def _message(sent: str, refusal: Refusal) -> str:
    before = " ".join(sent[: refusal.start].split()[-3:])
    after = f" after `{before}`" if before else ""
    if not refusal.text:
        return f"Spark's grammar does not take the end of the query here,{after}"
    return f"Spark's grammar does not take this here: `{refusal.text}`{',' if after else ''}{after}"


def _hint(refusal: Refusal) -> str:
    if refusal.text.startswith('"'):
        return "Spark reads a text in these quotes; names are in backquotes: `name`"
    if set(refusal.expected) >= _TYPES:
        return "Spark's types are STRING, INT, DECIMAL(10, 2) and others of its SQL reference"
    if 0 < len(refusal.expected) <= _FEW:
        return f"Spark would go on with {' or '.join(refusal.expected)}"
    return "See Spark's SQL syntax; a query of another dialect says so with dialect"


def _column(query: str, sent: str, refusal: Refusal) -> int:
    """Where in a query stands what is refused of its other form: behind the same words."""
    if not refusal.text:
        return len(query.rstrip())
    for width in _CONTEXTS:
        piece = sent[max(0, refusal.start - width) : refusal.end]
        if piece in query:
            return query.index(piece) + len(piece) - len(refusal.text) + 1
    return 1
