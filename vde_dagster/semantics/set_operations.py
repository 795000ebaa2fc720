"""Reading UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from vde_dagster.semantics import ctes
from vde_dagster.semantics.algebra import Group, Output, Rel, SetOperation
from vde_dagster.semantics.binder import Unsupported, only
from vde_dagster.semantics.names import Scope
from vde_dagster.semantics.trimming import distinct_rows, trimmed

if TYPE_CHECKING:
    from vde_dagster.semantics.binder import Binder

_SET_ARGS = {"this", "expression", "with_", "distinct", "by_name", "order", "limit", "offset"}
_NAMING = (exp.DType.STRUCT, exp.DType.ARRAY, exp.DType.MAP)
"""Types that may have names in them, which are those of the first of several queries."""


def bind_set_operation(
    binder: Binder, e: exp.SetOperation, outer: Scope | None, known: ctes.Ctes
) -> Rel:
    """Read a set operation; arguments and errors as for `queries.bind_partial`."""
    from vde_dagster.semantics.queries import bind_query

    only(e, _SET_ARGS)
    known = ctes.define(e.args.get("with_"), known, outer)
    op = e.__class__.__name__.lower()
    distinct = bool(e.args.get("distinct"))
    by_name = bool(e.args.get("by_name"))
    operands = _operands(e, op, distinct, by_name)
    branches = [bind_query(binder, operand, outer, known) for operand in operands]
    first = branches[0]
    if by_name:
        branches = [first, *(_by_name(branch, first) for branch in branches[1:])]
    if any(len(branch.outputs) != len(first.outputs) for branch in branches):
        binder.note("different widths", e, [len(branch.outputs) for branch in branches])
        raise Unsupported("a set operation of different numbers of columns")
    scope = Scope(outer, known)
    scope.correlation.found = any(branch.scope.correlation.found for branch in branches)
    all_rows = "union" if op == "union" else op if distinct else f"{op} all"
    kinds = [_common(branches, i) for i in range(len(first.outputs))]
    alike = all(kind is not None and kind.this not in _NAMING for kind in kinds)
    source = SetOperation(all_rows, branches, scope.correlation, alike)
    outputs = [
        Output(o.name, binder.terms.make("ref", source, i), kinds[i], o.written)
        for i, o in enumerate(first.outputs)
    ]
    rel = Rel(Group([source]), outputs, scope)
    if op == "union" and distinct:
        rel, _ = distinct_rows(binder, exp.Distinct(), rel, [])
    return trimmed(binder, e, rel)


def _operands(e: exp.SetOperation, op: str, distinct: bool, by_name: bool) -> list[exp.Expr]:
    """The queries of a chain; UNION takes in UNIONs and UNION ALLs on its left, and so on."""
    operands: list[exp.Expr] = []
    left: exp.Expr = e
    while True:
        operands.append(left.args["expression"])
        left = left.args["this"]
        inner = left
        while isinstance(inner, exp.Subquery) and set(_given(inner)) == {"this"}:
            inner = inner.this
        if not (
            op == "union"
            and isinstance(inner, exp.Union)
            and (distinct or not inner.args.get("distinct"))
            and bool(inner.args.get("by_name")) == by_name
            and set(_given(inner)) <= {"this", "expression", "distinct", "by_name"}
        ):
            operands.append(left)
            return operands[::-1]
        left = inner


def _given(e: exp.Expr) -> list[str]:
    return [key for key, value in e.args.items() if value]


def _by_name(branch: Rel, first: Rel) -> Rel:
    by_name: dict[str, Any] = {o.name: o for o in branch.outputs}
    if len(by_name) != len(branch.outputs) or set(by_name) != {o.name for o in first.outputs}:
        raise Unsupported("UNION BY NAME of different columns")
    return Rel(branch.group, [by_name[o.name] for o in first.outputs], branch.scope)


def _common(branches: list[Rel], i: int) -> Any:
    """The type of a column when all branches agree on it."""
    kinds = [branch.outputs[i].type for branch in branches]
    return kinds[0] if all(kind == kinds[0] for kind in kinds) else None
