"""Where output columns come from, and what a query reads for which purpose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from vde_dagster.semantics.algebra import (
    Constant,
    Derived,
    Full,
    Generator,
    Group,
    Leaf,
    Node,
    Rel,
    SetOperation,
)
from vde_dagster.semantics.uniqueness import is_lookup

DirectKind: TypeAlias = Literal["identity", "transformation", "aggregation"]
IndirectKind: TypeAlias = Literal["join", "filter", "group", "sort", "window", "conditional"]

_STRENGTH: dict[DirectKind, int] = {"identity": 0, "transformation": 1, "aggregation": 2}


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """A column that flows into an output column, and how."""

    table: str
    column: str
    kind: DirectKind


@dataclass(frozen=True, slots=True, order=True)
class IndirectSource:
    """A column that decides which rows there are, or which value is taken."""

    table: str
    column: str
    kind: IndirectKind


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """Column-level lineage of a query (the kinds are those of OpenLineage).

    Args:
        columns: Output name to its direct sources.
        indirect: What the query as a whole depends on.
    """

    columns: dict[str, tuple[Source, ...]]
    indirect: tuple[IndirectSource, ...]


@dataclass(frozen=True, slots=True)
class TableUse:
    """What a query reads of one table.

    Args:
        table: Its name in lower case.
        row_columns: Columns that take part in deciding the rows.
        output_columns: Output name to the columns that its value is made from.
        decides_rows: The table's rows decide the query's (not so for a table that is only
            looked up, by a LEFT JOIN to something unique).
    """

    table: str
    row_columns: frozenset[str]
    output_columns: dict[str, frozenset[str]]
    decides_rows: bool


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
        if tag in ("aggregate", "ordered aggregate"):
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
        if isinstance(source, (Derived, Full)):
            return self._direct(source.columns[key])
        if isinstance(source, SetOperation):
            return _merge([self._direct(b.outputs[key].node) for b in source.branches], "identity")
        if isinstance(source, Generator):
            return _merge([self._direct(a) for a in source.args], "transformation")
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
            if isinstance(source, (Derived, Full)):
                self._conditions_in(source.columns[key], out)
            elif isinstance(source, SetOperation):
                for branch in source.branches:
                    self._conditions_in(branch.outputs[key].node, out)
        for part in parts:
            if part.__class__ is Node:
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
        elif isinstance(source, Full):
            self._group(source.left, out)
            self._group(source.right, out)
            for condition in source.conditions:
                self._add(condition, "join", out)

    # what decides rows, and what makes values

    def uses(self, rel: Rel) -> dict[str, TableUse]:
        """Per table: the columns that decide rows and those that make each output."""
        rows: set[Read] = set()
        deciding: set[str] = set()
        _rows_of_group(rel.group, rows, deciding, set())
        made: dict[str, set[Read]] = {}
        for output in rel.outputs:
            reads: set[Read] = set()
            _reads(output.node, reads, set())
            made[output.name] = reads
        tables = deciding | {t for t, _ in rows} | {t for r in made.values() for t, _ in r}
        return {
            table: TableUse(
                table,
                frozenset(c for t, c in rows if t == table),
                {
                    name: frozenset(c for t, c in reads if t == table)
                    for name, reads in made.items()
                    if any(t == table for t, _ in reads)
                },
                table in deciding,
            )
            for table in sorted(tables)
        }


def _merge(flows: Iterable[Flows], at_least: DirectKind) -> Flows:
    merged: Flows = {}
    for flow in flows:
        for read, kind in flow.items():
            strongest = max(
                (kind, at_least, merged.get(read, "identity")), key=_STRENGTH.__getitem__
            )
            merged[read] = strongest
    return merged


def _rows_of_group(group: Group, out: set[Read], tables: set[str], seen: set[Any]) -> None:
    if group in seen:
        return
    seen.add(group)
    for source in group.sources:
        if not is_lookup(source):
            _rows_of_source(source, out, tables, seen)
    for condition in group.conditions:
        _reads(condition, out, seen, tables)


def _rows_of_source(source: Any, out: set[Read], tables: set[str], seen: set[Any]) -> None:
    if source in seen:
        return
    seen.add(source)
    if isinstance(source, Leaf):
        tables.add(source.table)
    elif isinstance(source, Derived):
        _rows_of_group(source.group, out, tables, seen)
        for part in (*source.keys, *source.args):
            _reads(part, out, seen, tables)
    elif isinstance(source, SetOperation):
        for branch in source.branches:
            _rows_of_group(branch.group, out, tables, seen)
            if source.op != "union":
                for output in branch.outputs:
                    _reads(output.node, out, seen, tables)
    elif isinstance(source, Full):
        _rows_of_group(source.left, out, tables, seen)
        _rows_of_group(source.right, out, tables, seen)
        for condition in source.conditions:
            _reads(condition, out, seen, tables)
    elif isinstance(source, Generator):
        for arg in source.args:
            _reads(arg, out, seen, tables)
    elif isinstance(source, Constant):
        return


def _reads(node: Node, out: set[Read], seen: set[Any], tables: set[str] | None = None) -> None:
    """Every column that takes part in an expression's value, through whatever it refers to."""
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        kind = item.__class__
        if kind is str or kind is int or kind is bool or item is None or item in seen:
            continue
        seen.add(item)
        if kind is Rel:
            _rows_of_group(item.group, out, _or_set(tables), seen)
            stack += [o.node for o in item.outputs]
        elif kind is Group:
            _rows_of_group(item, out, _or_set(tables), seen)
        elif kind is Node and item.tag == "ref":
            source, key = item.parts
            if isinstance(source, Leaf):
                out.add((source.table, key))
            elif isinstance(source, (Derived, Full)):
                stack.append(source.columns[key])
                if is_lookup(source):
                    _rows_of_source(source, out, _or_set(tables), seen)
            elif isinstance(source, SetOperation):
                stack += [b.outputs[key].node for b in source.branches]
            elif isinstance(source, Generator):
                stack += source.args
        elif kind is Node:
            stack += item.parts


def _or_set(tables: set[str] | None) -> set[str]:
    return set() if tables is None else tables
