"""Which sources an expression, a group or a query refers to, at whatever depth."""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra import (
    Constant,
    Derived,
    FullJoin,
    Generator,
    Group,
    Leaf,
    Node,
    Rel,
    SetOperation,
)


def sources_in(part: Any) -> set[Any]:
    """The sources that references in a node, group, source or query point at."""
    found: set[Any] = set()
    _collect(part, found, set())
    return found


def _collect(part: Any, found: set[Any], seen: set[Any]) -> None:
    stack = [part]
    while stack:
        item = stack.pop()
        if item is None or isinstance(item, (str, int)) or item in seen:
            continue
        seen.add(item)
        if isinstance(item, Node):
            if item.tag == "ref":
                found.add(item.parts[0])
            else:
                stack.extend(item.parts)
        elif isinstance(item, Group):
            stack += [*item.sources, *item.conditions, *item.sorts]
        elif isinstance(item, Rel):
            stack += [item.group, *(o.node for o in item.outputs)]
        elif isinstance(item, Derived):
            stack += [item.group, *item.keys, *item.args, *item.columns]
        elif isinstance(item, FullJoin):
            stack += [item.left, item.right, *item.conditions, *item.columns]
        elif isinstance(item, SetOperation):
            stack += item.branches
        elif isinstance(item, Generator):
            stack += item.args
        elif isinstance(item, Constant):
            stack += [cell for row in item.rows for cell in row]
        elif isinstance(item, Leaf):
            continue
