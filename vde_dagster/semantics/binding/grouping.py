"""GROUP BY: binding of keys and grouping sets, and the grouped query as a source."""

from __future__ import annotations

from itertools import chain, combinations, product
from typing import Any

from sqlglot import exp

from vde_dagster.semantics.algebra.nodes import (
    AGGREGATES,
    Derived,
    Group,
    Node,
    Output,
    rewrite,
    sources_in,
    walk,
)
from vde_dagster.semantics.binding.binder import Binder, Unsupported
from vde_dagster.semantics.binding.names import Scope

_MAX_CUBE = 6


Grouping = list[list[Node]]
"""The grouping sets, each a list of key expressions."""


def bind_group_by(
    binder: Binder, e: exp.Group | None, outputs: list[Output], scope: Scope
) -> Grouping:
    """Return the grouping sets of a GROUP BY, each as a list of keys.

    Args:
        outputs: The columns of the SELECT list.
    """
    if e is None:
        return [[]]
    if e.args.get("totals"):
        raise Unsupported("WITH TOTALS")
    if e.args.get("all"):
        if e.expressions:
            raise Unsupported("GROUP BY ALL with more keys")
        return [[o.node for o in outputs if not has_aggregate(o.node)]]
    scope.clause = "group"
    reader = _KeyReader(binder, outputs, scope)
    elements = [reader.element(item) for item in e.expressions]
    plain = [key for element in elements if len(element) == 1 for key in element[0]]
    for name in ("grouping_sets", "rollup", "cube"):
        for item in e.args.get(name) or []:
            if isinstance(item, (exp.Rollup, exp.Cube)) and not item.expressions:
                if len(plain) != sum(len(element[0]) for element in elements):
                    raise Unsupported("WITH ROLLUP over grouping sets")
                parts = [[key] for key in plain]
                elements = [_rollup(parts) if isinstance(item, exp.Rollup) else _cube(parts)]
            elif isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets)):
                elements.append(reader.element(item))
            else:
                raise Unsupported(f"{name} of an unknown form")
    sets = [
        list(dict.fromkeys(key for part in choice for key in part)) for choice in product(*elements)
    ]
    if len(sets) > 1 and reader.has_two_names_of_one_value:
        # A set without one of the names makes that one NULL and leaves the other.
        raise Unsupported("grouping sets whose keys include one value under two names")
    if sets == [[]]:
        # As by a constant: of no rows Spark makes no group, where without GROUP BY it makes one.
        return [[binder.terms.number(0)]]
    return sets


def may_have_grouping_sets(e: exp.Group) -> bool:
    kinds = (exp.Rollup, exp.Cube, exp.GroupingSets)
    return any(e.args.get(key) for key in ("grouping_sets", "rollup", "cube")) or any(
        isinstance(item, kinds) for item in e.expressions
    )


class _KeyReader:
    def __init__(self, binder: Binder, outputs: list[Output], scope: Scope) -> None:
        self._binder = binder
        self._outputs = outputs
        self._scope = scope
        self._spelled: dict[Node, exp.Expr] = {}
        self.has_two_names_of_one_value = False

    def element(self, item: exp.Expr) -> list[list[Node]]:
        if isinstance(item, exp.Rollup):
            return _rollup([self._keys(x) for x in item.expressions])
        if isinstance(item, exp.Cube):
            return _cube([self._keys(x) for x in item.expressions])
        if isinstance(item, exp.GroupingSets):
            return [one for inner in item.expressions for one in self.element(inner)]
        return [self._keys(item)]

    def _keys(self, item: exp.Expr) -> list[Node]:
        if isinstance(item, exp.Tuple):
            return [self._key(x) for x in item.expressions]
        return [self._key(item)]

    def _key(self, item: exp.Expr) -> Node:
        item = item.unnest()
        if isinstance(item, exp.Literal) and not item.args.get("is_string"):
            node = output_at_position(self._binder, item, self._outputs).node
        elif is_negative_position(item):
            return self._binder.give_up("a negative position")
        else:
            node = self._binder.bind(item, self._scope)
            if has_aggregate(node):
                self._binder.record_refusal("aggregate in clause", item, "group")
                return self._binder.give_up("an aggregate function in GROUP BY", node)
        first = self._spelled.setdefault(node, item)
        if first is not item and first.sql().lower() != item.sql().lower():
            self.has_two_names_of_one_value = True
        return node


def _rollup(parts: list[list[Node]]) -> list[list[Node]]:
    return [[key for part in parts[:n] for key in part] for n in range(len(parts), -1, -1)]


def _cube(parts: list[list[Node]]) -> list[list[Node]]:
    if len(parts) > _MAX_CUBE:
        raise Unsupported("a large CUBE")
    return [
        [key for part in chosen for key in part]
        for size in range(len(parts), -1, -1)
        for chosen in combinations(parts, size)
    ]


def output_at_position(binder: Binder, item: exp.Literal, outputs: list[Output]) -> Output:
    text = str(item.this)
    if not text.isdigit() or not 1 <= int(text) <= len(outputs):
        if text.isdigit():
            binder.record_refusal("position", item, len(outputs))
        raise Unsupported(f"position {text} is not in the SELECT list")
    return outputs[int(text) - 1]


def is_negative_position(e: exp.Expr) -> bool:
    """Return whether an ORDER BY or GROUP BY key is a negative INT such as `-1`."""
    # Spark refuses a negative INT as a position.
    number = e.this if isinstance(e, exp.Neg) else None
    if not isinstance(number, exp.Literal) or number.is_string:
        return False
    text = str(number.this)
    return text.isdigit() and int(text) <= 2**31


def has_aggregate(node: Node) -> bool:
    return any(part.tag in AGGREGATES for part in walk([node]))


def make_grouped_source(
    binder: Binder, group: Group, grouping: Grouping, nodes: list[Node], scope: Scope
) -> tuple[Derived, list[Node]]:
    """Create the source for a GROUP BY. Make the expressions `nodes` refer to its columns."""
    terms = binder.terms
    keys = dict.fromkeys(chain(*grouping))
    source = Derived(
        "agg",
        group,
        scope.correlation,
        keys=tuple(terms.unordered("keys", list(dict.fromkeys(one))) for one in grouping),
        columns=list(keys),
    )
    inner: set[Any] = set(group.sources)
    memo: dict[Node, Node] = {}
    plain: dict[Node, Node] = {}

    def rule(node: Node) -> Node | None:
        if node.tag in AGGREGATES and not _names_keys(node):
            node = rewrite(node, _unwrap_column, terms, plain)
        if node in keys or node.tag in AGGREGATES:
            outer = node not in keys and not sources_in(node) & inner
            if outer and any(part.tag == "ref" for part in walk([node])):
                return binder.give_up("an aggregate function of an outer query's columns", node)
            return terms.make("ref", source, source.export(node))
        if node.tag == "ref" and node.parts[0] in inner:
            scope.ungrouped.append(node)
            return binder.give_up("a column that is neither grouped nor aggregated", node)
        if any(p.__class__ is not Node and sources_in(p) & inner for p in node.parts):
            return binder.give_up("a correlated subquery over a grouped query", node)
        return None

    return source, [rewrite(node, rule, terms, memo) for node in nodes]


def _names_keys(aggregate: Node) -> bool:
    body = aggregate.parts[0]
    return body.tag == "call" and body.parts[0] in ("grouping", "grouping_id")


def _unwrap_column(node: Node) -> Node | None:
    if node.tag != "column":
        return None
    inner: Node = node.parts[0]
    return _unwrap_column(inner) or inner
