"""What is known of an expression's values: types whose equal values are one value."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from vde_dagster.semantics.algebra import Derived, FullJoin, Leaf, Node, SetOperation
from vde_dagster.semantics.literals import is_plain_date, plain_string
from vde_dagster.semantics.normalise import integer

_D = exp.DType
INTEGERS = frozenset({_D.TINYINT, _D.SMALLINT, _D.INT, _D.BIGINT})
_EXACT = INTEGERS | {_D.TEXT, _D.DATE, _D.BOOLEAN}
"""No floats, of which 0.0 and -0.0 are equal, no CHAR, whose blanks are not compared."""


def value_type(node: Node) -> exp.DType | None:
    """The type of a reference's or literal's type if equal values of it are one; else None."""
    while node.tag == "ref":
        source, key = node.parts
        if isinstance(source, (Derived, FullJoin)):
            node = source.columns[key]
            continue
        kind = None
        if isinstance(source, Leaf):
            kind = source.types.get(key)
        elif isinstance(source, SetOperation) and source.alike:
            kind = source.branches[0].outputs[key].type
        return _exact(kind)
    if node.tag == "lit":
        if integer(node) is not None:
            return _D.INT
        return _D.TEXT if plain_string(node.parts[1]) is not None else None
    if node.tag == "bool":
        return _D.BOOLEAN
    return _total_type(node)


def _exact(kind: Any) -> exp.DType | None:
    """A type of `_EXACT` without a length, a collation or anything else."""
    if kind is None or kind.this not in _EXACT:
        return None
    if any(value for key, value in kind.args.items() if key not in ("this", "nested")):
        return None
    found: exp.DType = kind.this
    return found


def _total_type(node: Node) -> exp.DType | None:
    if node.tag != "aggregate":
        return None
    body = node.parts[0]
    if body.tag == "count rows":
        return _D.BIGINT
    if body.tag != "call" or len(body.parts) != 2 or body.parts[1].__class__ is not Node:
        return None
    name, of = body.parts
    if name == "count":
        return _D.BIGINT
    kind = value_type(of)
    if name == "sum":
        return _D.BIGINT if kind in INTEGERS else None
    return kind if name in ("min", "max") else None


def comparable(one: Node, two: Node) -> bool:
    """Whether comparing two values converts neither, or only numbers to wider ones."""
    left, right = value_type(one), value_type(two)
    if left is None or right is None:
        return False
    if left == right or (left in INTEGERS and right in INTEGERS):
        return True
    return {left, right} == {_D.DATE, _D.TEXT} and any(
        n.tag == "lit" and is_plain_date(n.parts[1]) for n in (one, two)
    )


def is_constant(node: Node) -> bool:
    """Whether a node is a literal of a known type."""
    return node.tag in ("lit", "bool") and value_type(node) is not None
