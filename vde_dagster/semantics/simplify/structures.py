"""Parts of structs and arrays that are made in the same expression."""

from __future__ import annotations

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.normalise import integer
from vde_dagster.semantics.simplify.facts import Facts


def pick_field(node: Node, facts: Facts) -> Node:
    """A field of a struct of named expressions; Spark compares the names without case."""
    name, made = node.parts
    if made.tag != "call" or made.parts[0] != "struct":
        return node
    names, values = made.parts[1::2], made.parts[2::2]
    if len(names) != len(values) or any(n.__class__ is not str for n in names):
        return node
    found = [i for i, n in enumerate(names) if n.lower() == name.lower()]
    if len(found) != 1 or not all(map(facts.never_fails, values)):
        return node
    value: Node = values[found[0]]
    return value


def pick_element(node: Node, facts: Facts) -> Node:
    """An element of an array of expressions, which all have its type."""
    made, at = node.parts
    place = integer(at)
    if made.tag != "call" or made.parts[0] != "array" or place is None:
        return node
    elements = list(made.parts[1:])
    if not 0 <= place < len(elements) or facts.common(elements) is None:
        return node
    element: Node = elements[place]
    if element.tag == "Null" or not all(map(facts.never_fails, elements)):
        return node
    return element
