"""What is certainly NULL, and what conditions leave no NULLs."""

from __future__ import annotations

from collections.abc import Callable

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.simplify.facts import null_test

STRICT = frozenset({"eq", "neq", "lt", "le", "add", "sub", "mul", "neg"})
"""Tags whose value is NULL if an operand is."""


def rejects_null(condition: Node, node: Node) -> bool:
    """Whether a condition is never true where the expression is NULL."""
    return not_true_if_null(condition, lambda part: part is node)


def not_true_if_null(condition: Node, is_null: Callable[[Node], bool]) -> bool:
    """Whether a condition is never true if certain expressions are NULL.

    Args:
        condition: The condition.
        is_null: Which expressions are NULL.
    """
    tag, parts = condition.tag, condition.parts
    if tag == "or":
        return all(not_true_if_null(p, is_null) for p in parts)
    if tag == "and":
        return any(not_true_if_null(p, is_null) for p in parts)
    if tag in ("eq", "neq", "lt", "le"):
        return any(null_if(p, is_null) for p in parts)
    if tag == "in":
        return null_if(parts[0], is_null)
    if tag == "not" and parts[0].tag == "Is":
        tested = null_test(parts[0])
        return tested is not None and null_if(tested, is_null)
    return False


def null_if(node: Node, is_null: Callable[[Node], bool]) -> bool:
    """Whether an expression is NULL if certain expressions in it are."""
    if is_null(node):
        return True
    return node.tag in STRICT and any(null_if(p, is_null) for p in node.parts)
