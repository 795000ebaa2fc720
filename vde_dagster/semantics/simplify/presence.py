"""What a condition rules out to be NULL needs no COALESCE and no IS NULL behind it."""

from __future__ import annotations

from collections.abc import Iterable

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.simplify.expressions import Simplifier
from vde_dagster.semantics.simplify.facts import null_test
from vde_dagster.semantics.simplify.parts import Parts

_ASKING = frozenset({"Is", "nseq", "case"})
_ASKING_CALLS = frozenset({"coalesce", "count"})
_STRICT = frozenset({"eq", "neq", "lt", "le", "add", "sub", "mul"})


def use_presence(parts: Parts) -> None:
    """Simplify what is made of a group's rows by what its conditions say of NULLs."""
    asking = _parts_of(node for node in parts.terms.nodes() if _asks(node))
    if not asking:
        return
    tails = {source.group: source for source in parts.derived() if source.op != "left"}
    tops = {rel.group: rel for rel in parts.rels}
    for group in parts.groups:
        present = {node for condition in group.conditions for node in _present(condition)}
        if group in parts.shared or asking.isdisjoint(present):
            continue
        simple = Simplifier(parts.terms, present)
        source, rel = tails.get(group), tops.get(group)
        if rel is not None:
            rel.outputs = [o.as_node(simple.put(o.node)) for o in rel.outputs]
        if source is not None and source not in parts.frozen and len(source.keys) < 2:
            source.columns = [simple.put(node) for node in source.columns]
            source.args = tuple(simple.put(node) for node in source.args)
            source.keys = tuple(simple.put(node) for node in source.keys)


def _asks(node: Node) -> bool:
    """Whether the value of an expression depends on what is NULL in another way than others do."""
    return node.tag in _ASKING or (node.tag == "call" and node.parts[0] in _ASKING_CALLS)


def _parts_of(nodes: Iterable[Node]) -> set[Node]:
    """Expressions with all that they are made of."""
    found: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += (part for part in node.parts if part.__class__ is Node)
    return found


def _present(condition: Node) -> set[Node]:
    """The expressions that are not NULL where a condition is true."""
    if condition.tag == "or":
        return set.intersection(*map(_present, condition.parts))
    if condition.tag == "not":
        tested = null_test(condition.parts[0])
        return {tested} if tested is not None else _strict_parts(condition.parts[0])
    return _strict_parts(condition)


def _strict_parts(node: Node) -> set[Node]:
    """An expression that is not NULL, with what it would be NULL for."""
    if node.tag == "ref":
        return {node}
    if node.tag not in _STRICT:
        return set()
    return {node}.union(*map(_strict_parts, node.parts))
