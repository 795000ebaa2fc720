"""An operator over a CASE of constants, decided in every branch.

(Rule: Spark's `PushFoldableIntoBranches`.)
"""

from __future__ import annotations

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.normalise import arithmetic
from vde_dagster.semantics.simplify.comparisons import compared
from vde_dagster.semantics.simplify.facts import BOOL, INT, TEXT, Facts, is_null

_ARITHMETIC = ("add", "sub", "mul")
_CONSTANT = ("lit", "bool")


def into_branches(node: Node, facts: Facts) -> Node:
    """A comparison or sum of a CASE and a literal as a CASE, where no branch computes anything.

    Args:
        node: An operator of two operands.
        facts: What is known of them.
    """
    if len(node.parts) != 2:
        return node
    at = 0 if node.parts[0].tag == "case" else 1
    choice, constant = node.parts[at], node.parts[1 - at]
    kind = facts.type(choice) if choice.tag == "case" and constant.tag == "lit" else None
    if kind not in (INT, TEXT) or facts.type(constant) != kind:
        return node
    if kind == TEXT and node.tag in _ARITHMETIC:
        return node
    parts = list(choice.parts)
    values = [*range(1, len(parts), 2), *([len(parts) - 1] if len(parts) % 2 else [])]
    for i in values:
        decided = _decided(node, parts[i], constant, at, facts)
        if decided is None:
            return node
        parts[i] = decided
    if len(parts) % 2 == 0 and node.tag == "nseq":
        return node  # NULL of the missing ELSE would be compared, too.
    return facts.terms.make("case", *parts)


def _decided(node: Node, value: Node, constant: Node, at: int, facts: Facts) -> Node | None:
    """The operator's value for one branch, or None if it is not a constant."""
    if is_null(value):
        if node.tag == "nseq":
            return None
        return facts.null(INT if node.tag in _ARITHMETIC else BOOL)
    if value.tag != "lit":
        return None
    operands = (constant, value) if at else (value, constant)
    if node.tag in _ARITHMETIC:
        made = arithmetic(facts.terms, node.tag, *operands)
    else:
        made = compared(node.tag, *operands, facts)
    return made if made.tag in _CONSTANT else None
