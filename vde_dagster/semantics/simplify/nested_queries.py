"""Rules that remove nested queries without effect.

They remove DISTINCT over a unique key, DISTINCT where repeated rows do not matter (below EXISTS,
DISTINCT, INTERSECT, EXCEPT, MIN and MAX), LIMIT in LIMIT, and set operations in set operations.

Removing a GROUP BY or DISTINCT can change values: grouping turns -0.0 into 0.0, and pads CHAR
values. This does not matter if the outer query only compares the key or groups by it again, but it
matters if it converts the key to text or divides by it. If in doubt, the grouping stays.
"""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra.nodes import (
    AGGREGATES,
    COMPARED,
    Derived,
    Group,
    Node,
    Rel,
    SetOperation,
    Terms,
    int_value,
    rewrite,
    simple_aggregate,
    sources_in,
    walk,
)
from vde_dagster.semantics.algebra.uniqueness import group_keys
from vde_dagster.semantics.simplify.facts import DOUBLE, Facts, value_type
from vde_dagster.semantics.simplify.implied_conditions import compared_columns
from vde_dagster.semantics.simplify.parts import ColumnUses, QueryParts

OF_A_SET = frozenset({"min", "max", "bool_and", "bool_or", "bit_and", "bit_or"})
"""Aggregate functions whose result does not depend on how often a value occurs."""


def drop_groupings(parts: QueryParts) -> None:
    """Remove DISTINCT and GROUP BY that do not change the rows, and all unused columns."""
    found = [source for source in parts.derived_sources() if source.op == "agg"]
    if not found or (len(found) == len(parts.rels) == 1 and not _is_unique(found[0], parts)):
        return
    uses = ColumnUses.collect(parts.top)
    uses.drop_unused(parts.terms)
    sets = set(uses.exists)
    for group in list(uses.groups):
        _drop_in(group, sets, uses, parts)
        for source in group.sources:
            if isinstance(source, SetOperation):
                if source.op in ("intersect", "except") or (source.op == "union" and group in sets):
                    sets.update(branch.group for branch in source.branches)
            elif isinstance(source, Derived) and source.op == "agg":
                used = (source.columns[i] for i in uses.columns.get(source, ()))
                if all(node.tag not in AGGREGATES or ignores_repeats(node) for node in used):
                    sets.add(source.group)


def drop_groupings_of_sets(groups: set[Group], parts: QueryParts) -> None:
    """Remove DISTINCT and GROUP BY from `groups`, which are subqueries of EXISTS."""
    if not any(isinstance(s, Derived) for group in groups for s in group.sources):
        return
    # Only the existence of a row matters to EXISTS.
    uses = ColumnUses.collect(parts.top)
    for group in groups:
        _drop_in(group, groups, uses, parts)


def _drop_in(group: Group, sets: set[Group], uses: ColumnUses, parts: QueryParts) -> None:
    found = True
    while found:
        found = False
        for source in list(group.sources):
            if parts.is_grouping(source) and source.keys[0].parts:
                known = _as_a_set(source, uses, parts.terms) if group in sets else None
                if known is None:
                    known = _ungrouped_columns(source, uses, parts)
                if known is not None:
                    keys = source.keys[0].parts
                    parts.inline_source(source, group, known)
                    # Who sees the order of rows sees another one.
                    group.sorts.append(parts.terms.make("regrouped", *keys))
                    found = True


def _as_a_set(source: Derived, uses: ColumnUses, terms: Terms) -> dict[Node, Node] | None:
    keys = set(source.keys[0].parts)
    used = {i: source.columns[i] for i in uses.columns.get(source, ())}
    if not keys.issuperset(used.values()):
        return None
    known = {terms.make("ref", source, i): node for i, node in used.items()}
    facts = Facts(terms)
    if any(is_changed_by_ungrouping(node, column, uses, facts) for column, node in known.items()):
        return None
    own = set(source.group.sources)
    correlated = any(sources_in(c) - own for c in source.group.conditions)
    # In a correlated query, Spark also groups by the outer columns and turns their -0.0 into 0.0.
    exact = _correlates_plainly(source.group) and all(is_exact(node, facts) for node in keys)
    return None if correlated and not exact else known


