"""What of a query is used, and where: which columns of which sources anything asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vde_dagster.semantics.algebra import (
    Constant,
    Derived,
    FullJoin,
    Generator,
    Group,
    Node,
    Rel,
    SetOperation,
    Terms,
)
from vde_dagster.semantics.simplify.facts import null_test


@dataclass(slots=True)
class Uses:
    """The uses of sources' columns in a query, found by walking it from its outputs.

    Args:
        groups: The groups that are part of the query, outer ones first.
        columns: Per source, the keys of the columns that are asked for.
        asked_in: Per source, the groups whose conditions name it, and None for any other place.
        tests: Per source, the expressions ``x IS NULL`` of its columns x.
        values: The sources whose columns stand in more than such tests.
        parents: Per reference, the expressions that it is part of; None where it stands alone.
        exists: Groups of which it only counts whether they have rows.
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
    def of(cls, rel: Rel) -> Uses:
        """Walk a query."""
        uses = cls()
        uses._group(rel.group)
        for output in rel.outputs:
            uses._node(output.node, None)
        return uses

    def only_asked_in(self, source: Any, group: Group) -> bool:
        """Whether nothing but the conditions of the group names the source."""
        return self.asked_in.get(source, set()) <= {group}

    def drop_unused(self, terms: Terms) -> None:
        """Put NULL in the place of columns that nobody asks for."""
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
        tested = null_test(node)
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
