"""Column lineage: the sources of output columns, and the columns read for joins and filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from vde_dagster.semantics.algebra.nodes import (
    AGGREGATES,
    Constant,
    Derived,
    FullJoin,
    Generator,
    Group,
    Leaf,
    Node,
    Rel,
    SetOperation,
    case_values,
)

DirectKind: TypeAlias = Literal["identity", "transformation", "aggregation"]
IndirectKind: TypeAlias = Literal["join", "filter", "group", "sort", "window", "conditional"]

_KINDS: tuple[DirectKind, ...] = ("identity", "transformation", "aggregation")
_STRONGER = {(one, other): max(one, other, key=_KINDS.index) for one in _KINDS for other in _KINDS}


class Source(NamedTuple):
    """A column that flows into an output column, and how."""

    table: str
    column: str
    kind: DirectKind


class IndirectSource(NamedTuple):
    """A column that decides which rows there are, or which value is taken."""

    table: str
    column: str
    kind: IndirectKind


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """Column-level lineage of a query (the kinds are those of OpenLineage)."""

    columns: dict[str, tuple[Source, ...]]
    indirect: tuple[IndirectSource, ...]


Read: TypeAlias = tuple[str, str]
Flows: TypeAlias = dict[Read, DirectKind]


def lineage_of(rel: Rel) -> ColumnLineage:
    """The lineage of a query's outputs."""
    tracer = Tracer()
    tracer.group(rel.group)
    columns: dict[str, tuple[Source, ...]] = {}
    for output in rel.outputs:
        flows = tracer.direct(output.node)
        columns[output.name] = tuple(sorted(Source(*read, kind) for read, kind in flows.items()))
        tracer.conditions_in(output.node)
    return ColumnLineage(columns, tuple(sorted(tracer.found)))


class Tracer:
    """Follows references of one query down to tables."""

    def __init__(self) -> None:
        self.found: set[IndirectSource] = set()
        self._seen: set[Any] = set()
        self._direct: dict[Node, Flows] = {}

    def direct(self, node: Node) -> Flows:
        known = self._direct.get(node)
        if known is None:
            known = self._direct[node] = self._flows(node)
        return known

    def _flows(self, node: Node) -> Flows:
        tag, parts = node.tag, node.parts
        if tag == "ref":
            return self._reference(parts[0], parts[1])
        if tag == "case":
            return _merge([self.direct(v) for v in case_values(node)], "transformation")
        if tag in AGGREGATES:
            return _merge([self.direct(parts[0])], "aggregation")
        if tag == "window":
            return _merge([self.direct(parts[2])], "transformation")
        if tag == "exists":
            return {}
        flows: list[Flows] = []
        for part in parts:
            if part.__class__ is Node:
                flows.append(self.direct(part))
            elif part.__class__ is Rel:
                flows += [self.direct(o.node) for o in part.outputs]
        return _merge(flows, "transformation")

    def _reference(self, source: Any, key: Any) -> Flows:
        if isinstance(source, Leaf):
            return {(source.table, key): "identity"}
        if isinstance(source, (Derived, FullJoin)):
            return self.direct(source.columns[key])
        if isinstance(source, SetOperation):
            return _merge([self.direct(b.outputs[key].node) for b in source.branches], "identity")
        if isinstance(source, Generator):
            return _merge([self.direct(a) for a in source.args], "transformation")
        if isinstance(source, Constant):
            # The rows of a lateral VALUES may name columns.
            cells = [self.direct(row[key]) for row in source.rows if key < len(row)]
            return _merge(cells, "transformation")
        return {}

    def _add(self, node: Node, kind: IndirectKind) -> None:
        for table, column in self.direct(node):
            self.found.add(IndirectSource(table, column, kind))
        self.conditions_in(node)

    def conditions_in(self, node: Node) -> None:
        """Indirect sources inside an expression: CASE conditions, windows, subqueries."""
        if node in self._seen:
            return
        self._seen.add(node)
        tag, parts = node.tag, node.parts
        if tag == "case":
            for condition in parts[: len(parts) - len(parts) % 2 : 2]:
                self._add(condition, "conditional")
        elif tag == "window":
            for key in (*parts[3].parts, *parts[4].parts):
                self._add(key, "window")
            self.group(parts[0])
        elif tag == "ref":
            source, key = parts
            if isinstance(source, (Derived, FullJoin)):
                self.conditions_in(source.columns[key])
            elif isinstance(source, SetOperation):
                for branch in source.branches:
                    self.conditions_in(branch.outputs[key].node)
        for part in parts:
            if part.__class__ is Node:
                if part not in self._seen:
                    self.conditions_in(part)
            elif part.__class__ is Rel:
                self.group(part.group)
                for output in part.outputs:
                    self.conditions_in(output.node)

    def group(self, group: Group) -> None:
        if group in self._seen:
            return
        self._seen.add(group)
        for condition in group.conditions:
            kind: IndirectKind = "join" if condition in group.joins else "filter"
            self._add(condition, kind)
            asked = condition.parts[0] if condition.tag == "not" else condition
            if asked.tag == "exists":
                inner: Group = asked.parts[0].group
                for one in inner.conditions:
                    self._add(one, "join" if one in inner.joins else kind)
        for sort in group.sorts:
            self._add(sort, "sort")
        for source in group.sources:
            self._source(source)

    def _source(self, source: Any) -> None:
        if isinstance(source, Derived):
            self.group(source.group)
            for key in source.keys:
                self._add(key, "group")
            for arg in source.args:
                self._add(arg, "sort")
        elif isinstance(source, SetOperation):
            for branch in source.branches:
                self.group(branch.group)
                if source.op != "union":
                    # Whole rows are compared, whichever of their columns are asked for.
                    for output in branch.outputs:
                        self._add(output.node, "filter")
        elif isinstance(source, Generator):
            # How many rows there are is decided by what is taken apart.
            for arg in source.args:
                self._add(arg, "filter")
        elif isinstance(source, FullJoin):
            self.group(source.left)
            self.group(source.right)
            for condition in source.conditions:
                self._add(condition, "join")


def _merge(flows: Sequence[Flows], at_least: DirectKind) -> Flows:
    """Join flows; where two meet in a column, the stronger kind is kept."""
    if len(flows) == 1:
        return {read: _STRONGER[kind, at_least] for read, kind in flows[0].items()}
    merged: Flows = {}
    for flow in flows:
        for read, kind in flow.items():
            merged[read] = _STRONGER[_STRONGER[kind, at_least], merged.get(read, "identity")]
    return merged