def _ungrouped_columns(
    source: Derived, uses: ColumnUses, parts: QueryParts
) -> dict[Node, Node] | None:
    terms = parts.terms
    known: dict[Node, Node] = {}
    for i in uses.columns.get(source, ()):
        node = _value_over_one_row(source.columns[i])
        if node is None or value_type(node) is None:
            return None  # Grouping turns -0.0 into 0.0.
        known[terms.make("ref", source, i)] = node
    return known if _is_unique(source, parts) else None


def _is_unique(source: Derived, parts: QueryParts) -> bool:
    keys = set(source.keys[0].parts)
    return any(key <= keys for key in group_keys(source.group, parts.terms))


def _value_over_one_row(node: Node) -> Node | None:
    """Return an aggregate as an expression of a group's only row, or None if impossible."""
    if node.tag not in AGGREGATES:
        return node
    total = simple_aggregate(node.parts[0]) if node.tag == "aggregate" else None
    if total is None or total[0] not in ("min", "max") or total[1].tag == "Distinct":
        return None
    return total[1]


def ignores_repeats(node: Node) -> bool:
    """Return whether an aggregate ignores repeated rows, as MAX and DISTINCT do."""
    body = node.parts[0]
    if node.tag != "aggregate" or body.tag != "call":
        return False
    distinct = any(p.__class__ is Node and p.tag == "Distinct" for p in body.parts)
    return body.parts[0] in OF_A_SET or distinct


_COMPARING = frozenset({"eq", "neq", "lt", "le", "nseq", "Is"})
_INEXACT = (None, DOUBLE, "FLOAT<>")


def is_exact(key: Node, facts: Facts) -> bool:
    """Return whether equal values of a key are identical, unlike 0.0 and -0.0."""
    return facts.type(key) not in _INEXACT


def is_changed_by_ungrouping(key: Node, reference: Node, uses: ColumnUses, facts: Facts) -> bool:
    """Return whether removing a GROUP BY may change a result, such as -0.0 instead of 0.0."""
    if is_exact(key, facts):
        return False
    parents = uses.parents.get(reference, set())
    by = any(parent is not None and parent.tag == "keys" for parent in parents)
    return any(
        not by if parent is None else parent.tag not in _COMPARING and parent.tag != "keys"
        for parent in parents
    )


def merge_limits(parts: QueryParts) -> None:
    """Remove sort keys and limits that do not affect which rows are returned."""
    for source in parts.derived_sources():
        if source.op == "limit":
            limit, offset, *keys = source.args
            source.args = (limit, offset, *_deciding(keys))
    for source in list(parts.derived_sources()):
        if source.op == "limit" and source.group not in parts.shared:
            _merge(source, parts)


def remove_limits_in_exists(parts: QueryParts) -> None:
    # Such limits do not affect EXISTS (Spark: `EliminateLimits`).
    for rel in [node.parts[0] for node in parts.terms.nodes() if node.tag == "exists"]:
        only = rel.group.sources[0] if len(rel.group.sources) == 1 else None
        while (
            isinstance(only, Derived)
            and only.op == "limit"
            and not rel.group.conditions
            and rel in parts.seen
            and not {rel.group, only.group} & parts.shared
            and only not in parts.frozen
            and _keeps_some_rows(only)
            and _correlates_plainly(only.group)
        ):
            inner = only.group
            rel.group.sources, rel.group.conditions = inner.sources, inner.conditions
            rel.group.joins = inner.joins
            inner.sources, inner.conditions = [], []
            parts.groups.remove(inner)
            only = rel.group.sources[0] if len(rel.group.sources) == 1 else None


def _correlates_plainly(group: Group) -> bool:
    """Return whether a group's correlated conditions only compare columns without a cast."""
    own = set(group.sources)
    around = [c for c in group.conditions if sources_in(c) - own]
    # With a cast, Spark applies the LIMIT to each value of a different column.
    return all(
        compared_columns(condition) is not None and all(map(_is_plain, walk([condition])))
        for condition in around
    )


