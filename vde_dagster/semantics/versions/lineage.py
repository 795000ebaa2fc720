"""Column lineage: source columns of each output, and columns used for joins and filters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
IndirectKind: TypeAlias = Literal[
    "join", "filter", "group", "sort", "window", "conditional", "unknown"
]

_KINDS: tuple[DirectKind, ...] = ("identity", "transformation", "aggregation")
_STRONGER = {(one, other): max(one, other, key=_KINDS.index) for one in _KINDS for other in _KINDS}


class Source(NamedTuple):
    """A table's column whose values go into an output column."""

    table: str
    column: str
    kind: DirectKind


class IndirectSource(NamedTuple):
    """A table's column that affects an output without going into it, as in WHERE or ORDER BY."""

    table: str
    column: str
    kind: IndirectKind


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """Column-level lineage of a query, with the kinds that OpenLineage defines.

    Args:
        columns: By output name, the columns whose values go into the output.
        conditions: By output name, the columns in the output's conditions, such as in CASE WHEN.
        rows: Columns that determine which rows are returned, or their order.
    """

    columns: dict[str, tuple[Source, ...]]
    conditions: dict[str, tuple[IndirectSource, ...]]
    rows: tuple[IndirectSource, ...]


Read: TypeAlias = tuple[str, str]
Flows: TypeAlias = dict[Read, DirectKind]
Deciding: TypeAlias = frozenset[IndirectSource]


EVERY_COLUMN = "*"
"""Placeholder for the columns of a table whose columns are unknown."""


def unknown_sources(leaves: Iterable[Leaf]) -> tuple[IndirectSource, ...]:
    """Return all columns of the tables as sources of a query that could not be analyzed."""
    # An unsupported query may use any column.
    found = {
        (leaf.table, column)
        for leaf in leaves
        for column in (*leaf.columns, *((EVERY_COLUMN,) if leaf.open else ()))
    }
    return tuple(IndirectSource(*read, "unknown") for read in sorted(found))


_PLAIN = frozenset({"lit", "bool", "Null"})
_NOTHING: Deciding = frozenset()


def trace_lineage(rel: Rel, leaves: Iterable[Leaf] = ()) -> ColumnLineage:
    tracer = LineageTracer(leaves)
    rows = tracer.group(rel.group)
    # Columns that decide the rows under a window are listed once, as deciding rows.
    around = {one for one in rows if one.kind not in ("conditional", "window")}
    columns: dict[str, tuple[Source, ...]] = {}
    conditions: dict[str, tuple[IndirectSource, ...]] = {}
    for output in rel.outputs:
        flows = tracer.direct_sources(output.node)
        columns[output.name] = tuple(sorted(Source(*read, kind) for read, kind in flows.items()))
        conditions[output.name] = tuple(sorted(tracer.conditions(output.node) - around))
    return ColumnLineage(columns, conditions, tuple(sorted(rows)))


