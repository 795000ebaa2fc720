"""Calls without the arguments that Spark takes for granted."""

from __future__ import annotations

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.simplify.facts import TEXT, Facts
from vde_dagster.semantics.spark_functions import DEFAULTS

_PADDING = ("lpad", "rpad")


def without_defaults(node: Node, facts: Facts) -> Node:
    """``round(x, 0)`` as ``round(x)``; of texts ``lpad(s, 3, ' ')`` as ``lpad(s, 3)``."""
    name, *arguments = node.parts
    found = DEFAULTS.get(name)
    if name in _PADDING and len(arguments) == 3 and facts.type(arguments[0]) == TEXT:
        found = (2, ("' '",))
    if found is None:
        return node
    first, defaults = found
    size = len(arguments)
    while first < size <= first + len(defaults) and (
        _written(arguments[size - 1]) == defaults[size - 1 - first]
    ):
        size -= 1
    return facts.terms.make("call", name, *arguments[:size]) if size < len(arguments) else node


def _written(node: object) -> str | None:
    """A literal as `DEFAULTS` has it."""
    if not isinstance(node, Node) or node.tag not in ("lit", "bool", "Null"):
        return None
    if node.tag == "lit":
        return str(node.parts[1])
    return "null" if node.tag == "Null" else str(node.parts[0]).lower()
