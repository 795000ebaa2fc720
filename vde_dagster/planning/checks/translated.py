"""Operators of another dialect in a model's statements, keys and merge clauses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName, quote
from vde_dagster.planning.checks.diagnostics import CheckedModel, place_in_header
from vde_dagster.planning.snapshots.snapshot import Snapshot, column_types
from vde_dagster.project.model import Model
from vde_dagster.sql.other_dialects import SPARKS


def check_statement_operators(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report operators in statements and properties that may have other results on Spark."""
    # Only SQL that was translated from another dialect is checked. The query is checked elsewhere.
    model = known.model
    if model.dialect in SPARKS:
        return
    texts = [*_statements(model), *model.kind.expression_queries(quote(*model.name)).items()]
    if not texts:
        return
    from vde_dagster.semantics.checks.operands import Origin
    from vde_dagster.semantics.translated import find_operators

    origin = Origin(model.dialect, frozenset(model.dialect_trust), model.tool)
    own = {column.name: column.type or "UNKNOWN" for column in known.columns or ()}
    schema = {**column_types(parents), str(model.name): own} if own else column_types(parents)
    for what, text in texts:
        for one in find_operators(text, schema, origin, known.functions):
            place = place_in_header(model, what)
            message = f"{model.name}: {what}: {one.message}"
            yield Problem(message, one.hint, place, one.certain, untyped=one.untyped)


def _statements(model: Model) -> Iterator[tuple[str, str]]:
    this = quote(*model.name)
    for what, texts in (
        ("pre_statements", model.pre_statements),
        ("post_statements", model.post_statements),
        ("on_virtual_update", model.on_virtual_update),
    ):
        for text in texts:
            yield what, text.replace("@this_model", this)