def _is_plain(node: Node) -> bool:
    kinds = {value_type(part) for part in node.parts} if node.tag in COMPARED else set()
    return len(kinds) < 2


def _keeps_some_rows(source: Derived) -> bool:
    # The sort keys must not be able to fail.
    limit, offset, *keys = source.args
    by = [key.parts[-1] for key in keys if key.tag == "sort"]
    own = source.group.sources
    plain = all(k.tag == "lit" or (k.tag == "ref" and k.parts[0] in own) for k in by)
    return plain and len(by) == len(keys) and offset.parts[0] is None and (_count(limit) or 0) > 0


def _deciding(keys: list[Node]) -> list[Node]:
    kept: dict[Node, Node] = {}
    for key in keys:
        by = key.parts[-1] if key.tag == "sort" else key
        if by.tag not in ("lit", "bool", "Null"):
            kept.setdefault(by, key)
    return list(kept.values())


def _merge(outer: Derived, parts: QueryParts) -> None:
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


def keep_failing_sorts(parts: QueryParts) -> None:
    """Keep ORDER BY expressions that may raise an error, unless an output computes them, too."""
    # The order of a query's result is ignored, but Spark computes the keys and may fail.
    branches = [
        branch
        for group in parts.groups
        for source in group.sources
        if isinstance(source, SetOperation)
        for branch in source.branches
    ]
    facts = Facts(parts.terms)
    for rel in dict.fromkeys((parts.top, *branches)):
        computed = set(walk(output.node for output in rel.outputs)) if rel.group.sorts else set()
        for sort in rel.group.sorts:
            key = sort
            while key.tag in _SORTS:
                key = key.parts[-1]
            if sort.tag in _SORTS and key not in computed and not facts.never_fails(key):
                made = parts.terms.make("computed", key)
                rel.group.conditions = [*rel.group.conditions, made]


_SORTS = ("sort", "cluster", "distribute")


def _count(limit: Node) -> int | None:
    return int_value(limit.parts[0]) if limit.parts[0] is not None else None


def flatten_set_operations(parts: QueryParts) -> None:
    """Merge a UNION inside a UNION, and similarly for INTERSECT."""
    for group in list(parts.groups):
        for source in group.sources:
            if isinstance(source, SetOperation) and source.has_common_types:
                branches: list[Rel] = []
                for i, branch in enumerate(source.branches):
                    inner = _inner(branch, source, i, parts)
                    branches += [branch] if inner is None else _spliced(branch, inner, parts)
                source.branches = branches


def _inner(branch: Rel, outer: SetOperation, i: int, parts: QueryParts) -> SetOperation | None:
    group = branch.group
    if len(group.sources) != 1 or group in parts.shared:
        return None
    if any(sort.tag != "regrouped" for sort in group.sorts):
        return None
    inner = group.sources[0]
    if not isinstance(inner, SetOperation) or inner.op != outer.op or not inner.has_common_types:
        return None
    if inner in parts.frozen or any(b.group in parts.shared for b in inner.branches):
        return None
    nodes = [o.node for o in branch.outputs]
    if outer.op == "union":
        return None if any(map(_contains_query, [*nodes, *group.conditions])) else inner
    if outer.op.startswith("except") and i > 0:
        return None
    as_it_is = [node.parts if node.tag == "ref" else None for node in nodes]
    width = len(inner.branches[0].outputs)
    same = as_it_is == [(inner, n) for n in range(width)]
    return inner if same and not group.conditions else None


def _contains_query(node: Node) -> bool:
    if node.tag == "window":
        return True
    return any(
        _contains_query(p) if p.__class__ is Node else isinstance(p, Rel) for p in node.parts
    )


def _spliced(branch: Rel, inner: SetOperation, parts: QueryParts) -> list[Rel]:
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
    parts.remove_group(branch.group)
    return inner.branches
