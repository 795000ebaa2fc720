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
    least = terms.make("lit", "n", str(min(first, second)))
    outer.columns = [rewrite(node, known.get, terms, memo) for node in outer.columns]
    outer.args = (terms.make("limit", least), *inner.args[1:])
    outer.group = inner.group
    group.sources = []


def _count(limit: Node) -> int | None:
    return integer(limit.parts[0]) if limit.parts[0] is not None else None
