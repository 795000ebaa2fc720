"""Casts that change nothing, and arithmetic with numbers that change nothing.

Not among them: ``x + 0`` of floats (it makes 0.0 of -0.0), ``x * 0`` (NULL, NaN), and sums in
another order (they overflow elsewhere).
"""

from __future__ import annotations

import re

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.literals import plain_string
from vde_dagster.semantics.normalise import arithmetic, integer
from vde_dagster.semantics.simplify.facts import BIGINT, DOUBLE, INT, TEXT, WHOLE, Facts, is_null

_NUMBERS = (*WHOLE, DOUBLE)
_WHOLE_NUMBER = re.compile(r"-?[0-9]+")


def convert(node: Node, facts: Facts) -> Node:
    """A cast that is needed, from the type that decides."""
    this: Node
    safe, target, this = node.parts
    terms = facts.terms
    if this.tag == "Null":
        return terms.make("cast", False, target, this) if safe else node
    if is_null(this):
        return facts.null(target)
    if facts.type(node) is None:
        return node
    if facts.type(this) == target:
        return this
    if safe and facts.widens(node):
        return terms.make("cast", False, target, this)
    exact = this.tag == "cast" and facts.type(this) in WHOLE and facts.widens(this)
    if exact and (target in (*WHOLE, TEXT, DOUBLE) or target.startswith("DECIMAL")):
        return terms.make("cast", safe, target, this.parts[2])
    return _of_literal(target, this, facts) or node


def _of_literal(target: str, this: Node, facts: Facts) -> Node | None:
    if this.tag != "lit":
        return None
    value = integer(this)
    if value is not None and target in (BIGINT, TEXT):
        text = f"{value}L" if target == BIGINT else f"'{value}'"
        return facts.terms.make("lit", "n" if target == BIGINT else "s", text)
    digits = plain_string(this.parts[1])
    if target != INT or digits is None or not _WHOLE_NUMBER.fullmatch(digits):
        return None
    made = facts.terms.make("lit", "n", str(int(digits)))
    return made if integer(made) is not None else None


def calculate(node: Node, facts: Facts) -> Node:
    """A sum, difference or product without NULLs, zeros and ones."""
    tag = node.tag
    one: Node
    two: Node
    one, two = node.parts
    for constant, other in ((one, two), (two, one)):
        if constant.tag not in ("lit", "Null"):
            continue
        kind = facts.type(other)
        if kind not in _NUMBERS:
            continue
        if constant.tag == "Null" and facts.never_fails(other):
            return facts.null(kind)
        if constant.tag == "Null" or (tag == "sub" and constant is not two):
            continue
        value = integer(constant)
        changes_type = kind not in (INT, BIGINT, DOUBLE)
        if value is None or changes_type:
            continue
        if value == 0 and (tag == "sub" or (tag == "add" and kind != DOUBLE)):
            return other
        if value == 1 and tag == "mul":
            return other
        if tag == "sub" and -value in range(-(2**31), 2**31) and value:
            return arithmetic(facts.terms, "add", other, facts.terms.make("lit", "n", str(-value)))
    return node


def divide(node: Node, facts: Facts) -> Node:
    """A quotient by one."""
    named = dict(zip(node.parts[::2], node.parts[1::2], strict=True))
    one, this = named.get("expression"), named.get("this")
    by_one = one is not None and this is not None and integer(one) == 1
    return this if by_one and this is not None and facts.type(this) == DOUBLE else node


def sign(node: Node, facts: Facts) -> Node:
    """Two signs that take each other away; of integers the smallest has no opposite."""
    inner = node.parts[-1]
    if inner.tag == "Null":
        return facts.null(DOUBLE)
    if node.tag == "neg":
        twice = inner.tag == "neg" and facts.type(inner) == DOUBLE
        return inner.parts[0] if twice else node
    return inner if facts.type(inner) in _NUMBERS else node
