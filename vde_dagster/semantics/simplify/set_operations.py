"""Set operations of set operations: one of all their queries."""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra import Node, Rel, SetOperation
from vde_dagster.semantics.rewrite import rewrite
from vde_dagster.semantics.simplify.parts import Parts


def flatten_set_operations(parts: Parts) -> None:
    """Put the queries of a set operation in its place where it is a query of the same operation."""
    for group in list(parts.groups):
        for source in group.sources:
            if isinstance(source, SetOperation) and source.alike:
                branches: list[Rel] = []
                for i, branch in enumerate(source.branches):
                    inner = _inner(branch, source, i, parts)
                    branches += [branch] if inner is None else _spliced(branch, inner, parts)
                source.branches = branches


def _inner(branch: Rel, outer: SetOperation, i: int, parts: Parts) -> SetOperation | None:
    """The set operation that a query of another one consists of, if it may be taken apart."""
    group = branch.group
    if len(group.sources) != 1 or group in parts.shared:
        return None
    if any(sort.tag != "regrouped" for sort in group.sorts):
        return None
    inner = group.sources[0]
    if not isinstance(inner, SetOperation) or inner.op != outer.op or not inner.alike:
        return None
    if inner in parts.frozen or any(b.group in parts.shared for b in inner.branches):
        return None
    nodes = [o.node for o in branch.outputs]
    if outer.op == "union":
        return None if any(map(_asks, [*nodes, *group.conditions])) else inner
    if outer.op.startswith("except") and i > 0:
        return None
    as_it_is = [node.parts if node.tag == "ref" else None for node in nodes]
    width = len(inner.branches[0].outputs)
    same = as_it_is == [(inner, n) for n in range(width)]
    return inner if same and not group.conditions else None


def _asks(node: Node) -> bool:
    """Whether a subquery or a window stands in an expression."""
    if node.tag == "window":
        return True
    return any(_asks(p) if p.__class__ is Node else isinstance(p, Rel) for p in node.parts)


def _spliced(branch: Rel, inner: SetOperation, parts: Parts) -> list[Rel]:
    """The queries of an inner set operation, with what the outer one asks of them."""
    for rel in inner.branches:
        known = {
            parts.terms.make("ref", inner, i): output.node for i, output in enumerate(rel.outputs)
        }
        memo: dict[Node, Node] = {}

        def put(node: Node, known: Any = known, memo: dict[Node, Node] = memo) -> Node:
            return rewrite(node, known.get, parts.terms, memo)

        outputs = [o.as_node(put(o.node)) for o in branch.outputs]
        rel.group.conditions += [put(c) for c in branch.group.conditions]
        rel.group.sorts += [put(s) for s in branch.group.sorts]
        rel.outputs = outputs
    parts.rels.remove(branch)
    parts.forget(branch.group)
    return inner.branches
