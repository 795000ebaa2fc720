"""What operators make of operands that are read already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import type_key
from vde_dagster.semantics.algebra import Node, Terms
from vde_dagster.semantics.normalise import arithmetic, compare, negate

Maker = Callable[[Terms, Node, Node], Node]

DIVISIONS = (exp.Div, exp.Mod, exp.IntDiv)
COMPARISONS = {
    exp.EQ: "eq",
    exp.NEQ: "neq",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.NullSafeEQ: "nseq",
}
_ARITHMETIC = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul"}
_CALLS = {
    exp.RegexpLike: "rlike",
    exp.BitwiseLeftShift: "shiftleft",
    exp.BitwiseRightShift: "shiftright",
    exp.DPipe: "concat",
    exp.Mod: "mod",
}


def call(terms: Terms, name: str, arguments: list[Any]) -> Node:
    """A call of a function of Spark's with one value per row."""
    return terms.make("call", spark_functions.ALIASES.get(name, name), *arguments)


def choice(terms: Terms, parts: list[Node], other: Node | None) -> Node:
    """CASE and IF: conditions and values in turn; a missing ELSE is NULL."""
    if other is None or other.tag == "Null":
        return terms.make("case", *parts)
    return terms.make("case", *parts, other)


def cast(terms: Terms, this: Node, target: exp.Expr, *, safe: bool = False) -> Node:
    """A cast; TRY_CAST when it is safe."""
    return terms.make("cast", safe, type_key(target), this)


def _comparing(op: str) -> Maker:
    return lambda terms, left, right: compare(terms, op, left, right)


def _computing(op: str) -> Maker:
    return lambda terms, left, right: arithmetic(terms, op, left, right)


def _calling(name: str) -> Maker:
    return lambda terms, left, right: call(terms, name, [left, right])


def _null_safe_neq(terms: Terms, left: Node, right: Node) -> Node:
    return negate(terms, compare(terms, "nseq", left, right))


BINARY: dict[type, Maker] = {
    **{kind: _comparing(op) for kind, op in COMPARISONS.items()},
    **{kind: _computing(op) for kind, op in _ARITHMETIC.items()},
    **{kind: _calling(name) for kind, name in _CALLS.items()},
    exp.NullSafeNEQ: _null_safe_neq,
}
"""Per class of SQLGlot's, how its node is made of those of its two sides."""
