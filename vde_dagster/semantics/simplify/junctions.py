"""AND, OR and NOT: what another operand says already, and what all operands have in common.

Three-valued logic is a distributive lattice, so these hold for NULLs too. (Rules: Spark's
`BooleanSimplification`, but for those that only hold of two values.)
"""

from __future__ import annotations

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.normalise import negate
from vde_dagster.semantics.simplify.facts import BOOL, Facts, is_null

_DUAL = {"and": "or", "or": "and"}
_MOST = 32


def join(node: Node, facts: Facts) -> Node:
    """AND or OR without operands that others contain; of OR, what all have in common outside."""
    tag = node.tag
    node = facts.joined(tag, list(node.parts))
    if node.tag != tag or not any(p.tag == _DUAL[tag] for p in node.parts):
        return node
    if len(node.parts) > _MOST:
        return node
    inside = {p: set(p.parts) if p.tag == _DUAL[tag] else {p} for p in node.parts}
    kept = [
        p
        for p in node.parts
        if not any(inside[q] < inside[p] and _safe(inside[p] - inside[q], facts) for q in inside)
    ]
    if tag == "and" or len(kept) < 2 or any(p.tag != "and" for p in kept):
        return facts.joined(tag, kept)
    shared = set.intersection(*(inside[p] for p in kept))
    if not shared:
        return facts.joined(tag, kept)
    rest = [facts.joined("and", [p for p in one.parts if p not in shared]) for one in kept]
    ordered = [p for p in kept[0].parts if p in shared]
    return facts.joined("and", [*ordered, facts.joined("or", rest)])


def _safe(nodes: set[Node], facts: Facts) -> bool:
    return all(map(facts.never_fails, nodes))


def turn(node: Node, facts: Facts) -> Node:
    """NOT of something, handed on to its operands."""
    terms = facts.terms
    inner: Node = node.parts[0]
    if is_null(inner):
        return facts.null(BOOL)
    if inner.tag == "not" and facts.is_boolean(inner.parts[0]):
        twice: Node = inner.parts[0]
        return twice
    if inner.tag in _DUAL and all(map(facts.is_boolean, inner.parts)):
        turned = [turn(terms.make("not", p), facts) for p in inner.parts]
        return facts.joined(_DUAL[inner.tag], turned)
    return negate(terms, inner)
