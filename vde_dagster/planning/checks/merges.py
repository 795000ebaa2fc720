"""What a kind sets columns to when it merges rows: values that the columns do not take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.places import place_in_header
from vde_dagster.planning.checks.queries import NAMES
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.problem import Problem

if TYPE_CHECKING:
    from sqlglot import exp

_COUNTING = frozenset(
    (
        *("try_add", "try_subtract", "try_multiply", "try_divide", "concat", "concat_ws"),
        *("array_append", "array_prepend", "array_insert"),
        *("date_add", "date_sub", "dateadd", "add_months", "timestampadd"),
    )
)
"""Functions of which another call makes another value; COALESCE or GREATEST choose one."""
_ASKING = frozenset({"if", "iff", "nvl2"})
"""Functions whose first argument chooses a value."""


def merged_values(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Read what is set as a query over the new row and the table's, both with its columns."""
    kind = known.model.kind
    if known.columns is None or not (kind.assignments or kind.conditions):
        return
    from vde_dagster.semantics import SemanticError, analyze

    types = {column.name: column.type or "UNKNOWN" for column in known.columns}
    shown = ", ".join(f"{text} AS {_name(i)}" for i, (_, text) in enumerate(kind.assignments))
    only = " AND ".join(f"({text})" for text in kind.conditions)
    query = f"SELECT {shown or '1 AS v'} FROM source CROSS JOIN target"
    try:
        found = analyze(
            f"{query} WHERE {only}" if only else query,
            {"source": types, "target": types},
            functions=known.functions,
        )
    except SemanticError:
        return  # Columns that are not there are told by name.
    for one in found.findings:
        if one.rule not in NAMES and one.certain:
            location = place_in_header(known.model, "kind", "when_matched")
            yield Problem(f"{known.model.name}, in its kind: {one.message}", one.hint, location)
    yield from _refused(known, found.output_types, types)


def merged_again(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find sums over the table's own rows in a model that merges an interval more than once.

    SQLMesh calls such models non-idempotent, and says nothing of their lookback:
    https://sqlmesh.readthedocs.io/en/stable/concepts/models/model_kinds/
    """
    model = known.model
    kind = model.kind
    if not kind.earlier_intervals or not kind.assignments:
        return
    changed = {name.lower() for name, text in kind.assignments if text.lower() != _of_table(name)}
    for column, text in dict(kind.assignments).items():
        if changed.isdisjoint(_counted(text)):
            continue
        yield Problem(
            f"{model.name}: its kind adds to what the table holds ({column} = {text}), and "
            f"lookback {kind.earlier_intervals} merges the same rows again with later runs: they "
            "are counted more than once",
            f"remove lookback, or set '{column}' to values of source that the query computes whole",
            place_in_header(model, "kind", "set", column),
            certain=False,
        )


def _refused(
    known: Known, values: Mapping[str, str], types: Mapping[str, str]
) -> Iterator[Problem]:
    from vde_dagster.semantics.storing import is_refused

    of_column = {name.lower(): (name, type_) for name, type_ in types.items()}
    for number, (column, text) in enumerate(known.model.kind.assignments):
        value = values.get(_name(number), "UNKNOWN")
        name, type_ = of_column.get(column.lower(), (column, "UNKNOWN"))
        if is_refused(value, type_):
            yield Problem(
                f"{known.model.name}: its kind sets '{name}', which is {type_}, to {value}: {text}",
                f"write CAST(… AS {type_}), or give the column another type",
                place_in_header(known.model, "kind", "set", column),
            )


def _counted(text: str) -> set[str]:
    """Name the table's columns that an expression computes with: twice is not once."""
    from vde_dagster.sql.expressions import read_expression

    return set(_computed_with(read_expression(text).tree, False))


def _computed_with(node: exp.Expr, counted: bool) -> Iterator[str]:
    from sqlglot import exp

    from vde_dagster.sql.reading import name_of_call

    if isinstance(node, exp.Column):
        if counted and node.table.lower() == "target":
            yield node.name.lower()
        return
    inner = list(node.iter_expressions())
    if isinstance(node, exp.Case):
        # What is asked chooses a value, and is none.
        inner = [one.args["true"] for one in node.args["ifs"]]
        inner += [node.args["default"]] if node.args.get("default") else []
    elif isinstance(node, exp.Anonymous):
        call = name_of_call(node)
        counted = counted or call in _COUNTING
        inner = inner[1:] if call in _ASKING else inner
    elif isinstance(node, _operators()):
        counted = True
    for one in inner:
        yield from _computed_with(one, counted)


@cache
def _operators() -> tuple[type[exp.Expr], ...]:
    from sqlglot import exp

    return (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.BitwiseXor)


def _of_table(column: str) -> str:
    return f"target.{column}".lower()


def _name(number: int) -> str:
    return f"v{number}"
