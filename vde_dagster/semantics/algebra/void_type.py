"""Expressions of Spark's type VOID, the type of a plain NULL."""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra.nodes import (
    Constant,
    Derived,
    FullJoin,
    Node,
    SetOperation,
    case_values,
)

_OF_ARGUMENTS = {
    **dict.fromkeys(("coalesce", "greatest", "least", "array"), slice(1, None)),
    **dict.fromkeys(("nullif", "nullifzero"), slice(1, 2)),
    "nvl2": slice(2, None),
    "map": slice(2, None, 2),
}
"""Arguments whose type determines the type of a call's value, or of its elements."""


def is_void(node: Node) -> bool:
    """Return whether an expression has Spark's type VOID, such as `coalesce(NULL, NULL)`."""
    # Such an expression is NULL in all rows.
    made = _typing_parts(node)
    return node.tag == "Null" or (bool(made) and all(map(is_void, made)))


def _typing_parts(node: Node) -> list[Node]:
    tag, parts = node.tag, node.parts
    if tag == "case":
        return case_values(node)
    if tag in ("column", "scalar"):
        return [parts[0] if tag == "column" else parts[0].outputs[0].node]
    if tag == "call":
        taken = parts[_OF_ARGUMENTS[parts[0]]] if parts[0] in _OF_ARGUMENTS else ()
        return [part for part in taken if part.__class__ is Node]
    if tag == "element":
        return _typing_parts(parts[0]) if parts[0].tag == "call" else []
    if tag == "ref":
        return _sources_of_column(*parts)
    return _struct_field_values(parts[1], parts[0].lower()) if tag == "field" else []


def _sources_of_column(source: Any, key: Any) -> list[Node]:
    if isinstance(source, (Derived, FullJoin)):
        return [source.columns[key]]
    if isinstance(source, SetOperation):
        return [branch.outputs[key].node for branch in source.branches]
    listed = isinstance(source, Constant) and source.op == "values"
    return [row[key] for row in source.rows] if listed else []


def _struct_field_values(node: Node, name: str) -> list[Node]:
    if node.tag == "ref":
        return [
            value
            for made in _sources_of_column(*node.parts)
            for value in _struct_field_values(made, name)
        ]
    named = node.tag == "call" and node.parts[0] == "struct"
    fields = zip(node.parts[1::2], node.parts[2::2], strict=False) if named else ()
    return [value for key, value in fields if str(key).lower() == name]
