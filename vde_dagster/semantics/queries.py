"""Reading whole queries: SELECT, set operations, parentheses with ORDER BY or LIMIT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from vde_dagster.semantics import ctes
from vde_dagster.semantics.algebra import Generator, Group, Node, Output, Rel
from vde_dagster.semantics.binder import Unsupported, only
from vde_dagster.semantics.generators import bind_generator, bind_values, generator_kind
from vde_dagster.semantics.grouping import aggregate, bind_group_by
from vde_dagster.semantics.inference import infer
from vde_dagster.semantics.names import NamedSource, Scope
from vde_dagster.semantics.relations import bind_from, conditions
from vde_dagster.semantics.rewrite import complete_windows
from vde_dagster.semantics.set_operations import bind_set_operation
from vde_dagster.semantics.stars import expand, unknown
from vde_dagster.semantics.trimming import TRIMS, distinct_rows, limited, sort_keys, trimmed
from vde_dagster.semantics.windows import define_windows

if TYPE_CHECKING:
    from vde_dagster.semantics.binder import Binder

_SELECT_ARGS = {
    *("with_", "expressions", "hint", "distinct", "from_", "joins", "laterals", "where", "group"),
    *("having", "qualify", "windows", "distribute", "sort", "cluster", "order", "limit", "offset"),
}
_WRAPPER_ARGS = {"this", "with_", "alias", "order", "limit", "offset", "joins"}


def bind_query(binder: Binder, e: exp.Expr, outer: Scope | None, known: ctes.Ctes) -> Rel:
    """Read a query all of whose columns are known; arguments and errors as for `bind_partial`."""
    rel = bind_partial(binder, e, outer, known)
    if rel.rest is not None:
        raise unknown(rel.rest)
    return rel


def bind_partial(binder: Binder, e: exp.Expr, outer: Scope | None, known: ctes.Ctes) -> Rel:
    """Read a query; it may have columns that nobody knows yet, as its `rest`.

    Args:
        binder: The context.
        e: SELECT, set operation, VALUES, or one of them in parentheses.
        outer: The scope whose columns a correlated query may name.
        known: The CTEs in reach.

    Raises:
        Unsupported: Something is not understood.
        SemanticError: A name does not exist.
    """
    if isinstance(e, exp.Select):
        return _select(binder, e, outer, known)
    if isinstance(e, exp.SetOperation):
        return bind_set_operation(binder, e, outer, known)
    if isinstance(e, exp.Subquery):
        only(e, _WRAPPER_ARGS)
        known = ctes.define(e.args.get("with_"), known, outer)
        if not any(e.args.get(key) for key in TRIMS):
            return bind_partial(binder, e.this, outer, known)
        return trimmed(binder, e, bind_query(binder, e.this, outer, known))
    if isinstance(e, exp.Values):
        scope = Scope(outer, known)
        source, outputs = bind_values(binder, e, scope)
        return Rel(Group([source]), outputs, scope)
    raise Unsupported(f"a {e.__class__.__name__.upper()} where a query is expected")


def _select(binder: Binder, e: exp.Select, outer: Scope | None, known: ctes.Ctes) -> Rel:
    only(e, _SELECT_ARGS)
    terms = binder.terms
    scope = Scope(outer, ctes.define(e.args.get("with_"), known, outer))
    group = bind_from(binder, e, scope)
    define_windows(e.args.get("windows") or [], scope)
    where = e.args.get("where")
    if where is not None:
        scope.clause = "where"
        binder.to_check.append(where)
        group.conditions += conditions(binder, where.this, scope)
    scope.clause = "select"
    made: list[Generator] = []
    outputs = _select_list(binder, e, scope, made)
    group_by = e.args.get("group")
    grouping = bind_group_by(binder, group_by, outputs, scope) if group_by is not None else None
    scope.group_keys = frozenset(grouping.keys) if grouping is not None else frozenset()
    having = _condition(binder, e, "having", scope)
    qualify = _condition(binder, e, "qualify", scope)
    scope.clause = "order"
    order = sort_keys(binder, e, outputs, scope)

    nodes = [o.node for o in outputs] + having + qualify + order
    if grouping is None and (scope.has_aggregate or e.args.get("having") is not None):
        # Whatever it asks, also nothing: a HAVING is asked of groups.
        grouping = bind_group_by(binder, None, outputs, scope)
    if grouping is not None:
        arguments = [a for g in made for a in g.args]
        understood = binder.doubt is None
        source, nodes = aggregate(binder, group, grouping, nodes + arguments, scope)
        if scope.ungrouped and understood:
            binder.note("ungrouped", e, scope)
        group = Group([source])
        for generator in made:
            size = len(generator.args)
            start = len(nodes) - len(arguments)
            generator.args = nodes[start : start + size]
            arguments = arguments[size:]
        nodes = nodes[: len(outputs) + len(having) + len(qualify) + len(order)]
        having = nodes[len(outputs) : len(outputs) + len(having)]
        group.conditions += having
    if made and scope.has_window:
        binder.give_up("a generator beside a window function")
    group.sources += made
    if scope.has_window:
        nodes = complete_windows(nodes, group.snapshot(), terms)
        if not group.sources:
            raise Unsupported("a window function without FROM")
    size = len(outputs)
    outputs = [o.as_node(n) for o, n in zip(outputs, nodes, strict=False)]
    qualify = nodes[size + len(having) : size + len(having) + len(qualify)]
    order = nodes[len(nodes) - len(order) :] if order else []
    group.conditions += qualify
    rel = Rel(group, outputs, scope, rest=_rest(e, scope, grouped=grouping is not None))
    if e.args.get("distinct") is not None:
        rel, order = distinct_rows(binder, e.args["distinct"], rel, order)
    return limited(binder, e, rel, order)


def _rest(e: exp.Select, scope: Scope, *, grouped: bool) -> NamedSource | None:
    """The table that has the columns which a star stands for besides those that are known."""
    if not scope.rest:
        return None
    decides = grouped or any(e.args.get(key) for key in ("distinct", "limit", "offset"))
    if decides or len(set(scope.rest)) > 1:
        raise unknown(scope.rest[0])
    return scope.rest[0]


def _condition(binder: Binder, e: exp.Select, clause: str, scope: Scope) -> list[Node]:
    clause_e = e.args.get(clause)
    if clause_e is None:
        return []
    scope.clause = clause
    binder.to_check.append(clause_e)
    return conditions(binder, clause_e.this, scope)


def _select_list(
    binder: Binder, e: exp.Select, scope: Scope, made: list[Generator]
) -> list[Output]:
    """The output columns; a later one may use the aliases of earlier ones."""
    from vde_dagster.semantics.expressions import bind

    outputs: list[Output] = []
    for i, item in enumerate(e.expressions):
        if item.__class__ is not exp.Alias and item.is_star:
            outputs += expand(binder, item, scope, partial=True)
            continue
        inner = item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item
        if generator_kind(inner) is not None:
            names = _names(item)
            source, columns = bind_generator(binder, inner, names, scope)
            made.append(source)
            outputs += columns
            for column in columns:
                scope.aliases.setdefault(column.name, (column.node, column.type))
            continue
        if isinstance(item, exp.Aliases):
            raise Unsupported("several aliases of one expression")
        node = bind(binder, inner, scope)
        kind = infer(inner)
        written = item.alias_or_name or item.output_name or f"_col_{i}"
        name = written.lower()
        outputs.append(Output(name, node, kind, written))
        if isinstance(item, exp.Alias):
            scope.aliases.setdefault(name, (node, kind))
    return outputs


def _names(item: exp.Expr) -> list[str]:
    if isinstance(item, exp.Aliases):
        return [identifier.name.lower() for identifier in item.expressions]
    return [item.alias.lower()] if isinstance(item, exp.Alias) else []
