"""IN (query) as EXISTS where a condition only asks whether it is true.

``x IN (SELECT y …)`` is true where ``EXISTS (SELECT 1 … WHERE y = x)`` is. Elsewhere it may be NULL
instead of FALSE, so NOT IN is NOT EXISTS only if neither side has NULLs.
"""

from __future__ import annotations

from vde_dagster.semantics.algebra import Group, Node, Rel, Terms
from vde_dagster.semantics.normalise import combine, compare, negate
from vde_dagster.semantics.simplify.nulls import rejects_null
from vde_dagster.semantics.simplify.values import comparable


def memberships_as_exists(conditions: list[Node], terms: Terms) -> list[Node]:
    """Rewrite the IN (query) that conditions ask for.

    Args:
        conditions: All must be true; the queries in them stand in no other expression.
        terms: Where expressions are made.
    """
    return [_asked(condition, conditions, terms) for condition in conditions]


def _asked(node: Node, beside: list[Node], terms: Terms) -> Node:
    if node.tag in ("and", "or"):
        return combine(terms, node.tag, [_asked(p, beside, terms) for p in node.parts])
    if node.tag == "in query":
        this, rel = node.parts
        return _exists(this, rel, terms) or node
    if node.tag == "not" and node.parts[0].tag == "in query":
        this, rel = node.parts[0].parts
        inner = [o.node for o in rel.outputs]
        if _without_nulls(_members(this), beside) and _without_nulls(inner, rel.group.conditions):
            found = _exists(this, rel, terms)
            return negate(terms, found) if found is not None else node
    return node


def _exists(this: Node, rel: Rel, terms: Terms) -> Node | None:
    """EXISTS for IN, or None where comparing might convert a side in another way than IN does."""
    members = _members(this)
    if len(members) != len(rel.outputs):
        return None
    pairs = [(x, o.node) for x, o in zip(members, rel.outputs, strict=True)]
    if not all(comparable(x, y) for x, y in pairs):
        return None
    asked = [compare(terms, "eq", x, y) for x, y in pairs]
    terms.same_type.update(asked)
    inner, rel.group = rel.group, Group()
    group = Group(inner.sources, [*inner.conditions, *asked], inner.joins | set(asked), inner.sorts)
    return terms.make("exists", Rel(group, [], rel.scope, local=True))


def _members(this: Node) -> list[Node]:
    if this.tag == "Tuple":
        return [part for part in this.parts if part.__class__ is Node]
    return [this]


def _without_nulls(nodes: list[Node], conditions: list[Node]) -> bool:
    return all(any(rejects_null(c, node) for c in conditions) for node in nodes)
