"""Where it can be seen that a grouping makes one value of those that are equal.

Grouping makes 0.0 of -0.0, and pads what is CHAR. Who compares a key, or groups by it again, finds
the same with or without the grouping; who writes it as text, or divides by it, does not. (Spark's
own optimiser leaves out a DISTINCT below another one or below a minimum, and answers -0.0 then; in
other places it keeps it. More work is right where that is not known.)
"""

from __future__ import annotations

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.simplify.facts import DOUBLE, Facts
from vde_dagster.semantics.simplify.uses import Uses

_COMPARING = frozenset({"eq", "neq", "lt", "le", "nseq", "Is"})
_INEXACT = (None, DOUBLE, "FLOAT<>")


def is_exact(key: Node, facts: Facts) -> bool:
    """Whether equal values of a key are certainly one value."""
    return facts.type(key) not in _INEXACT


def shows_grouping(key: Node, reference: Node, uses: Uses, facts: Facts) -> bool:
    """Whether somebody may see that a grouping's key has one of several equal values.

    Args:
        key: The key, inside the grouping.
        reference: The column that it is outside of it.
        uses: What the query uses.
        facts: What is known of its expressions.
    """
    if is_exact(key, facts):
        return False
    parents = uses.parents.get(reference, set())
    by = any(parent is not None and parent.tag == "keys" for parent in parents)
    return any(
        not by if parent is None else parent.tag not in _COMPARING and parent.tag != "keys"
        for parent in parents
    )
