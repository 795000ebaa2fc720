"""Locality: columns of a table whose values decide which key of a query a row affects.

A query is local in a table by a key if each key's rows are computed only from the table's rows that
have the key's value in certain columns. A row added to or removed from the table then affects only
one key of the query. `FROM orders JOIN customers USING (customer_id) GROUP BY customer_id` is local
by `customer_id` in both tables; a window that is not partitioned by it, a LIMIT, or a table joined
by another column is not local.

The key is followed down: through groups, where equalities make expressions interchangeable, into
aggregations by the key, into windows partitioned by it, into subqueries correlated by it, and into
both sides of a FULL JOIN on it, whose key is the first side that is not NULL. If a table is read
twice, its rows affect the keys of both readings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vde_dagster.semantics.algebra.nodes import (
    PARTS,
    Derived,
    FullJoin,
    Group,
    Leaf,
    Node,
    Rel,
    SetOperation,
    Terms,
    sources_in,
)
from vde_dagster.semantics.algebra.uniqueness import bindings

Stands = tuple[frozenset[Node], ...]
"""Per column of the key, the expressions that have its value in each row."""
Located = dict[str, set[tuple[str, ...]] | None]
"""Columns with the key's values, per table and reading; None for a table that is not local."""


def locate(rel: Rel, key: Sequence[str], terms: Terms) -> Located:
    """Return, by table, the columns whose values determine the key (in lower case) of result rows.

    Raises:
        KeyError: The query has no such output column.
    """
    nodes = {output.name: output.node for output in rel.outputs}
    search = _Search(terms)
    search.rel(rel, tuple(frozenset({nodes[name]}) for name in key))
    return search.found


class _Search:
    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.found: Located = {}

    def rel(self, rel: Rel, key: Stands) -> None:
        """Follow the key into a query, its sources and subqueries; the key's expressions are over
        the query's group, or over outer queries.
        """
        within = self._group(rel.group, key)
        self._inside((output.node for output in rel.outputs), within)

    def _group(self, group: Group, key: Stands) -> Stands:
        key = self._spread(group, key)
        self._inside((*group.conditions, *group.sorts), key)
        for source in group.sources:
            self._source(source, key)
        return key

    def _spread(self, group: Group, key: Stands) -> Stands:
        """Add the expressions that a group's conditions make equal, with equal types."""
        equal = bindings(group, self._terms)
        spread = []
        for stands in key:
            known, stack = set(stands), list(stands)
            while stack:
                new = set(equal.get(stack.pop(), ())) - known
                known |= new
                stack += new
            spread.append(frozenset(known))
        return tuple(spread)

    def _source(self, source: Any, key: Stands) -> None:
        own = [[n.parts[1] for n in stands if _refers(n, source)] for stands in key]
        if isinstance(source, Leaf):
            self._leaf(source, own)
        elif isinstance(source, Derived):
            self._derived(source, key, own)
        elif isinstance(source, FullJoin):
            self._full_join(source, key)
        elif isinstance(source, SetOperation) and source.alike and all(own):
            places = [columns[0] for columns in own]
            for branch in source.branches:
                nodes = (branch.outputs[place].node for place in places)
                self.rel(branch, tuple(frozenset({node}) for node in nodes))
        else:
            self._lose(source)

    def _leaf(self, leaf: Leaf, own: Sequence[Sequence[str]]) -> None:
        known = self.found.setdefault(leaf.table, set())
        if not all(own):
            self.found[leaf.table] = None
        elif known is not None:
            known.add(tuple(min(columns) for columns in own))

    def _derived(self, source: Derived, key: Stands, own: Sequence[Sequence[int]]) -> None:
        """Follow the key into a group, by the columns of the group and of outer queries.

        Columns of the right side of a LEFT JOIN do not count: adding or removing a row on the right
        side also adds or removes rows with NULL in them.
        """
        inner = []
        for stands, places in zip(key, own, strict=True):
            nodes = [source.columns[place] for place in places]
            if source.op == "agg":
                nodes = [n for n in nodes if all(n in one.parts for one in source.keys)]
                nodes = nodes if source.keys else []
            elif source.op != "block":
                nodes = []
            inner.append(stands | frozenset(nodes))
        within = self._group(source.group, tuple(inner))
        self._inside((*source.columns, *source.keys, *source.args), within)

    def _full_join(self, join: FullJoin, key: Stands) -> None:
        """Follow the key into both sides of a FULL JOIN, for a coalesce of two equal columns.

        A row without a match has NULL on the other side, so the key comes from its own side.
        """
        sides = [
            next((pair for n in stands if (pair := _of_both_sides(n, join, self._terms))), None)
            for stands in key
        ]
        if not all(sides):
            self._lose(join)
            return
        for place, group in enumerate((join.left, join.right)):
            pairs = zip(key, sides, strict=True)
            inner = (stands | {pair[place]} for stands, pair in pairs if pair is not None)
            self._group(group, tuple(inner))
        nothing: Stands = tuple(frozenset() for _ in key)
        self._inside((*join.conditions, *join.columns), nothing)

    def _inside(self, nodes: Iterable[Any], key: Stands) -> None:
        """Follow the key into windows and subqueries of expressions.

        For each outer row, a subquery's result depends only on its rows for that outer row.
        """
        seen: set[Any] = set()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if node.__class__ is Rel:
                self.rel(node, key)
            if node.__class__ is not Node or node in seen:
                continue
            seen.add(node)
            if node.tag == "window":
                self._window(node, key)
            else:
                stack += node.parts

    def _window(self, node: Node, key: Stands) -> None:
        """Follow the key into the rows of a window; the query's conditions need not hold there."""
        by = frozenset(node.parts[3].parts)
        within = self._group(node.parts[0], tuple(stands & by for stands in key))
        self._inside(node.parts[1:], within)

    def _lose(self, part: Any) -> None:
        """Mark the tables below a source or query as not local."""
        seen: set[Any] = set()
        stack = [part]
        while stack:
            part = stack.pop()
            parts = PARTS.get(part.__class__)
            if parts is None or part in seen:
                continue
            seen.add(part)
            if isinstance(part, Leaf):
                self.found[part.table] = None
            stack.extend(parts(part))


def _of_both_sides(node: Node, join: FullJoin, terms: Terms) -> tuple[Node, Node] | None:
    """Return the columns of both sides in a COALESCE of two columns of a FULL JOIN.

    Returns None for other nodes, and unless the join requires equal columns of one type.
    """
    if node.tag != "Coalesce" and (node.tag != "call" or node.parts[0] != "coalesce"):
        return None  # USING creates the former, an author's COALESCE the latter.
    asked = [part for part in node.parts if part.__class__ is Node]
    if len(asked) != 2 or not all(_refers(one, join) for one in asked):
        return None
    one, other = (join.columns[ref.parts[1]] for ref in asked)
    equal = {terms.unordered(tag, [one, other]) for tag in ("eq", "nseq")}
    if not equal & terms.same_type & set(join.conditions):
        return None
    left, right = set(join.left.sources), set(join.right.sources)
    for first, second in ((one, other), (other, one)):
        if sources_in(first) <= left and sources_in(second) <= right:
            return first, second
    return None


def _refers(node: Node, source: Any) -> bool:
    return node.tag == "ref" and node.parts[0] is source
