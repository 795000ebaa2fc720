"""Removal of relations without rows, such as ``WHERE FALSE`` and ``LIMIT 0``.

If a literal FALSE or `LIMIT 0` in a query makes a relation empty, Spark's rule
`PropagateEmptyRelation` removes the relation before Spark evaluates expressions, so the removed
expressions never raise errors. If only contradicting conditions (``x = 1 AND x = 2``) make a
relation empty, Spark may evaluate the removed expressions. Therefore such a relation is removed
only if the expressions next to it cannot raise errors.
"""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra.nodes import (
    Derived,
    FullJoin,
    Group,
    Leaf,
    Node,
    Rel,
    SetOperation,
    int_value,
    is_false,
)
from vde_dagster.semantics.simplify.expressions import Simplifier
from vde_dagster.semantics.simplify.facts import Facts, is_null, plain_type
from vde_dagster.semantics.simplify.joins import replace_full_join
from vde_dagster.semantics.simplify.nested_queries import is_exact
from vde_dagster.semantics.simplify.parts import QueryParts

_ASKING = ("exists", "in query", "scalar")
_COUNTS = ("count", "count_if")
_TOTALS = ("sum", "min", "max")
_MOST_ROUNDS = 8


def remove_empty_relations(parts: QueryParts, *, only_written: bool) -> None:
    """Remove tables and subqueries that certainly have no rows, as after `WHERE FALSE`.

    Args:
        only_written: Whether the author wrote every FALSE in the query. Then readers of an empty
            relation are removed even if they can raise errors, because Spark does not evaluate
            them. In a group with FALSE, all other conditions must be total.
    """
    if any(
        any(map(is_false, group.conditions)) or any(map(_keeps_no_rows, group.sources))
        for group in parts.groups
    ):
        _EmptyRelationRemover(parts, only_written).everywhere()


def _keeps_no_rows(source: Any) -> bool:
    if not isinstance(source, Derived) or source.op != "limit":
        return False
    limit = source.args[0].parts[0]
    return limit is not None and int_value(limit) == 0


