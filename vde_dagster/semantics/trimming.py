"""ORDER BY, DISTINCT, LIMIT and OFFSET: which of a query's rows stay, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from vde_dagster.semantics.algebra import Derived, Group, Node, Output, Rel
from vde_dagster.semantics.binder import Unsupported
from vde_dagster.semantics.ctes import NO_CTES
from vde_dagster.semantics.grouping import ordinal
from vde_dagster.semantics.names import NamedSource, Scope
from vde_dagster.semantics.normalise import integer
from vde_dagster.semantics.rewrite import rewrite
from vde_dagster.semantics.windows import sort_key

if TYPE_CHECKING:
    from vde_dagster.semantics.binder import Binder


TRIMS = ("order", "limit", "offset")


def sort_keys(binder: Binder, e: exp.Expr, outputs: list[Output], scope: Scope) -> list[Node]:
    """The sort keys of ORDER BY, and of SORT BY and its like, which sort parts of the rows."""
    keys: list[Node] = []
    for clause in ("order", "sort", "cluster", "distribute"):
        found = e.args.get(clause)
        for item in found.expressions if found is not None else []:
            made = _sort_keys(binder, item, outputs, scope)
            if clause != "order":
                made = [binder.terms.make(clause, key) for key in made]
            keys += made
    return keys


def _sort_keys(binder: Binder, item: exp.Expr, outputs: list[Output], scope: Scope) -> list[Node]:
    this = (item.this if isinstance(item, exp.Ordered) else item).unnest()
    direction = (bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
    if isinstance(this, exp.Literal) and not this.args.get("is_string"):
        node = ordinal(binder, this, outputs).node
        return [binder.terms.make("sort", *direction, node)]
    if isinstance(this, exp.Var) and this.name.upper() == "ALL":
        return [binder.terms.make("sort", *direction, o.node) for o in outputs]
    if isinstance(this, exp.Column) and len(this.parts) == 1:
        same = [o.node for o in outputs if o.name == this.name.lower()]
        if len(set(same)) == 1:
            return [binder.terms.make("sort", *direction, same[0])]
    return [sort_key(binder, item, scope)]


def distinct_rows(
    binder: Binder, e: exp.Distinct, rel: Rel, order: list[Node]
) -> tuple[Rel, list[Node]]:
    """DISTINCT groups by all output columns; DISTINCT ON keeps one row per key."""
    from vde_dagster.semantics.expressions import bind

    terms = binder.terms
    nodes = [o.node for o in rel.outputs]
    on = e.args.get("on")
    if on is not None:
        if rel.scope.has_aggregate or rel.scope.has_window:
            raise Unsupported("DISTINCT ON of a grouped query")
        rel.scope.clause = "order"
        members = on.expressions if isinstance(on, exp.Tuple) else [on]
        keys = terms.unordered("keys", [bind(binder, k.unnest(), rel.scope) for k in members])
        source = Derived(
            "distinct on", rel.group, rel.scope.correlation, args=(keys, *order), columns=nodes
        )
        order = []
    else:
        keys = terms.unordered("keys", list(dict.fromkeys(nodes)))
        source = Derived(
            "agg",
            rel.group,
            rel.scope.correlation,
            keys=(keys,),
            columns=list(dict.fromkeys(nodes)),
        )
    known = {node: terms.make("ref", source, source.export(node)) for node in nodes}
    inner = set(rel.group.sources)

    def rule(node: Node) -> Node | None:
        if node in known:
            return known[node]
        if node.tag == "ref" and node.parts[0] in inner:
            return binder.give_up("ORDER BY of a column that DISTINCT drops", node)
        return None

    memo: dict[Node, Node] = {}
    order = [rewrite(node, rule, terms, memo) for node in order]
    outputs = [o.as_node(known[o.node]) for o in rel.outputs]
    return Rel(Group([source]), outputs, rel.scope), order


def limited(binder: Binder, e: exp.Expr, rel: Rel, order: list[Node]) -> Rel:
    """Apply LIMIT and OFFSET; an ORDER BY without them is only an order."""
    limit = _count(binder, e.args.get("limit"), rel.scope)
    offset = _count(binder, e.args.get("offset"), rel.scope)
    offset = None if offset is not None and integer(offset) == 0 else offset
    if limit is None and offset is None:
        rel.group.sorts = order + rel.group.sorts
        return rel
    terms = binder.terms
    source = Derived(
        "limit",
        rel.group,
        rel.scope.correlation,
        args=(terms.make("limit", limit), terms.make("offset", offset), *order),
        columns=list(dict.fromkeys(o.node for o in rel.outputs)),
    )
    outputs = [o.as_node(terms.make("ref", source, source.export(o.node))) for o in rel.outputs]
    return Rel(Group([source]), outputs, rel.scope)


def _count(binder: Binder, e: exp.Expr | None, scope: Scope) -> Node | None:
    from vde_dagster.semantics.expressions import bind

    if e is None:
        return None
    if e.args.get("limit_options") or e.args.get("expressions"):
        raise Unsupported("LIMIT with options")
    value = e.args.get("count") if isinstance(e, exp.Fetch) else e.expression
    if value is None:
        raise Unsupported("LIMIT without a number")
    if isinstance(value, exp.Var) and value.name.upper() == "ALL":
        return None
    return bind(binder, value, Scope(None, NO_CTES))


def trimmed(binder: Binder, e: exp.Expr, rel: Rel) -> Rel:
    """ORDER BY and LIMIT after parentheses or a set operation, over its output columns."""
    if not any(e.args.get(key) for key in TRIMS):
        return rel
    entry = NamedSource(
        parts=("",),
        names=[o.name for o in rel.outputs],
        nodes={o.name: o.node for o in rel.outputs},
        types={o.name: o.type for o in rel.outputs},
        written={o.name: o.written for o in rel.outputs},
    )
    scope = Scope(rel.scope.parent, rel.scope.ctes, entries=[entry], clause="order")
    order = sort_keys(binder, e, rel.outputs, scope)
    return limited(binder, e, rel, order)
