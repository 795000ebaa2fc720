"""The parts of a query by kind, so that rules need not walk it themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
        shared: Groups that several sources stand for, or that a window's rows are asked for.
        windowed: Groups as windows look at them.
    """

    terms: Terms
    groups: list[Group] = field(default_factory=list)
    rels: list[Rel] = field(default_factory=list)
    seen: set[Any] = field(default_factory=set)
    frozen: set[Any] = field(default_factory=set)
    shared: set[Group] = field(default_factory=set)
    windowed: list[Group] = field(default_factory=list)

    @classmethod
    def of(cls, rel: Rel, terms: Terms) -> Parts:
        """Collect the parts of a query."""
        parts = cls(terms)
        inner: list[Rel] = []
        windowed: dict[Group, None] = {}
        for node in terms.nodes():
            if node.tag == "window":
                parts.frozen.update(node.parts[0].sources)
                windowed[node.parts[0]] = None
                parts.shared.update(_asked_for(node.parts[0]))
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
        """The query itself."""
        return self.rels[-1]

    def dissolve(self, source: Derived, group: Group, columns: dict[Node, Node]) -> None:
        """Put the rows that a source is made of in its place in a group.

        Args:
            source: One of the group's sources.
            group: Where it stands.
            columns: What stands for references to it from now on.
        """
        at = group.sources.index(source)
        behind = group.sources[at + 1 :]
        del group.sources[at:]
        group.absorb(source.group)
        group.sources += behind  # They may depend on the rows of what has been dissolved.
        self.forget(source.group)
        self.replace(columns)

    def forget(self, group: Group) -> None:
        """Take a group out of the query."""
        group.sources, group.conditions, group.sorts = [], [], []
        self.groups.remove(group)
        self.terms.keys.clear()

    def derived(self) -> Iterator[Derived]:
        """All sources made of one group."""
        for group in self.groups:
            for source in group.sources:
                if isinstance(source, Derived):
                    yield source

    def replace(self, known: dict[Node, Node]) -> None:
        """Put expressions in the place of others wherever they stand."""
        terms, memo = self.terms, dict[Node, Node]()
        self.change(lambda node: rewrite(node, known.get, terms, memo))

    def change(self, change: Callable[[Node], Node]) -> None:
        """Put what a function returns in the place of every expression of these parts."""

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
    """How many key expressions grouping sets have."""
    return len({key for one in keys for key in one.parts})


def _asked_for(group: Group) -> Iterator[Group]:
    """The groups of the queries in a group's conditions."""
    stack = list(group.conditions)
    while stack:
        for part in stack.pop().parts:
            if part.__class__ is Node:
                stack.append(part)
            elif part.__class__ is Rel:
                yield part.group