class _EmptyRelationRemover:
    def __init__(self, parts: QueryParts, only_written: bool) -> None:
        self._parts = parts
        self._only_written = only_written
        self._facts = Facts(parts.terms)
        self._replaced: set[Node] = set()

    def everywhere(self) -> None:
        for _ in range(_MOST_ROUNDS):
            changed = [self._remove_empty_sources(group) for group in list(self._parts.groups)]
            if not (self._answer() or any(changed)):
                break
        for rel in self._parts.rels:
            if self._empty(rel.group):
                self._clear_query(rel)
        for source in list(self._parts.derived_sources()):
            of_all = source.op == "agg" and not any(key.parts for key in source.keys)
            if of_all and source not in self._parts.frozen and self._empty(source.group):
                self._clear_totals(source)

    # what is empty

    def _empty(self, group: Group) -> bool:
        if any(map(is_false, group.conditions)):
            # Operands of AND have no order: the others may be computed before FALSE is met.
            return all(map(self._facts.is_total, group.conditions))
        if not any(map(self._is_empty, group.sources)):
            return False
        return self._only_written or self._harmless(group)

    def _is_empty(self, source: Any) -> bool:
        if isinstance(source, Derived):
            if source.op == "left":
                return False
            if source.op == "agg" and not (len(source.keys) == 1 and source.keys[0].parts):
                return False  # Totals of no rows are a row.
            return _keeps_no_rows(source) or self._empty(source.group)
        if isinstance(source, SetOperation):
            none = [self._empty(branch.group) for branch in source.branches]
            if source.op == "union":
                return all(none)
            return any(none) if source.op.startswith("intersect") else none[0]
        if isinstance(source, FullJoin):
            return self._empty(source.left) and self._empty(source.right)
        return False

    def _harmless(self, group: Group) -> bool:
        return all(map(self._facts.never_fails, group.conditions)) and all(
            map(self._harmless_source, group.sources)
        )

    def _harmless_source(self, source: Any) -> bool:
        if isinstance(source, Leaf):
            return True
        if isinstance(source, Derived):
            nodes = [*source.columns, *(k for key in source.keys for k in key.parts)]
            return self._harmless(source.group) and all(map(self._safe, nodes))
        if isinstance(source, SetOperation):
            return all(
                self._harmless(branch.group) and all(self._safe(o.node) for o in branch.outputs)
                for branch in source.branches
            )
        return False

    def _safe(self, node: Node) -> bool:
        body = node.parts[0] if node.tag == "aggregate" else None
        if body is not None and body.tag == "count rows":
            return True
        if body is not None and body.tag == "call" and body.parts[0] in (*_COUNTS, "min", "max"):
            return all(p.__class__ is Node and self._safe(p) for p in body.parts[1:])
        return self._facts.never_fails(node)

    # what is left out

    def _remove_empty_sources(self, group: Group) -> bool:
        parts, changed = self._parts, False
        for source in list(group.sources) if group not in parts.shared else ():
            if source in parts.frozen or source not in group.sources:
                continue
            if isinstance(source, Derived) and source.op == "left":
                changed |= self._empty(source.group) and self._drop_matches(source, group)
            elif isinstance(source, SetOperation) and source.has_common_types:
                changed |= self._drop_branches(source, group)
            elif isinstance(source, FullJoin):
                for kept, none in ((source.left, source.right), (source.right, source.left)):
                    if self._empty(none) and replace_full_join(kept, none, source, group, parts):
                        changed = True
                        break
        return changed

    def _drop_matches(self, source: Derived, group: Group) -> bool:
        make = self._parts.terms.make
        known: dict[Node, Node] = {}
        for i, column in enumerate(source.columns):
            null = self._null(column)
            if null is None:
                return False
            known[make("ref", source, i)] = null
        group.sources.remove(source)
        self._parts.replace(known)
        return True

    def _drop_branches(self, source: SetOperation, group: Group) -> bool:
        first, *others = source.branches
        if source.op == "union":
            kept = [branch for branch in source.branches if not self._empty(branch.group)]
        elif source.op.startswith("except"):
            kept = [first, *(branch for branch in others if not self._empty(branch.group))]
        else:
            return False
        if not kept or len(kept) == len(source.branches):
            return False
        if len(kept) == 1 and kept[0].group in self._parts.shared:
            return False
        nodes = {output.node for output in first.outputs}
        exact = all(is_exact(node, self._facts) for node in nodes)
        counted = exact and len(nodes) == len(first.outputs)
        if source.op == "except all" and len(kept) == 1 and not counted:
            # Spark counts equal rows: it makes 0.0 of -0.0, and fails for a column named twice.
            return False
        for branch in source.branches:
            if branch not in kept:
                self._parts.rels.remove(branch)
        source.branches = kept
        if len(kept) == 1:
            self._dissolve(source, group)
        return True

    def _dissolve(self, source: SetOperation, group: Group) -> None:
        parts, (branch,) = self._parts, source.branches
        terms, nodes = parts.terms, [o.node for o in branch.outputs]
        inner = branch.group
        if source.op == "except":
            keys = terms.unordered("keys", list(dict.fromkeys(nodes)))
            rows = Derived("agg", inner, source.correlation, keys=(keys,))
            nodes = [terms.make("ref", rows, rows.export(node)) for node in nodes]
            group.sources[group.sources.index(source)] = rows
        else:
            group.replace_source(source, inner)
            parts.remove_group(inner)
        parts.rels.remove(branch)
        parts.replace({terms.make("ref", source, i): node for i, node in enumerate(nodes)})

    def _answer(self) -> bool:
        terms, known = self._parts.terms, dict[Node, Node]()
        for node in terms.nodes():
            rel = node.parts[-1] if node.tag in _ASKING and node not in self._replaced else None
            if not isinstance(rel, Rel) or not self._empty(rel.group):
                continue
            answer = terms.boolean(False)
            if node.tag == "scalar":
                null = self._null(rel.outputs[0].node, rel.outputs[0].type)
                if null is None:
                    continue
                answer = null
            known[node] = answer
        if known:
            self._replaced |= known.keys()
            self._parts.replace(known)
            simple = Simplifier(terms)
            self._parts.replace_each(simple.simplify)
            for group in self._parts.groups:
                group.conditions = simple.conditions(group)
        return bool(known)

    # the form of what is empty

    def _null(self, node: Node, kind: Any = None) -> Node | None:
        if is_null(node):
            return node
        known = self._facts.type(node) or self._facts.unless_setting_dependent(plain_type(kind))
        return self._facts.typed_null(known) if known else None

    def _clear_query(self, rel: Rel) -> None:
        if not (self._only_written or all(self._safe(o.node) for o in rel.outputs)):
            return
        nulls = [self._null(o.node, o.type) for o in rel.outputs]
        rel.outputs = [
            o if null is None else o.as_node(null)
            for o, null in zip(rel.outputs, nulls, strict=True)
        ]
        if rel.group not in self._parts.shared:
            self._clear(rel.group, keep=None in nulls)

    def _clear_totals(self, source: Derived) -> None:
        """Replace aggregates over no rows with their value: zero for counts, else NULL."""
        made = [self._total(node) for node in source.columns]
        if source not in self._parts.frozen:
            source.columns = [
                old if new is None else new for old, new in zip(source.columns, made, strict=True)
            ]
            self._clear(source.group, keep=None in made)

    def _total(self, node: Node) -> Node | None:
        make = self._parts.terms.make
        body = node.parts[0] if node.tag == "aggregate" else None
        if body is None or body.tag not in ("count rows", "call"):
            return node if node.tag in ("lit", "bool", "Null") else None
        if body.tag == "count rows" or body.parts[0] in _COUNTS:
            false = self._parts.terms.boolean(False)
            return make("aggregate", make("call", "count_if", false))
        return self._null(node) if body.parts[0] in _TOTALS else None

    def _clear(self, group: Group, *, keep: bool) -> None:
        group.conditions = [self._parts.terms.boolean(False)]
        if not keep:
            group.sources, group.sorts = [], []