class LineageTracer:
    def __init__(self, leaves: Iterable[Leaf] = ()) -> None:
        self._leaves = leaves
        self._direct: dict[Node, Flows] = {}
        self._conditions: dict[Node, Deciding] = {}
        self._groups: dict[Group, Deciding] = {}

    def direct_sources(self, node: Node) -> Flows:
        known = self._direct.get(node)
        if known is None:
            known = self._direct[node] = self._flows(node)
        return known

    def _flows(self, node: Node) -> Flows:
        tag, parts = node.tag, node.parts
        if tag == "ref":
            return self._reference(parts[0], parts[1])
        if tag == "case":
            return _merge([self.direct_sources(v) for v in case_values(node)], "transformation")
        if tag in AGGREGATES:
            return _merge([self.direct_sources(parts[0])], "aggregation")
        if tag == "window":
            return _merge([self.direct_sources(parts[2])], "transformation")
        if tag == "Filter":
            return self.direct_sources(parts[0])
        if tag == "exists":
            return {}
        flows: list[Flows] = []
        for part in parts:
            if part.__class__ is Node:
                flows.append(self.direct_sources(part))
            elif part.__class__ is Rel:
                flows += [self.direct_sources(o.node) for o in part.outputs]
        return _merge(flows, "transformation")

    def _reference(self, source: Any, key: Any) -> Flows:
        if isinstance(source, Leaf):
            return {(source.table, key): "identity"}
        if isinstance(source, (Derived, FullJoin)):
            return self.direct_sources(source.columns[key])
        if isinstance(source, SetOperation):
            # EXCEPT and INTERSECT choose among the rows of the first.
            branches = source.branches if source.op == "union" else source.branches[:1]
            return _merge([self.direct_sources(b.outputs[key].node) for b in branches], "identity")
        if isinstance(source, Generator):
            return _merge([self.direct_sources(a) for a in source.args], "transformation")
        if isinstance(source, Constant):
            # The rows of a lateral VALUES may name columns.
            cells = [self.direct_sources(row[key]) for row in source.rows if key < len(row)]
            return _merge(cells, "transformation")
        return {}

    def _used(self, node: Node, kind: IndirectKind) -> Iterator[IndirectSource]:
        for table, column in self.direct_sources(node):
            yield IndirectSource(table, column, kind)
        yield from self.conditions(node)

    def conditions(self, node: Node) -> Deciding:
        known = self._conditions.get(node)
        if known is None:
            is_column = node.tag == "ref" and node.parts[0].__class__ is Leaf
            plain = is_column or node.tag in _PLAIN
            known = _NOTHING if plain else frozenset(self._conditions_in(node))
            self._conditions[node] = known
        return known

    def _conditions_in(self, node: Node) -> Iterator[IndirectSource]:
        tag, parts = node.tag, node.parts
        if tag == "case":
            for condition in parts[: len(parts) - len(parts) % 2 : 2]:
                yield from self._used(condition, "conditional")
        elif tag == "Filter":
            yield from self._used(parts[-1], "conditional")
        elif tag == "unknown" and not parts:
            yield from unknown_sources(self._leaves)
        elif tag == "window":
            for key in (*parts[3].parts, *parts[4].parts):
                yield from self._used(key, "window")
            yield from self.group(parts[0])
        elif tag == "ref":
            source, key = parts
            if isinstance(source, (Derived, FullJoin)):
                yield from self.conditions(source.columns[key])
            elif isinstance(source, SetOperation):
                for branch in source.branches:
                    yield from self.conditions(branch.outputs[key].node)
        for part in parts:
            if part.__class__ is Node:
                if part.tag not in _PLAIN:
                    yield from self.conditions(part)
            elif part.__class__ is Rel:
                yield from self.group(part.group)
                for output in part.outputs:
                    yield from self.conditions(output.node)

    def group(self, group: Group) -> Deciding:
        known = self._groups.get(group)
        if known is None:
            self._groups[group] = frozenset()  # A window in a condition is over its own group.
            known = self._groups[group] = frozenset(self._in_group(group))
        return known

    def _in_group(self, group: Group) -> Iterator[IndirectSource]:
        for condition in group.conditions:
            kind: IndirectKind = "join" if condition in group.joins else "filter"
            yield from self._used(condition, kind)
            asked = condition.parts[0] if condition.tag == "not" else condition
            if asked.tag == "exists":
                inner: Group = asked.parts[0].group
                for one in inner.conditions:
                    yield from self._used(one, "join" if one in inner.joins else kind)
        for sort in group.sorts:
            yield from self._used(sort, "sort")
        for source in group.sources:
            yield from self._source(source)

    def _source(self, source: Any) -> Iterator[IndirectSource]:
        if isinstance(source, Derived):
            yield from self.group(source.group)
            for key in source.keys:
                yield from self._used(key, "group")
            for arg in source.args:
                yield from self._used(arg, "sort")
        elif isinstance(source, SetOperation):
            for branch in source.branches:
                yield from self.group(branch.group)
                if source.op != "union":
                    # Whole rows are compared, whichever of their columns are asked for.
                    for output in branch.outputs:
                        yield from self._used(output.node, "filter")
        elif isinstance(source, Generator):
            # How many rows there are is decided by what is taken apart.
            for arg in source.args:
                yield from self._used(arg, "filter")
        elif isinstance(source, FullJoin):
            yield from self.group(source.left)
            yield from self.group(source.right)
            for condition in source.conditions:
                yield from self._used(condition, "join")


def _merge(flows: Sequence[Flows], at_least: DirectKind) -> Flows:
    if len(flows) == 1:
        return {read: _STRONGER[kind, at_least] for read, kind in flows[0].items()}
    merged: Flows = {}
    for flow in flows:
        for read, kind in flow.items():
            # The strongest kind of use of a column is kept.
            merged[read] = _STRONGER[_STRONGER[kind, at_least], merged.get(read, "identity")]
    return merged
