"""LIMIT in LIMIT, and set operations of set operations, as one."""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra.nodes import Derived, Node, Rel, SetOperation, integer, rewrite
from vde_dagster.semantics.simplify.parts import Parts


def merge_limits(parts: Parts) -> None:
    """Take out what does not decide which rows come first. (Spark: `CombineLimits`.)"""
    for source in parts.derived():
        if source.op == "limit":
            limit, offset, *keys = source.args
            source.args = (limit, offset, *_deciding(keys))
    for source in list(parts.derived()):
        if source.op == "limit" and source.group not in parts.shared:
            _merge(source, parts)


def ask_without_limits(parts: Parts) -> None:
    """EXISTS of the first rows is EXISTS of all. (Spark: `EliminateLimits`, for EXISTS.)"""
    for rel in [node.parts[0] for node in parts.terms.nodes() if node.tag == "exists"]:
        only = rel.group.sources[0] if len(rel.group.sources) == 1 else None
        while (
            isinstance(only, Derived)
            and only.op == "limit"
            and not rel.group.conditions
            and rel in parts.seen
            and not {rel.group, only.group} & parts.shared
            and only not in parts.frozen
            and _takes_some(only)
        ):
            inner = only.group
            rel.group.sources, rel.group.conditions = inner.sources, inner.conditions
            rel.group.joins = inner.joins
            inner.sources, inner.conditions = [], []
            parts.groups.remove(inner)
            only = rel.group.sources[0] if len(rel.group.sources) == 1 else None


def _takes_some(source: Derived) -> bool:
    """Whether a LIMIT leaves a row if there are any, and sorts by nothing that may fail."""
    limit, offset, *keys = source.args
    plain = all(key.tag == "sort" and key.parts[-1].tag in ("ref", "lit") for key in keys)
    return plain and offset.parts[0] is None and (_count(limit) or 0) > 0


def _deciding(keys: list[Node]) -> list[Node]:
    """Sort keys without constants, and without what was sorted by before."""
    kept: dict[Node, Node] = {}
    for key in keys:
        by = key.parts[-1] if key.tag == "sort" else key
        if by.tag not in ("lit", "bool", "Null"):
            kept.setdefault(by, key)
    return list(kept.values())


def _merge(outer: Derived, parts: Parts) -> None:
    """The first rows of the first rows."""
    group = outer.group
    inner = group.sources[0] if len(group.sources) == 1 and not group.conditions else None
    if not isinstance(inner, Derived) or inner.op != "limit" or inner in parts.frozen:
        return
    first, second = _count(outer.args[0]), _count(inner.args[0])
    if first is None or second is None or inner.group in parts.shared:
        return
    if len(outer.args) > 2 or outer.args[1].parts[0] is not None:
        return  # They are sorted again, or begin later.
    terms, memo = parts.terms, dict[Node, Node]()
    known = {terms.make("ref", inner, i): node for i, node in enumerate(inner.columns)}
    least = terms.number(min(first, second))
    outer.columns = [rewrite(node, known.get, terms, memo) for node in outer.columns]
    outer.args = (terms.make("limit", least), *inner.args[1:])
    outer.group = inner.group
    group.sources = []


def _count(limit: Node) -> int | None:
    return integer(limit.parts[0]) if limit.parts[0] is not None else None


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
