"""Generators, such as explode: table functions called for each row of the other sources."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import called_function
from vde_dagster.semantics.algebra.nodes import Constant, Generator, Output
from vde_dagster.semantics.binding.binder import Binder, Unsupported
from vde_dagster.semantics.binding.calls import check_argument_count
from vde_dagster.semantics.binding.names import Scope
from vde_dagster.semantics.spark_functions import GENERATOR_KINDS
from vde_dagster.semantics.types import common_type, infer
from vde_dagster.sql.definitions import read_rows


def generator_kind(e: exp.Expr) -> tuple[str, bool] | None:
    """Return a table function's kind and whether it is OUTER, or None for other functions."""
    return GENERATOR_KINDS.get(called_function(e))


def bind_generator(
    binder: Binder, e: exp.Expr, names: list[str], scope: Scope, *, outer: bool = False
) -> tuple[Generator, list[Output]]:
    """Bind a table function such as `explode(items)`, with its column aliases `names` if any.

    Raises:
        Unsupported: The function, or the number or the names of its columns, are not known.
    """
    check_argument_count(binder, e)
    kind = generator_kind(e)
    if kind is None:
        name = called_function(e)
        if name and spark_functions.function_kind(name) is None and name not in binder.functions:
            binder.record_refusal("unknown function", e)
        raise Unsupported(f"table function {name} is not known" if name else "a table function")
    op, own_outer = kind
    arguments = e.expressions
    nodes = [binder.bind(a, scope) for a in arguments]
    first_type = infer(arguments[0]) if arguments else None
    own = _default_names(op, arguments, first_type)
    columns = names or own
    if not columns:
        raise Unsupported(f"{op} without names for its columns")
    if own and len(columns) != len(own):
        binder.record_refusal("alias list", e, len(columns), len(own))
        raise Unsupported("an alias list whose length is not the number of columns")
    if op == "posexplode" and len(columns) not in (2, 3):
        raise Unsupported("posexplode with these aliases")
    source = Generator(op, outer or own_outer, nodes)
    types = _types(op, first_type, len(columns))
    return source, [
        Output(name.lower(), binder.terms.make("ref", source, i), kind_, name)
        for i, (name, kind_) in enumerate(zip(columns, types, strict=True))
    ]


def _default_names(op: str, arguments: list[exp.Expr], first_type: Any) -> list[str]:
    known = first_type is not None and first_type.this != exp.DType.UNKNOWN
    is_map = known and first_type.this == exp.DType.MAP
    if op == "json_tuple":
        return [f"c{i}" for i in range(len(arguments) - 1)]
    if op == "stack" and isinstance(arguments[0], exp.Literal) and arguments[0].this.isdigit():
        rows = int(arguments[0].this)
        return [f"col{i}" for i in range(-(-(len(arguments) - 1) // rows))] if rows else []
    if op == "explode" and known:
        return ["key", "value"] if is_map else ["col"]
    if op == "posexplode" and known:
        return ["pos", "key", "value"] if is_map else ["pos", "col"]
    if op == "inline" and known and first_type.expressions:
        struct = first_type.expressions[0]
        return [f.name.lower() for f in struct.expressions if isinstance(f, exp.ColumnDef)]
    return []


def _types(op: str, first_type: Any, count: int) -> list[Any]:
    unknown: list[Any] = [None] * count
    members = list(getattr(first_type, "expressions", None) or [])
    if op == "json_tuple":
        return [exp.DataType(this=exp.DType.TEXT)] * count
    if op == "inline" and members:
        fields = [f.args.get("kind") for f in members[0].expressions]
        return fields if len(fields) == count else unknown
    elements = [m for m in members if isinstance(m, exp.DataType)]
    if op == "explode" and len(elements) == count:
        return list(elements)
    if op == "posexplode" and len(elements) == count - 1:
        return [exp.DataType(this=exp.DType.INT), *elements]
    return unknown


def bind_values(binder: Binder, e: exp.Values, scope: Scope) -> tuple[Constant, list[Output]]:
    written = read_rows(e)
    rows = [[binder.bind(cell, scope) for cell in row] for row in written]
    width = len(rows[0]) if rows else 0
    if not width or any(len(row) != width for row in rows):
        # A struct stands for its fields.
        if all("struct" not in called_function(row) for row in e.expressions):
            binder.record_refusal("different widths", e, [len(row) for row in rows])
        raise Unsupported("VALUES of uneven rows")
    source = Constant("values", rows)
    return source, [
        Output(f"col{i + 1}", binder.terms.make("ref", source, i), common_type(cells))
        for i, cells in enumerate(zip(*written, strict=True))
    ]


def bind_range(binder: Binder, e: exp.Expr, scope: Scope) -> tuple[Constant, list[Output]]:
    check_argument_count(binder, e)
    arguments = e.expressions
    if not arguments or not all(isinstance(a, (exp.Literal, exp.Neg)) for a in arguments):
        raise Unsupported("RANGE of expressions")
    source = Constant("range", [[binder.bind(a, scope) for a in arguments]])
    kind = exp.DataType(this=exp.DType.BIGINT)
    return source, [Output("id", binder.terms.make("ref", source, 0), kind)]
