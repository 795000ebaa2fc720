"""The groups, relations and windows of a query, and where the query uses its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from vde_dagster.semantics.algebra.nodes import (
    Constant,
    Derived,
    FullJoin,
    Generator,
    Group,
    Node,
    Rel,
    SetOperation,
    Terms,
    null_test_operand,
    rewrite,
    walk,
)


@dataclass(slots=True)
class QueryParts:
    """All SELECTs, groups and windows of a query, for rules that search the whole query.

    Args:
        groups: Groups of the query, inner groups first.
        frozen: Sources of a group in `windowed`, and sources that occur in several groups. Rules
            push no conditions into these sources.
        shared: Groups that several sources share, or that occur in a window's conditions.
        windowed: Groups whose rows are the input of a window function.
    """

    terms: Terms
    groups: list[Group] = field(default_factory=list)
    rels: list[Rel] = field(default_factory=list)
    seen: set[Any] = field(default_factory=set)
    # Conditions outside apply after the window, so they must not be moved into these sources.
    frozen: set[Any] = field(default_factory=set)
    shared: set[Group] = field(default_factory=set)
    windowed: list[Group] = field(default_factory=list)

    @classmethod
    def collect(cls, rel: Rel, terms: Terms) -> QueryParts:
        parts = cls(terms)
        inner: list[Rel] = []
        windowed: dict[Group, None] = {}
        for node in terms.nodes():
            if node.tag == "window":
                parts.frozen.update(node.parts[0].sources)
                windowed[node.parts[0]] = None
                asked = (part for one in walk(node.parts[0].conditions) for part in one.parts)
                parts.shared.update(part.group for part in asked if part.__class__ is Rel)
            elif node.parts and node.parts[-1].__class__ is Rel:
                inner.append(node.parts[-1])
        for one in [*inner, rel]:
            parts._rel(one)
        parts.windowed = list(windowed)
        return parts

    def _rel(self, rel: Rel) -> None:
        if rel not in self.seen:
            self.seen.add(rel)
            self._group(rel.group)
            self.rels.append(rel)

    def _group(self, group: Group) -> None:
        if group in self.seen:
            self.shared.add(group)
            return
        self.seen.add(group)
        for source in group.sources:
            if source in self.seen:
                self.frozen.add(source)
                continue
            self.seen.add(source)
            if isinstance(source, Derived):
                self._group(source.group)
            elif isinstance(source, SetOperation):
                for branch in source.branches:
                    self._rel(branch)
            elif isinstance(source, FullJoin):
                self._group(source.left)
                self._group(source.right)
        self.groups.append(group)

    @property
    def top(self) -> Rel:
        return self.rels[-1]

    def inline_source(self, source: Derived, group: Group, columns: dict[Node, Node]) -> None:
        """Replace a subquery in FROM with its own sources and conditions."""
        group.replace_source(source, source.group)
        self.remove_group(source.group)
        self.replace(columns)

    def remove_group(self, group: Group) -> None:
        group.sources, group.conditions, group.sorts = [], [], []
        self.groups.remove(group)
        self.terms.keys.clear()

    def derived_sources(self) -> Iterator[Derived]:
        for group in self.groups:
            for source in group.sources:
                if isinstance(source, Derived):
                    yield source

    def is_grouping(self, source: Any) -> TypeGuard[Derived]:
        """Return whether a source is a GROUP BY, without grouping sets, that may be rewritten."""
        return (
            isinstance(source, Derived)
            and source.op == "agg"
            and len(source.keys) == 1
            and source not in self.frozen
            and source.group not in self.shared
        )

    def outer_joins(self, group: Group) -> list[Derived]:
        """Return those LEFT and RIGHT joins of a group that rules may rewrite."""
        return [
            source
            for source in group.sources
            if isinstance(source, Derived)
            and source.op == "left"
            and source not in self.frozen
            and source.group not in self.shared
        ]

    def replace(self, known: dict[Node, Node]) -> None:
        """Replace expressions everywhere in the query. `known` maps old to new expressions."""
        terms, memo = self.terms, dict[Node, Node]()
        self.replace_each(lambda node: rewrite(node, known.get, terms, memo))

    def replace_each(self, change: Callable[[Node], Node]) -> None:
        def everywhere(nodes: Iterable[Node]) -> list[Node]:
            return [change(node) for node in nodes]

        for rel in self.rels:
            made = everywhere(o.node for o in rel.outputs)
            rel.outputs = [
                o if o.node is n else o.as_node(n) for o, n in zip(rel.outputs, made, strict=True)
            ]
        for group in self.windowed:
            group.conditions = everywhere(group.conditions)
        for group in self.groups:
            changed = everywhere(group.conditions)
            self.terms.same_type.update(
                new
                for old, new in zip(group.conditions, changed, strict=True)
                if new is not old and old in self.terms.same_type
            )
            group.conditions = changed
            group.sorts = everywhere(group.sorts)
            for source in group.sources:
                if isinstance(source, Derived):
                    keys = tuple(everywhere(source.keys))
                    if len(keys) > 1 and _different(keys) < _different(source.keys):
                        continue  # Grouping sets tell keys apart that have one value.
                    source.keys = keys
                    source.args = tuple(everywhere(source.args))
                    source.columns = everywhere(source.columns)
                elif isinstance(source, FullJoin):
                    source.conditions = everywhere(source.conditions)
                    source.columns = everywhere(source.columns)
                elif isinstance(source, Generator):
                    source.args = everywhere(source.args)


def _different(keys: tuple[Node, ...]) -> int:
    return len({key for one in keys for key in one.parts})


@dataclass(slots=True)
class ColumnUses:
    """Places in a query that use the columns of its tables and subqueries.

    Args:
        asked_in: By source, the groups with conditions on the source. The set also has None if the
            source is used outside of conditions.
        tests: By source, the expressions ``x IS NULL`` of its columns.
        values: Sources with columns that are used outside of IS NULL.
        parents: By column reference, the expressions that contain it. The set also has None if the
            reference is an output.
        exists: Groups of subqueries in EXISTS.
    """

    groups: dict[Group, None] = field(default_factory=dict)
    columns: dict[Any, set[Any]] = field(default_factory=dict)
    asked_in: dict[Any, set[Group | None]] = field(default_factory=dict)
    tests: dict[Any, set[Node]] = field(default_factory=dict)
    values: set[Any] = field(default_factory=set)
    parents: dict[Node, set[Node | None]] = field(default_factory=dict)
    exists: set[Group] = field(default_factory=set)
    _seen: set[Any] = field(default_factory=set)

    @classmethod
    def collect(cls, rel: Rel) -> ColumnUses:
        uses = cls()
        uses._group(rel.group)
        for output in rel.outputs:
            uses._node(output.node, None)
        return uses

    def drop_unused(self, terms: Terms) -> None:
        """Set output columns of subqueries to NULL if no part of the query uses them."""
        null = terms.make("Null")
        for group in self.groups:
            for source in group.sources:
                used = self.columns.get(source, set())
                if isinstance(source, (Derived, FullJoin)):
                    source.columns = [
                        c if i in used else null for i, c in enumerate(source.columns)
                    ]
                elif isinstance(source, SetOperation) and source.op == "union":
                    for rel in source.branches:
                        rel.outputs = [
                            o if i in used else o.as_node(null) for i, o in enumerate(rel.outputs)
                        ]

    def _group(self, group: Group) -> None:
        if group in self.groups:
            return
        self.groups[group] = None
        for condition in group.conditions:
            self._node(condition, group)
        for sort in group.sorts:
            self._node(sort, None)
        for source in group.sources:
            self._source(source)

    def _source(self, source: Any) -> None:
        if isinstance(source, Derived):
            self._group(source.group)
            for node in (*source.keys, *(a for a in source.args if a.__class__ is Node)):
                self._node(node, None)
        elif isinstance(source, FullJoin):
            self._group(source.left)
            self._group(source.right)
            for node in source.conditions:
                self._node(node, None)
        elif isinstance(source, SetOperation):
            for rel in source.branches:
                self._group(rel.group)
                for output in rel.outputs if source.op != "union" else ():
                    self._node(output.node, None)
        elif isinstance(source, Generator):
            for node in source.args:
                self._node(node, None)
        elif isinstance(source, Constant):
            for row in source.rows:
                for node in row:
                    self._node(node, None)

    def _node(self, node: Node, place: Group | None, parent: Node | None = None) -> None:
        if node.tag == "ref":
            self.parents.setdefault(node, set()).add(parent)
        if (node, place) in self._seen or node.tag == "lit":
            return
        self._seen.add((node, place))
        if node.tag == "ref":
            self.values.add(node.parts[0])
            self._reference(node, place)
            return
        tested = null_test_operand(node)
        if tested is not None and tested.tag == "ref":
            self.tests.setdefault(tested.parts[0], set()).add(node)
            self._reference(tested, place)
            return
        for part in node.parts:
            if part.__class__ is Node:
                self._node(part, place, node)
            elif isinstance(part, Group):
                self._group(part)
            elif isinstance(part, Rel):
                self._group(part.group)
                if node.tag == "exists":
                    self.exists.add(part.group)
                else:
                    for output in part.outputs:
                        self._node(output.node, None)

    def _reference(self, node: Node, place: Group | None) -> None:
        source, key = node.parts
        self.asked_in.setdefault(source, set()).add(place)
        used = self.columns.setdefault(source, set())
        if key in used:
            return
        used.add(key)
        if isinstance(source, (Derived, FullJoin)):
            self._node(source.columns[key], None)
        elif isinstance(source, SetOperation) and source.op == "union":
            for rel in source.branches:
                self._node(rel.outputs[key].node, None)
