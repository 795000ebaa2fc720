"""Conditions where only rows of which they are true count: there NULL is as good as FALSE.

So it is in WHERE, ON, HAVING, FILTER and behind WHEN. (Rules: Spark's
`ReplaceNullWithFalseInPredicate` and `SimplifyConditionalsInPredicate`.)
"""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.literals import plain_string
from vde_dagster.semantics.normalise import boolean, compare, integer, negate
from vde_dagster.semantics.simplify.comparisons import compared
from vde_dagster.semantics.simplify.facts import Facts, is_null, of_null
from vde_dagster.semantics.simplify.texts import matches_all

_COMPARED = ("eq", "neq", "lt", "le")


def true_where(node: Node, facts: Facts) -> Node:
    """A condition that is true of the same rows, in the fewest words."""
    terms, tag, parts = facts.terms, node.tag, node.parts
    if is_null(node):
        return boolean(terms, False)
    if tag in ("and", "or"):
        made = facts.joined(tag, [true_where(p, facts) for p in parts])
        return _without_contradiction(made, facts) if made.tag == "and" else made
    if tag == "case":
        return _choice(node, facts)
    if tag == "nseq":
        return _same(node, facts)
    if tag == "Like" and matches_all(node):
        return negate(terms, of_null(parts[-1], terms))
    if tag in _COMPARED and any(p.tag == "call" and p.parts[0] == "coalesce" for p in parts):
        return _with_default(node, facts)
    if tag in _COMPARED and parts[0] is parts[-1] and facts.never_fails(node):
        if tag in ("neq", "lt"):
            return boolean(terms, False)
        return negate(terms, of_null(parts[0], terms))
    return node


def _same(node: Node, facts: Facts) -> Node:
    """`<=>` with something that is not NULL is `=`, and with TRUE it is the condition."""
    one, two = node.parts
    for constant, other in ((one, two), (two, one)):
        if constant.tag == "bool" and constant.parts[0] and facts.is_boolean(other):
            return true_where(other, facts)
        if facts.never_null(constant):
            return compare(facts.terms, "eq", one, two)
    return node


def _with_default(node: Node, facts: Facts) -> Node:
    """``COALESCE(x, 0) > 1``: of x that is NULL it is known whether the condition is true."""
    terms = facts.terms
    for i, (one, other) in enumerate((node.parts, node.parts[::-1])):
        if one.tag != "call" or len(one.parts) != 3 or other.tag != "lit":
            continue
        _, this, default = one.parts
        if default.tag != "lit" or not facts.comparable(this, default):
            continue
        known = compared(node.tag, *((default, other) if i == 0 else (other, default)), facts)
        if known.tag == "bool" and facts.comparable(this, other):
            made = compare(terms, node.tag, *((this, other) if i == 0 else (other, this)))
            return facts.joined("or", [made, of_null(this, terms)]) if known.parts[0] else made
    return node


def _choice(node: Node, facts: Facts) -> Node:
    """A CASE of one condition whose values decide as conditions."""
    terms, parts = facts.terms, node.parts
    listed = _listed(node, facts)
    if listed is not None:
        return listed
    if not 1 < len(parts) < 4 or not all(facts.is_boolean(p) or is_null(p) for p in parts[1:]):
        return node
    condition = parts[0]
    yes = true_where(parts[1], facts)
    no = true_where(parts[2], facts) if len(parts) == 3 else boolean(terms, False)
    if no.tag == "bool" and not no.parts[0]:
        return facts.joined("and", [condition, yes])
    if yes.tag == "bool" and yes.parts[0]:
        return facts.joined("or", [condition, no])
    if facts.never_null(condition):
        turned = negate(terms, condition)
        if yes.tag == "bool":
            return facts.joined("and", [turned, no])
        if no.tag == "bool":
            return facts.joined("or", [turned, yes])
    return terms.make("case", condition, yes, no)


def _listed(node: Node, facts: Facts) -> Node | None:
    """``CASE x WHEN 1 THEN TRUE WHEN 2 THEN FALSE … END``: x is one of the values of TRUE."""
    values = [*node.parts[1::2], *(node.parts[-1:] if len(node.parts) % 2 else ())]
    if len(values) < 3 or not all(v.tag == "bool" or is_null(v) for v in values):
        return None
    otherwise = values.pop() if len(node.parts) % 2 else None
    if otherwise is not None and otherwise.tag == "bool" and otherwise.parts[0]:
        return None
    asked: dict[Any, tuple[Node, Node]] = {}
    of: set[Node] = set()
    for condition, value in zip(node.parts[::2], values, strict=False):
        literal = [p for p in condition.parts if p.__class__ is Node and p.tag == "lit"]
        if condition.tag != "eq" or len(literal) != 1 or not facts.never_fails(condition):
            return None
        of.update(p for p in condition.parts if p is not literal[0])
        # Two literals may be one value: the first of them counts.
        number, text = integer(literal[0]), plain_string(literal[0].parts[1])
        asked.setdefault(text if number is None else number, (condition, value))
    if len(of) != 1 or len({type(value) for value in asked} | {type(None)}) != 2 or None in asked:
        return None
    true = [c for c, value in asked.values() if value.tag == "bool" and value.parts[0]]
    return facts.joined("or", true)


def _without_contradiction(node: Node, facts: Facts) -> Node:
    """`p AND NOT p` is never true, and in `p AND (NOT p OR q)` only q decides."""
    terms = facts.terms
    given = set(node.parts)
    turned = {negate(terms, p) for p in node.parts}
    if given & turned:
        return boolean(terms, False)
    kept: list[Node] = []
    for part in node.parts:
        if part.tag == "or":
            left = [p for p in part.parts if p not in turned]
            part = facts.joined("or", left) if len(left) < len(part.parts) else part
        kept.append(part)
    return facts.joined("and", kept)
