"""Checks of the assignments and conditions of merges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from sqlglot import exp

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.diagnostics import NAMES, CheckedModel, place_in_header
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.sql.expressions import read_expression
from vde_dagster.sql.reading import call_name

_COUNTING = frozenset(
    (
        *("try_add", "try_subtract", "try_multiply", "try_divide", "concat", "concat_ws"),
        *("array_append", "array_prepend", "array_insert"),
        *("date_add", "date_sub", "dateadd", "add_months", "timestampadd"),
    )
)
"""Functions whose results depend on accumulated values, unlike COALESCE or GREATEST."""
_ASKING = frozenset({"if", "iff", "nvl2"})
"""Functions whose first argument chooses a value."""


def check_merge_assignments(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report mistakes in a merge's assignments and conditions, such as a value of a wrong type."""
    kind = known.model.kind
    if known.columns is None or not (kind.assignments or kind.conditions):
        return
    from vde_dagster.semantics.analysis import analyze

    types = {column.name: column.type or "UNKNOWN" for column in known.columns}
    shown = ", ".join(f"{text} AS v{i}" for i, (_, text) in enumerate(kind.assignments))
    only = " AND ".join(f"({text})" for text in kind.conditions)
    query = f"SELECT {shown or '1 AS v'} FROM source CROSS JOIN target"
    try:
        found = analyze(
            f"{query} WHERE {only}" if only else query,
            {"source": types, "target": types},
            functions=known.functions,
        )
    except SemanticError:
        return  # Another check reports missing columns.
    for one in found.findings:
        if one.rule not in NAMES and one.certain:
            location = place_in_header(known.model, "kind", "when_matched")
            yield Problem(f"{known.model.name}, in its kind: {one.message}", one.hint, location)
    yield from _refused(known, found.output_types, types)


def check_repeated_merge(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a merge that counts rows twice, because a lookback merges the same rows again."""
    # SQLMesh calls such models non-idempotent. Its documentation does not mention their lookback:
    # https://sqlmesh.readthedocs.io/en/stable/concepts/models/model_kinds/
    model = known.model
    kind = model.kind
    if not kind.lookback or not kind.assignments:
        return
    changed = {
        name.lower() for name, text in kind.assignments if text.lower() != f"target.{name}".lower()
    }
    for column, text in dict(kind.assignments).items():
        if changed.isdisjoint(_counted(text)):
            continue
        yield Problem(
            f"{model.name}: its kind adds to values in the table ({column} = {text}), and "
            f"lookback {kind.lookback} merges the same rows again in later runs: they "
            "are counted more than once",
            f"remove lookback, or let the query compute the total and set '{column}' = "
            f"source.{column}",
            place_in_header(model, "kind", "set", column),
            certain=False,
        )


def _refused(
    known: CheckedModel, values: Mapping[str, str], types: Mapping[str, str]
) -> Iterator[Problem]:
    from vde_dagster.semantics.types import is_refused_store

    for_column = {name.lower(): (name, type_) for name, type_ in types.items()}
    for number, (column, text) in enumerate(known.model.kind.assignments):
        value = values.get(f"v{number}", "UNKNOWN")
        name, type_ = for_column.get(column.lower(), (column, "UNKNOWN"))
        if is_refused_store(value, type_):
            yield Problem(
                f"{known.model.name}: its kind sets '{name}', which is {type_}, to {value}: {text}",
                f"write CAST(… AS {type_}), or give the column another type",
                place_in_header(known.model, "kind", "set", column),
            )


def _counted(text: str) -> set[str]:
    """Return the columns that an expression accumulates, such as `n` in `target.n + source.n`."""
    # A second merge of the same rows would change these columns again.
    return set(_computed_with(read_expression(text).tree, False))


def _computed_with(node: exp.Expr, counted: bool) -> Iterator[str]:
    from vde_dagster.semantics.types import case_branches

    if isinstance(node, exp.Column):
        if counted and node.table.lower() == "target":
            yield node.name.lower()
        return
    inner = list(node.iter_expressions())
    if isinstance(node, exp.Case):
        # What is asked chooses a value, and is none.
        inner = case_branches(node)
    elif isinstance(node, exp.Anonymous):
        call = call_name(node)
        counted = counted or call in _COUNTING
        inner = inner[1:] if call in _ASKING else inner
    elif isinstance(node, _operators()):
        counted = True
    for one in inner:
        yield from _computed_with(one, counted)


@cache
def _operators() -> tuple[type[exp.Expr], ...]:
    return (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.BitwiseXor)
