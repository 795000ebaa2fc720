"""LIMIT in LIMIT, and sort keys of a LIMIT that earlier ones leave nothing to decide."""

from __future__ import annotations

from vde_dagster.semantics.algebra import Derived, Node
from vde_dagster.semantics.normalise import integer
from vde_dagster.semantics.rewrite import rewrite
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
    least = terms.make("lit", "n", str(min(first, second)))
    outer.columns = [rewrite(node, known.get, terms, memo) for node in outer.columns]
    outer.args = (terms.make("limit", least), *inner.args[1:])
    outer.group = inner.group
    group.sources = []


def _count(limit: Node) -> int | None:
    return integer(limit.parts[0]) if limit.parts[0] is not None else None
