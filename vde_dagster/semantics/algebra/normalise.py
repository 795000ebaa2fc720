"""Rewritings of expressions that keep their value on any data, NULLs and NaNs included.

What is left alone matters as much: sums are not re-associated (floats round, integers overflow),
decimals are not folded (their scale is part of their type), and ``x = TRUE`` is not ``x``.
"""

from __future__ import annotations

import re
from datetime import date

from vde_dagster.semantics.algebra.nodes import Node, Terms

BOOLEAN = frozenset(
    {"and", "or", "not", "eq", "neq", "lt", "le", "nseq", "Is", "in", "in query", "exists"}
    | {"bool", "Like", "ILike", "not each"}
)
"""Tags of expressions that are certainly boolean."""

COMPARED = ("eq", "neq", "lt", "le", "nseq")
"""Tags of comparisons; NULL beside any but the last makes NULL."""
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def boolean(terms: Terms, value: bool) -> Node:
    """TRUE or FALSE."""
    return terms.make("bool", value)


def integer(node: Node) -> int | None:
    """The value of an INT literal; larger literals have another type and do not count."""
    if node.tag != "lit" or node.parts[0] != "n":
        return None
    text: str = node.parts[1]
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    value = int(text)
    return value if _INT_MIN <= value <= _INT_MAX else None


def combine(terms: Terms, tag: str, operands: list[Node]) -> Node:
    """AND or OR of operands: nested ones are taken in, repeated and neutral ones are dropped."""
    neutral = tag == "and"
    flat: list[Node] = []
    for operand in operands:
        flat.extend(operand.parts if operand.tag == tag else (operand,))
    kept: list[Node] = []
    for operand in dict.fromkeys(flat):
        if operand.tag == "bool":
            if operand.parts[0] != neutral:
                return operand
            continue
        kept.append(operand)
    if not kept:
        return boolean(terms, neutral)
    if len(kept) == 1 and kept[0].tag in BOOLEAN:
        return kept[0]
    return terms.unordered(tag, kept)


def negate(terms: Terms, node: Node) -> Node:
    """NOT, pushed inwards as far as three-valued logic and the order of values allow.

    Spark and DuckDB order NaN above every number, so NOT (a < b) is b <= a there.
    """
    tag, parts = node.tag, node.parts
    if tag == "not" and parts[0].tag in BOOLEAN:
        inner: Node = parts[0]
        return inner
    if tag == "bool":
        return boolean(terms, not parts[0])
    if tag in ("and", "or") and all(p.tag in BOOLEAN for p in parts):
        return combine(terms, "or" if tag == "and" else "and", [negate(terms, p) for p in parts])
    if tag == "eq":
        return terms.make("neq", *parts)
    if tag == "neq":
        return terms.make("eq", *parts)
    if tag == "lt":
        return terms.make("le", parts[1], parts[0])
    if tag == "le":
        return terms.make("lt", parts[1], parts[0])
    return terms.make("not", node)


def compare(terms: Terms, op: str, left: Node, right: Node) -> Node:
    """A comparison: ``gt`` and ``ge`` turn into ``lt`` and ``le``, INT literals are folded."""
    if op in ("gt", "ge"):
        op, left, right = {"gt": "lt", "ge": "le"}[op], right, left
    a, b = integer(left), integer(right)
    if a is not None and b is not None:
        return boolean(
            terms,
            {"eq": a == b, "neq": a != b, "lt": a < b, "le": a <= b, "nseq": a == b}[op],
        )
    if op in ("eq", "neq", "nseq"):
        return terms.unordered(op, [left, right])
    return terms.make(op, left, right)


def arithmetic(terms: Terms, op: str, left: Node, right: Node) -> Node:
    """``add``, ``sub`` or ``mul``: INT literals are folded where the result is an INT."""
    a, b = integer(left), integer(right)
    if a is not None and b is not None:
        value = a + b if op == "add" else a - b if op == "sub" else a * b
        if _INT_MIN <= value <= _INT_MAX:
            return terms.make("lit", "n", str(value))
    if op == "sub":
        return terms.make(op, left, right)
    return terms.unordered(op, [left, right])


def minus(terms: Terms, operand: Node) -> Node:
    """Unary minus: an INT literal takes the sign; of others it would change the type."""
    value = integer(operand)
    if value is not None and value > _INT_MIN:
        return terms.make("lit", "n", str(-value))
    return terms.make("neg", operand)


def conjuncts(node: Node) -> list[Node]:
    """The operands of an AND, or the expression alone; TRUE is none."""
    if node.tag == "and":
        return list(node.parts)
    if node.tag == "bool" and node.parts[0] is True:
        return []
    return [node]


_PLAIN = re.compile(r"'([^'\\]*)'")
_INTEGER = re.compile(r"-?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def bind_literal(terms: Terms, text: str) -> Node:
    """The node of a number or string as `sql.spark_tokens` leaves it, quotes and suffix included.

    Integers lose leading zeros, and zero its sign.
    """
    if not _INTEGER.fullmatch(text):
        kind = "s" if text[-1:] in "'\"" else "n"
        return terms.make("lit", kind, text if kind == "s" else text.upper())
    return terms.make("lit", "n", str(int(text)))


def plain_string(text: str) -> str | None:
    """The value of a string in single quotes without escapes; None for any other literal."""
    found = _PLAIN.fullmatch(text)
    return found[1] if found else None


def is_plain_date(text: str) -> bool:
    """Whether a literal is a string of a valid day, written as `'2024-02-29'`."""
    value = plain_string(text)
    if value is None or not _DATE.fullmatch(value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True
