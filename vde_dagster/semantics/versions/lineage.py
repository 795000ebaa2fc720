"""Column lineage: the sources of output columns, and the columns read for joins and filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Indirect:
    found: set[IndirectSource] = field(default_factory=set)
    seen: set[Any] = field(default_factory=set)


class Tracer:
    """Follows references of one query down to tables."""

    def __init__(self) -> None:
        self._direct_memo: dict[Node, Flows] = {}

    def lineage(self, rel: Rel) -> ColumnLineage:
        """The lineage of a query's outputs."""
        columns = {
            o.name: tuple(
                sorted(Source(*read, kind) for read, kind in self._direct(o.node).items())
            )
            for o in rel.outputs
        }
        indirect = _Indirect()
        self._group(rel.group, indirect)
        for output in rel.outputs:
            self._conditions_in(output.node, indirect)
        return ColumnLineage(columns, tuple(sorted(indirect.found)))

    # direct

    def _direct(self, node: Node) -> Flows:
        known = self._direct_memo.get(node)
        if known is None:
            known = self._direct_memo[node] = self._flows(node)
        return known

    def _flows(self, node: Node) -> Flows:
        tag, parts = node.tag, node.parts
        if tag == "ref":
            return self._reference(parts[0], parts[1])
        if tag == "case":
            values = [p for i, p in enumerate(parts) if i % 2 or i == len(parts) - 1]
            return _merge([self._direct(v) for v in values], "transformation")
        if tag in AGGREGATES:
            return _merge([self._direct(parts[0])], "aggregation")
        if tag == "window":
            return _merge([self._direct(parts[2])], "transformation")
        if tag == "exists":
            return {}
        flows: list[Flows] = []
        for part in parts:
            if part.__class__ is Node:
                flows.append(self._direct(part))
            elif part.__class__ is Rel:
                flows += [self._direct(o.node) for o in part.outputs]
        return _merge(flows, "transformation")

    def _reference(self, source: Any, key: Any) -> Flows:
        if isinstance(source, Leaf):
            return {(source.table, key): "identity"}
        if isinstance(source, (Derived, FullJoin)):
            return self._direct(source.columns[key])
        if isinstance(source, SetOperation):
            return _merge([self._direct(b.outputs[key].node) for b in source.branches], "identity")
        if isinstance(source, Generator):
            return _merge([self._direct(a) for a in source.args], "transformation")
        if isinstance(source, Constant):
            # The rows of a lateral VALUES may name columns.
            cells = [self._direct(row[key]) for row in source.rows if key < len(row)]
            return _merge(cells, "transformation")
        return {}

    # indirect

    def _add(self, node: Node, kind: IndirectKind, out: _Indirect) -> None:
        for table, column in self._direct(node):
            out.found.add(IndirectSource(table, column, kind))
        self._conditions_in(node, out)

    def _conditions_in(self, node: Node, out: _Indirect) -> None:
        """Indirect sources inside an expression: CASE conditions, windows, subqueries."""
        if node in out.seen:
            return
        out.seen.add(node)
        tag, parts = node.tag, node.parts
        if tag == "case":
            for condition in parts[: len(parts) - len(parts) % 2 : 2]:
                self._add(condition, "conditional", out)
        elif tag == "window":
            for key in (*parts[3].parts, *parts[4].parts):
                self._add(key, "window", out)
            self._group(parts[0], out)
        elif tag == "ref":
            source, key = parts
            if isinstance(source, (Derived, FullJoin)):
                self._conditions_in(source.columns[key], out)
            elif isinstance(source, SetOperation):
                for branch in source.branches:
                    self._conditions_in(branch.outputs[key].node, out)
        for part in parts:
            if part.__class__ is Node:
                if part not in out.seen:
                    self._conditions_in(part, out)
            elif part.__class__ is Rel:
                self._group(part.group, out)
                for output in part.outputs:
                    self._conditions_in(output.node, out)

    def _group(self, group: Group, out: _Indirect) -> None:
        if group in out.seen:
            return
        out.seen.add(group)
        for condition in group.conditions:
            kind: IndirectKind = "join" if condition in group.joins else "filter"
            self._add_condition(condition, kind, out)
        for sort in group.sorts:
            self._add(sort, "sort", out)
        for source in group.sources:
            self._source(source, out)

    def _add_condition(self, node: Node, kind: IndirectKind, out: _Indirect) -> None:
        self._add(node, kind, out)
        if node.tag == "not":
            node = node.parts[0]
        if node.tag == "exists":
            inner: Group = node.parts[0].group
            for condition in inner.conditions:
                self._add(condition, "join" if condition in inner.joins else kind, out)

    def _source(self, source: Any, out: _Indirect) -> None:
        if isinstance(source, Derived):
            self._group(source.group, out)
            for key in source.keys:
                self._add(key, "group", out)
            for arg in source.args:
                self._add(arg, "sort", out)
        elif isinstance(source, SetOperation):
            for branch in source.branches:
                self._group(branch.group, out)
                if source.op != "union":
                    # Whole rows are compared, whichever of their columns are asked for.
                    for output in branch.outputs:
                        self._add(output.node, "filter", out)
        elif isinstance(source, Generator):
            # How many rows there are is decided by what is taken apart.
            for arg in source.args:
                self._add(arg, "filter", out)
        elif isinstance(source, FullJoin):
            self._group(source.left, out)
            self._group(source.right, out)
            for condition in source.conditions:
                self._add(condition, "join", out)


def _merge(flows: Sequence[Flows], at_least: DirectKind) -> Flows:
    """Join flows; where two meet in a column, the stronger kind is kept."""
    if len(flows) == 1:
        return {read: _STRONGER[kind, at_least] for read, kind in flows[0].items()}
    merged: Flows = {}
    for flow in flows:
        for read, kind in flow.items():
            merged[read] = _STRONGER[_STRONGER[kind, at_least], merged.get(read, "identity")]
    return merged
