"""All checks of a model, and the check by Spark's grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName, quote
from vde_dagster.planning.checks import changed_rows, filling, merges, names
from vde_dagster.planning.checks.diagnostics import (
    CheckedModel,
    check_double_quotes,
    place_in_header,
    query_problems,
)
from vde_dagster.planning.checks.translated import check_statement_operators
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.macros.variables import substitute_time_variables, time_variable_values
from vde_dagster.sql.alignment import find_in_query
from vde_dagster.sql.grammar.spark import Refusal, find_spark_refusal
from vde_dagster.sql.outline import replace_qualify

_VALUES = time_variable_values(*[datetime(2024, 1, n, tzinfo=timezone.utc) for n in (1, 2, 3)])
_FEW = 6
"""Maximum number of expected words that a hint lists."""
_LAST = re.compile(r"(?:\w+|\W)\s*$")
_TYPES = frozenset({"STRING", "DECIMAL", "SMALLINT"})


def check_spark_grammar(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    model = known.model
    if model.query is not None:
        sent, refusal = _refusal(model.query)
        if refusal is not None:
            end = _LAST.search(model.query)
            offset = find_in_query(model.query, sent, refusal.start, refusal.end)
            offset = end.start() if end and not refusal.text else offset
            what = f"{model.name}: {_message(sent, refusal)}"
            yield Problem(what, _hint(refusal), model.place(offset))
    for audit in model.audits:
        sent, refusal = _refusal(audit.query.replace("@this_model", quote(*model.name)))
        if refusal is not None:
            what = f"{model.name}: audit {audit.name}: {_message(sent, refusal)}"
            yield Problem(what, _hint(refusal), place_in_header(model, "audits", audit.name))


def _refusal(query: str) -> tuple[str, Refusal | None]:
    """Render a query for Spark, and find where Spark's grammar rejects it."""
    sent = replace_qualify(substitute_time_variables(query, _VALUES))
    return sent, find_spark_refusal(sent)


def _message(sent: str, refusal: Refusal) -> str:
    before = " ".join(sent[: refusal.start].split()[-3:])
    after = f" after `{before}`" if before else ""
    if not refusal.text:
        return f"Spark's grammar does not allow the end of the query here,{after}"
    return f"Spark's grammar does not allow `{refusal.text}` here{',' if after else ''}{after}"


def _hint(refusal: Refusal) -> str:
    if refusal.text.startswith('"'):
        return "Spark reads these quotes as a text; quote names with backquotes: `name`"
    if set(refusal.expected) >= _TYPES:
        return "Spark's types are STRING, INT, DECIMAL(10, 2) and others of its SQL reference"
    if 0 < len(refusal.expected) <= _FEW:
        return f"Spark expects {' or '.join(refusal.expected)}"
    return "See Spark's SQL syntax; for another dialect, write dialect in the header"


_CHECKS = (
    check_spark_grammar,
    query_problems,
    check_double_quotes,
    names.check_named_columns,
    names.check_partition_transforms,
    names.check_declared_columns,
    names.check_audit_columns,
    check_statement_operators,
    filling.check_self_read,
    filling.check_interval_filter,
    filling.check_view_variables,
    filling.check_partition_length,
    filling.check_time_column,
    filling.check_time_zone,
    merges.check_merge_assignments,
    merges.check_repeated_merge,
    changed_rows.check_parents_by_commits,
    changed_rows.check_changed_keys,
    changed_rows.check_refresh_changes,
    names.unused_properties,
    names.unused_statements,
    names.unused_stages,
)


def check_model(known: CheckedModel, parents: Mapping[ModelName, Snapshot]) -> tuple[Problem, ...]:
    found = [problem for check in _CHECKS for problem in check(known, parents)]
    return tuple(sorted(dict.fromkeys(found), key=lambda one: one.location.order))
