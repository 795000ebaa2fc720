"""Audits whose queries name columns that the model does not have, or that Spark refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vde_dagster import semantics
from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_header
from vde_dagster.planning.checks.queries import NAMES
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.model import Audit
from vde_dagster.project.problem import Problem
from vde_dagster.project.reading.audit_library import BUILTIN_AUDITS

_WORDS = re.compile(r"'(?:[^'\\]|\\.)*'|[^\W\d]\w*")
_OF_BUILTINS = frozenset(
    {
        "all",
        "and",
        "as",
        "audited_value",
        "by",
        "cast",
        "column_name",
        "count",
        "distinct",
        "distinct_values",
    }
    | {"duplicated_value", "failed", "false", "from", "group", "having", "in", "is", "lag"}
    | {"length", "like", "lower", "not", "not_null", "null", "or", "order", "over", "previous"}
    | {"rlike", "row_count", "select", "steps", "string", "this_model", "true", "union", "where"}
)
"""Every word that the built-in audits' queries have beside the model's columns."""


def audited_columns(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Read each audit's query over the model's columns."""
    if not known.model.audits or (known.columns is None and known.model.kind.is_read):
        return
    repeated = any(one.rule == "repeated" for one in known.findings)
    columns = {
        column.name: column.type or "UNKNOWN"
        for column in known.columns or ()
        if not (repeated and ":" in column.name)  # Those get a number behind their name.
    }
    plain = _OF_BUILTINS.union(name.lower() for name in columns)
    for audit in known.model.audits:
        if audit.name in BUILTIN_AUDITS and _words(audit.query) <= plain:
            continue
        yield from _read(known, audit, columns, parents)


def _words(query: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(query) if word[0] != "'"}


def _read(
    known: Known, audit: Audit, columns: dict[str, str], parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    model = known.model
    schema = {
        str(name): {column.name: column.type or "UNKNOWN" for column in parent.columns}
        for name, parent in {**parents, **known.audited}.items()
        if parent.columns
    }
    schema[str(model.name)] = columns
    try:
        found = semantics.analyze(
            audit.query.replace("@this_model", str(model.name)),
            schema,
            functions=known.functions,
            of=f"audit {audit.name} of {model.name}",
        )
    except semantics.SemanticError as error:
        for mistake in error.mistakes:
            what = mistake.unplaced if isinstance(mistake, semantics.SemanticError) else ""
            word = mistake.word if isinstance(mistake, semantics.SemanticError) else None
            yield Problem(
                f"{model.name}: audit {audit.name}: {what or mistake.message}",
                mistake.hint,
                place_in_header(model, "audits", audit.name, word or ""),
            )
        return
    for one in found.findings:
        if one.rule not in NAMES:
            yield Problem(
                f"{model.name}: audit {audit.name}: {one.message}",
                one.hint,
                place_in_header(model, "audits", audit.name),
                one.certain,
            )
