"""Rules for aggregate functions, and merging of aggregates of aggregates.

``SELECT k, SUM(n) … FROM (SELECT k, j, COUNT(*) AS n FROM t GROUP BY k, j) GROUP BY k`` becomes a
count of the rows of ``t``. There may be joins between the groupings that use only keys of the inner
grouping, and the inner query may be a UNION ALL. Only integers are added in another order: sums of
floats would round differently. (Spark: `EliminateAggregateFilter` and `EliminateDistinct`.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from vde_dagster.semantics.algebra.nodes import (
    AGGREGATES,
    Derived,
    Node,
    Rel,
    SetOperation,
    Terms,
    null_test_operand,
    simple_aggregate,
)
from vde_dagster.semantics.simplify.booleans import simplify_condition
from vde_dagster.semantics.simplify.choices import simplify_case
from vde_dagster.semantics.simplify.facts import INTEGERS, Facts, is_null, value_type
from vde_dagster.semantics.simplify.nested_queries import (
    OF_A_SET,
    ignores_repeats,
    is_changed_by_ungrouping,
    is_exact,
)
from vde_dagster.semantics.simplify.parts import ColumnUses, QueryParts

_SAME_FOR_DISTINCT = OF_A_SET | {"collect_set"}
_WITHOUT_NULLS = _SAME_FOR_DISTINCT | {
    *("sum", "avg", "count", "count_if", "collect_list", "bit_xor", "approx_count_distinct"),
    *("stddev", "stddev_pop", "variance", "var_pop", "skewness", "kurtosis", "median"),
    *("try_sum", "try_avg"),
}
"""Functions of one argument that ignore rows with NULL as argument."""


def simplify_aggregate(body: Node, facts: Facts) -> Node:
    """Simplify an aggregate function such as `count(1) FILTER (WHERE p)`."""
    if body.tag == "Filter":
        return _filtered(
            simplify_aggregate(body.parts[0], facts),
            simplify_condition(body.parts[-1], facts),
            facts,
        )
    plain = simple_aggregate(body)
    if plain is None:
        return body
    name, of = plain
    if of.tag == "Distinct" and name in _SAME_FOR_DISTINCT and of.parts[:2] == ("expressions", 1):
        return facts.terms.make("call", name, of.parts[2])
    if name == "count_if":
        return _counted(simplify_condition(of, facts), facts)
    return _count(of, body, facts) if name == "count" else body


def _filtered(body: Node, condition: Node, facts: Facts) -> Node:
    terms = facts.terms
    if condition.tag == "bool" and condition.parts[0]:
        return body
    if body.tag == "count rows":
        return _counted(condition, facts)
    if body.tag != "call" or body.parts[0] not in _WITHOUT_NULLS or len(body.parts) != 2:
        return terms.make("Filter", body, condition)
    name, of = body.parts
    if of.tag == "Distinct":
        if of.parts[:2] != ("expressions", 1):
            return terms.make("Filter", body, condition)
        inner = simplify_case(terms.make("case", condition, of.parts[2]), facts)
        return terms.make("call", name, terms.make("Distinct", "expressions", 1, inner))
    return simplify_aggregate(
        terms.make("call", name, simplify_case(terms.make("case", condition, of), facts)), facts
    )


def _counted(condition: Node, facts: Facts) -> Node:
    if condition.tag == "bool":
        if condition.parts[0]:
            return facts.terms.make("count rows")
        condition = facts.terms.boolean(False)
    tested = null_test_operand(condition.parts[0]) if condition.tag == "not" else None
    if tested is not None:
        return facts.terms.make("call", "count", tested)
    return facts.terms.make("call", "count_if", condition)


def _count(argument: Node, body: Node, facts: Facts) -> Node:
    if argument.tag == "Distinct":
        return body
    if is_null(argument):
        return _counted(facts.terms.boolean(False), facts)
    if facts.never_null(argument) and facts.never_fails(argument):
        return facts.terms.make("count rows")
    if argument.tag == "case" and len(argument.parts) == 2:
        condition, value = argument.parts
        if facts.never_null(value) and facts.never_fails(value):
            return _counted(condition, facts)
    if argument.tag == "case" and len(argument.parts) == 3 and is_null(argument.parts[1]):
        tested, value = null_test_operand(argument.parts[0]), argument.parts[2]
        if tested is not None and facts.never_null(value) and facts.never_fails(value):
            return facts.terms.make("call", "count", tested)
    return body


_STEPS = {("sum", "sum"), ("sum", "count"), ("min", "min"), ("max", "max")}
"""Pairs of an outer and an inner function that can be replaced by the inner function."""


def merge_groupings(parts: QueryParts) -> None:
    """Merge a GROUP BY with the GROUP BY of its subquery, as in a sum of counts."""
    if sum(source.op == "agg" for source in parts.derived_sources()) < 2:
        return
    uses = ColumnUses.collect(parts.top)
    for group in [g for g in parts.groups if g in uses.groups]:
        for source in group.sources:
            if isinstance(source, Derived) and source.op == "agg" and len(source.keys) == 1:
                for inner in list(source.group.sources):
                    if _merge(source, inner, uses, parts):
                        uses = ColumnUses.collect(parts.top)


def _merge(outer: Derived, inner: Any, uses: ColumnUses, parts: QueryParts) -> bool:
    if inner in parts.frozen or outer.group in parts.shared:
        return False
    if isinstance(inner, SetOperation):
        if inner.op != "union" or not inner.has_common_types:
            return False
        steps = _Steps(outer, inner, uses, parts.terms)
        return steps.merges_with_union(inner) and _put_union(inner, steps, parts)
    if not parts.is_grouping(inner):
        return False
    steps = _Steps(outer, inner, uses, parts.terms)
    if not steps.merges_with_grouping(inner):
        return False
    keys = inner.keys[0].parts
    known = {
        parts.terms.make("ref", inner, i): inner.columns[i] for i in uses.columns.get(inner, ())
    }
    parts.replace(steps.merged)
    parts.inline_source(inner, outer.group, known)
    outer.group.sorts.append(parts.terms.make("regrouped", *keys))
    return True


@dataclass(slots=True)
class _Steps:
    """Merges aggregates of aggregates: in a query over grouped rows, a sum of counts is a count.

    `merged` maps each aggregate of the outer query to its replacement, if it has one.
    """

    outer: Derived
    inner: Any
    uses: ColumnUses
    terms: Terms
    merged: dict[Node, Node] = field(default_factory=dict)

    def merges_with_grouping(self, inner: Derived) -> bool:
        keys = set(inner.keys[0].parts)
        alone = not keys
        if alone and (self.outer.keys[0].parts or self._is_filtered()):
            return False  # No rows give one total, but a grouping of no rows gives no row.
        facts = Facts(self.terms)
        for i in self._used():
            key, column = inner.columns[i], self.terms.make("ref", inner, i)
            if key in keys and is_changed_by_ungrouping(key, column, self.uses, facts):
                return False
        totals = {i: inner.columns[i] for i in self._used() if inner.columns[i] not in keys}
        for i, total in totals.items():
            if not self._step(i, total, may_be_empty=not (self.outer.keys[0].parts or alone)):
                return False
        return self._rest_are_of_sets(alone)

    def merges_with_union(self, union: SetOperation) -> bool:
        groupings = [_only_grouping(branch) for branch in union.branches]
        if None in groupings:
            return False
        facts = Facts(self.terms)
        if not all(is_exact(key, facts) for g in groupings if g for key in g.keys[0].parts):
            return False
        alone = [not g.keys[0].parts for g in groupings if g is not None]
        if any(alone) and (self.outer.keys[0].parts or self._is_filtered()):
            return False
        returned: set[Node] = set()
        for i in self._used():
            totals = [_branch_total(branch, i) for branch in union.branches]
            if not any(totals):
                continue
            first = totals[0]
            if first is None or any(t is None or _name(t) != _name(first) for t in totals):
                return False
            types = {_argument_type(t) for t in totals if t is not None}
            made = [branch.outputs[i].node for branch in union.branches]
            alike = len(types) == 1 and None not in types
            if not alike or any(self.uses.parents.get(node) != {None} for node in made):
                return False  # Branches use their totals elsewhere, too.
            may_be_empty = not self.outer.keys[0].parts and not any(alone)
            if not self._step(i, first, may_be_empty=may_be_empty, through=True):
                return False
            returned.update(made)
        asked = (
            self.terms.make("ref", g, j)
            for g in groupings
            for j in self.uses.columns.get(g, ())
            if g is not None and g.columns[j].tag in AGGREGATES
        )
        return returned.issuperset(asked) and self._rest_are_of_sets(any(alone))

    def _used(self) -> list[Any]:
        return sorted(self.uses.columns.get(self.inner, ()))

    def _is_filtered(self) -> bool:
        return bool(self.outer.group.conditions) or len(self.outer.group.sources) > 1

    def _step(self, i: int, total: Node, *, may_be_empty: bool, through: bool = False) -> bool:
        """Merge the outer aggregates of one inner aggregate; return whether all can be merged.

        Args:
            i: Index of the column with the inner aggregate.
            total: The inner aggregate.
            may_be_empty: Whether the inner query may return no row.
            through: Whether replacements apply the function of `total` to the column. Otherwise,
                and for COUNT(*), `total` itself is the replacement.
        """
        kind = _name(total)
        if kind is None or (kind == "sum" and _argument_type(total) not in INTEGERS):
            return False
        if kind == "count" and may_be_empty:
            return False  # A sum of no counts is NULL.
        reference = self.terms.make("ref", self.inner, i)
        asking = self.uses.parents.get(reference, set())
        for column in self._aggregates():
            body = column.parts[0]
            if body not in asking or body.tag != "call" or body.parts[1:] != (reference,):
                continue
            if (body.parts[0], kind) not in _STEPS:
                return False
            made = total
            if through and total.parts[0].tag != "count rows":
                call = self.terms.make("call", total.parts[0].parts[0], reference)
                made = self.terms.make("aggregate", call)
            self.merged[column] = made
            asking = asking - {body}
        return not asking

    def _aggregates(self) -> list[Node]:
        used = [self.outer.columns[i] for i in self.uses.columns.get(self.outer, ())]
        return [node for node in used if node.tag in AGGREGATES]

    def _rest_are_of_sets(self, alone: bool) -> bool:
        """Return whether all aggregates that are not in `merged` ignore repeated rows, as MAX does.

        False if nothing is merged.
        """
        rest = [node for node in self._aggregates() if node not in self.merged]
        # Without GROUP BY (`alone`), the inner query returns a row even for empty tables. Then even
        # a maximum would change, so no other aggregate is allowed.
        return bool(self.merged) and not (alone and rest) and all(ignores_repeats(n) for n in rest)


def _put_union(union: SetOperation, steps: _Steps, parts: QueryParts) -> bool:
    groupings = [_only_grouping(branch) for branch in union.branches]
    if not all(map(parts.is_grouping, groupings)):
        return False
    if any(branch.group.conditions or branch.group in parts.shared for branch in union.branches):
        return False
    terms = parts.terms
    for branch, grouping in zip(union.branches, groupings, strict=True):
        assert grouping is not None
        for i, output in enumerate(branch.outputs):
            total = _branch_total(branch, i)
            if total is not None and _name(total) is not None:
                body = total.parts[0]
                of = terms.number(1) if body.tag == "count rows" else body.parts[1]
                kind = value_type(of)
                output.node, output.type = of, exp.DataType(this=kind) if kind else output.type
        known = {terms.make("ref", grouping, i): node for i, node in enumerate(grouping.columns)}
        parts.inline_source(grouping, branch.group, known)
    parts.replace(steps.merged)
    steps.outer.group.sorts.append(terms.make("regrouped"))
    return True


def _only_grouping(branch: Rel) -> Derived | None:
    source = branch.group.sources[0] if len(branch.group.sources) == 1 else None
    if not isinstance(source, Derived) or source.op != "agg" or len(source.keys) != 1:
        return None
    return source


def _branch_total(branch: Rel, i: int) -> Node | None:
    node, source = branch.outputs[i].node, branch.group.sources[0]
    if node.tag != "ref" or node.parts[0] is not source or not isinstance(source, Derived):
        return None
    column = source.columns[node.parts[1]]
    return column if column.tag in AGGREGATES else None


def _name(total: Node) -> str | None:
    body = total.parts[0]
    if total.tag != "aggregate" or body.tag == "count rows":
        return "count" if total.tag == "aggregate" else None
    plain = simple_aggregate(body)
    return plain[0] if plain is not None and plain[1].tag != "Distinct" else None


def _argument_type(total: Node) -> exp.DType | None:
    body = total.parts[0]
    if _name(total) is None:
        return None
    return exp.DType.INT if body.tag == "count rows" else value_type(body.parts[1])
