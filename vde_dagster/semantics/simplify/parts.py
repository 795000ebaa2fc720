"""The parts of a query by kind, so that rules need not walk it themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from vde_dagster.semantics.algebra import (
    Derived,
    FullJoin,
    Generator,
    Group,
    Node,
    Rel,
    SetOperation,
    Terms,
)
from vde_dagster.semantics.rewrite import rewrite


@dataclass(slots=True)
class Parts:
    """What a query consists of.

    Args:
        terms: Where expressions are made.
        groups: All groups, inner ones first; those that windows look at are not among them.
        rels: The query and all queries in it that have outputs.
        seen: Groups and sources with no duplicates, by identity.
        frozen: Sources that a window is computed over. What reads the window's result is not
            what the window read, so these sources take nothing from the groups they are in.
        shared: Groups that several sources stand for.
    """

    terms: Terms
    groups: list[Group] = field(default_factory=list)
    rels: list[Rel] = field(default_factory=list)
    seen: set[Any] = field(default_factory=set)
    frozen: set[Any] = field(default_factory=set)
    shared: set[Group] = field(default_factory=set)

    @classmethod
    def of(cls, rel: Rel, terms: Terms) -> Parts:
        """Collect the parts of a query."""
        parts = cls(terms)
        inner: list[Rel] = []
        for node in terms.nodes():
            if node.tag == "window":
                parts.frozen.update(node.parts[0].sources)
            inner += (part for part in node.parts if part.__class__ is Rel)
        for one in [*inner, rel]:
            parts._rel(one)
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

    def derived(self) -> Iterator[Derived]:
        """All sources made of one group."""
        for group in self.groups:
            for source in group.sources:
                if isinstance(source, Derived):
                    yield source

    def replace(self, known: dict[Node, Node]) -> None:
        """Put expressions in the place of others wherever they stand."""
        terms, memo = self.terms, dict[Node, Node]()

        def everywhere(nodes: Any) -> list[Node]:
            return [rewrite(node, known.get, terms, memo) for node in nodes]

        for rel in self.rels:
            rel.outputs = [
                o.as_node(n)
                for o, n in zip(rel.outputs, everywhere(o.node for o in rel.outputs), strict=True)
            ]
        for group in self.groups:
            group.conditions = everywhere(group.conditions)
            group.sorts = everywhere(group.sorts)
            for source in group.sources:
                if isinstance(source, Derived):
                    source.keys = tuple(everywhere(source.keys))
                    source.args = tuple(everywhere(source.args))
                    source.columns = everywhere(source.columns)
                elif isinstance(source, FullJoin):
                    source.conditions = everywhere(source.conditions)
                    source.columns = everywhere(source.columns)
                elif isinstance(source, Generator):
                    source.args = everywhere(source.args)
