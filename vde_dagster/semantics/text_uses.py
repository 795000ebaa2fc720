"""Checks whether Spark uses text literals as texts, or may convert them to another type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from vde_dagster.semantics._sqlglot import parse
from vde_dagster.semantics.binding.binder import Binder, Unsupported
from vde_dagster.semantics.binding.calls import COMPARISONS
from vde_dagster.semantics.binding.ctes import NO_CTES
from vde_dagster.semantics.binding.queries import bind_query
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.semantics.types import infer, type_class
from vde_dagster.sql.grammar.strings import read_string
from vde_dagster.sql.trees import dismantle


def are_only_texts(
    query: str,
    schema: Mapping[str, Mapping[str, str]],
    stored: Mapping[str, str],
    is_selected: Callable[[str], bool],
    count: int,
) -> bool:
    """Return whether Spark certainly uses the selected literals of a query as texts.

    A literal is used as a text if it is compared with texts, or is an output column of type STRING.

    Args:
        schema: Spark SQL types by table and column.
        stored: Spark SQL types of the columns that store the output, by lower-case name.
        is_selected: Returns whether to check literals with this value.
        count: Number of literals to check; if the query has another number, return False.
    """
    tree = parse(query)
    try:
        binder = Binder(schema, {})
        try:
            bind_query(binder, tree, None, NO_CTES)
        except (Unsupported, SemanticError, RecursionError):
            return False
        asked = [
            literal
            for literal in tree.find_all(exp.Literal)
            if literal.is_string and is_selected(read_string(literal.this) or "")
        ]
        return len(asked) == count and all(_is_text(one, tree, stored) for one in asked)
    finally:
        dismantle(tree)


def _is_text(literal: exp.Literal, tree: exp.Expr, stored: Mapping[str, str]) -> bool:
    inner: exp.Expr = literal
    around = inner.parent
    while isinstance(around, exp.Paren):
        inner, around = around, around.parent
    if isinstance(around, exp.Alias):
        kind = stored.get(around.alias.lower(), "")
        return around.parent is tree and kind.upper() == "STRING"
    if isinstance(around, exp.In):
        return inner is not around.this and _all_texts([around.this, *around.expressions])
    if isinstance(around, exp.Between):
        return _all_texts([around.this, around.args["low"], around.args["high"]])
    if isinstance(around, exp.Binary) and isinstance(around, tuple(COMPARISONS)):
        return _all_texts([around.this, around.expression])
    return False


def _all_texts(values: Iterable[exp.Expr]) -> bool:
    return all(type_class(infer(value)) == "text" for value in values)
