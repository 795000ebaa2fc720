"""Whole queries: SELECT, set operations, DISTINCT, ORDER BY and LIMIT."""

from __future__ import annotations

from itertools import chain, islice

from sqlglot import exp

from vde_dagster.semantics._sqlglot import called_function, data_type
from vde_dagster.semantics.algebra.nodes import (
    Derived,
    Generator,
    Group,
    Node,
    Output,
    Rel,
    SetOperation,
    complete_windows,
    int_value,
    rewrite,
    walk,
)
from vde_dagster.semantics.binding.binder import Binder, Unsupported, refuse_other_args
from vde_dagster.semantics.binding.ctes import NO_CTES, VisibleCtes, define_ctes
from vde_dagster.semantics.binding.generators import bind_generator, bind_values, generator_kind
from vde_dagster.semantics.binding.grouping import (
    bind_group_by,
    is_negative_position,
    make_grouped_source,
    may_have_grouping_sets,
    output_at_position,
)
from vde_dagster.semantics.binding.names import NamedSource, Scope
from vde_dagster.semantics.binding.relations import bind_conditions, bind_from
from vde_dagster.semantics.binding.stars import expand_star, unknown_columns_error
from vde_dagster.semantics.binding.windows import bind_sort_key
from vde_dagster.semantics.function_types import letter_of_type
from vde_dagster.semantics.types import infer
from vde_dagster.sql.trees import used_args

_SELECT_ARGS = {
    *("with_", "expressions", "hint", "distinct", "from_", "joins", "laterals", "where", "group"),
    *("having", "qualify", "windows", "distribute", "sort", "cluster", "order", "limit", "offset"),
}
_WRAPPER_ARGS = {"this", "with_", "alias", "order", "limit", "offset", "joins"}


def bind_query(binder: Binder, e: exp.Expr, outer: Scope | None, known: VisibleCtes) -> Rel:
    """Convert a query, or raise `Unsupported` if a column is unknown. See `bind_partial`."""
    rel = bind_partial(binder, e, outer, known)
    if rel.rest is not None:
        raise unknown_columns_error(rel.rest)
    return rel


def bind_partial(binder: Binder, e: exp.Expr, outer: Scope | None, known: VisibleCtes) -> Rel:
    """Convert a query whose star may include one table with unknown columns (`Rel.rest`).

    Args:
        outer: The scope around the query; a correlated query may name its columns.

    Raises:
        Unsupported: The query contains an unsupported form.
    """
    if isinstance(e, exp.Select):
        return _select(binder, e, outer, known)
    if isinstance(e, exp.SetOperation):
        return _bind_set_operation(binder, e, outer, known)
    if isinstance(e, exp.Subquery):
        refuse_other_args(e, _WRAPPER_ARGS)
        known = define_ctes(e.args.get("with_"), known, outer)
        if not any(e.args.get(key) for key in _TRIMS):
            return bind_partial(binder, e.this, outer, known)
        return apply_order_and_limit(binder, e, bind_query(binder, e.this, outer, known))
    if isinstance(e, exp.Values):
        scope = Scope(outer, known)
        source, outputs = bind_values(binder, e, scope)
        return Rel(Group([source]), outputs, scope)
    raise Unsupported(f"a {e.__class__.__name__.upper()} where a query is expected")


def _select(binder: Binder, e: exp.Select, outer: Scope | None, known: VisibleCtes) -> Rel:
    refuse_other_args(e, _SELECT_ARGS)
    scope = Scope(outer, define_ctes(e.args.get("with_"), known, outer))
    group = bind_from(binder, e, scope)
    scope.windows = {window.this.name.lower(): window for window in e.args.get("windows") or []}
    where = e.args.get("where")
    if where is not None:
        scope.clause = "where"
        group.conditions += bind_conditions(binder, where.this, scope)
    scope.clause = "select"
    group_by = e.args.get("group")
    scope.in_sets = group_by is not None and may_have_grouping_sets(group_by)
    made: list[Generator] = []
    _name_time_windows(binder, group_by, scope)
    outputs = _select_list(binder, e, scope, made)
    grouping = bind_group_by(binder, group_by, outputs, scope) if group_by is not None else None
    scope.group_keys = frozenset(chain(*grouping)) if grouping is not None else frozenset()
    having = _condition(binder, e, "having", scope)
    qualify = _condition(binder, e, "qualify", scope)
    scope.clause = "order"
    order = bind_sort_keys(binder, e, outputs, scope)

    if grouping is None and (scope.has_aggregate or e.args.get("having") is not None):
        # Whatever it asks, also nothing: a HAVING is asked of groups.
        grouping = bind_group_by(binder, None, outputs, scope)
    lists = [[o.node for o in outputs], having, qualify, order, *(g.args for g in made)]
    if outer is not None:
        computed = grouping is not None or scope.has_window
        asked = chain(order, *(([*lists[0], *qualify], scope.group_keys) if computed else ()))
        own = {*group.sources, *made}
        if any(n.tag == "ref" and n.parts[0] not in own for n in walk(asked)):
            binder.give_up(
                "an outer query's column in a subquery's ORDER BY, or in SELECT, GROUP BY or "
                "QUALIFY of a subquery with groups or windows"
            )
    if grouping is not None:
        understood = binder.unsupported_reason is None
        source, changed = make_grouped_source(binder, group, grouping, list(chain(*lists)), scope)
        if scope.ungrouped and understood:
            binder.record_refusal("ungrouped", e, scope)
        rest = iter(changed)
        lists = [list(islice(rest, len(some))) for some in lists]
        for generator, arguments in zip(made, lists[4:], strict=True):
            generator.args = arguments
        group = Group([source], lists[1])
    if made and scope.has_window:
        binder.give_up("a generator beside a window function")
    group.sources += made
    if scope.has_window:
        if not group.sources:
            raise Unsupported("a window function without FROM")
        around = group.copied()
        lists = [complete_windows(some, around, binder.terms) for some in lists[:4]]
    outputs = [o.as_node(node) for o, node in zip(outputs, lists[0], strict=True)]
    qualify, order = lists[2:4]
    group.conditions += qualify
    rel = Rel(
        group, outputs, scope, rest=_open_table_of_star(e, scope, grouped=grouping is not None)
    )
    if e.args.get("distinct") is not None:
        refuse_other_args(e.args["distinct"], set(), "DISTINCT")
        rel, order = _distinct_rows(binder, rel, order)
    return apply_limit(binder, e, rel, order)


_TIME_WINDOWS = ("window", "session_window")
_WINDOW_TYPES = {
    letter: f"STRUCT<start: {kind}, end: {kind}>"
    for letter, kind in (("z", "TIMESTAMP"), ("n", "TIMESTAMP_NTZ"))
}


def _name_time_windows(binder: Binder, group_by: exp.Group | None, scope: Scope) -> None:
    """Add the column of `GROUP BY window(ts, '1 day')` to the query's scope."""
    for call in group_by.find_all(exp.Anonymous) if group_by is not None else ():
        name = called_function(call)
        if name in _TIME_WINDOWS and call.find_ancestor(exp.Query, exp.Group) is group_by:
            node = binder.bind(call, scope)
            letter = letter_of_type(infer(call.expressions[0])) if call.expressions else None
            scope.aliases.setdefault(name, (node, data_type(_WINDOW_TYPES.get(letter or "", ""))))


def _open_table_of_star(e: exp.Select, scope: Scope, *, grouped: bool) -> NamedSource | None:
    if not scope.rest:
        return None
    decides = grouped or any(e.args.get(key) for key in ("distinct", "limit", "offset"))
    if decides or len(set(scope.rest)) > 1:
        raise unknown_columns_error(scope.rest[0])
    return scope.rest[0]


def _condition(binder: Binder, e: exp.Select, clause: str, scope: Scope) -> list[Node]:
    clause_e = e.args.get(clause)
    if clause_e is None:
        return []
    scope.clause = clause
    return bind_conditions(binder, clause_e.this, scope)


def _select_list(
    binder: Binder, e: exp.Select, scope: Scope, made: list[Generator]
) -> list[Output]:
    outputs: list[Output] = []
    for i, item in enumerate(e.expressions):
        if item.__class__ is not exp.Alias and item.is_star:
            outputs += expand_star(binder, item, scope, partial=True)
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
        node = binder.bind(inner, scope)
        kind = infer(inner)
        written = item.alias_or_name or item.output_name or f"_col_{i}"
        name = written.lower()
        outputs.append(Output(name, node, kind, written))
        if isinstance(item, exp.Alias):
            scope.aliases.setdefault(name, (node, kind))
    return outputs


def _names(item: exp.Expr) -> list[str]:
    if isinstance(item, exp.Aliases):
        return [identifier.name for identifier in item.expressions]
    return [item.alias] if isinstance(item, exp.Alias) else []


_SET_ARGS = {"this", "expression", "with_", "distinct", "order", "limit", "offset"}
_NAMING = (exp.DType.STRUCT, exp.DType.ARRAY, exp.DType.MAP)
"""Types that may contain field names; a set operation takes these from its first query."""


def _bind_set_operation(
    binder: Binder, e: exp.SetOperation, outer: Scope | None, known: VisibleCtes
) -> Rel:
    refuse_other_args(e, _SET_ARGS)
    known = define_ctes(e.args.get("with_"), known, outer)
    op = e.__class__.__name__.lower()
    distinct = bool(e.args.get("distinct"))
    operands = _operands(e, op, distinct)
    branches = [bind_query(binder, operand, outer, known) for operand in operands]
    first = branches[0]
    if any(len(branch.outputs) != len(first.outputs) for branch in branches):
        binder.record_refusal("different widths", e, [len(branch.outputs) for branch in branches])
        raise Unsupported("a set operation of different numbers of columns")
    scope = Scope(outer, known)
    scope.correlation.found = any(branch.scope.correlation.found for branch in branches)
    all_rows = "union" if op == "union" else op if distinct else f"{op} all"
    if op != "union" and not distinct and any(map(_repeats_column, branches)):
        # Spark's RewriteExceptAll and RewriteIntersectAll make an invalid plan of such a branch.
        binder.give_up(f"{all_rows.upper()} of a query with one column twice")
    # The type of a column when all branches agree on it.
    types = [
        [o.type for o in column] for column in zip(*(b.outputs for b in branches), strict=True)
    ]
    kinds = [own[0] if all(kind == own[0] for kind in own) else None for own in types]
    alike = all(kind is not None and kind.this not in _NAMING for kind in kinds)
    source = SetOperation(all_rows, branches, scope.correlation, alike)
    outputs = [
        Output(o.name, binder.terms.make("ref", source, i), kinds[i], o.written)
        for i, o in enumerate(first.outputs)
    ]
    rel = Rel(Group([source]), outputs, scope)
    if op == "union" and distinct:
        rel, _ = _distinct_rows(binder, rel, [])
    return apply_order_and_limit(binder, e, rel)


def _repeats_column(rel: Rel) -> bool:
    columns = [o.node for o in rel.outputs if o.node.tag == "ref"]
    return len(set(columns)) < len(columns)


def _operands(e: exp.SetOperation, op: str, distinct: bool) -> list[exp.Expr]:
    operands: list[exp.Expr] = []
    left: exp.Expr = e
    while True:
        operands.append(left.args["expression"])
        left = left.args["this"]
        inner = left
        while isinstance(inner, exp.Subquery) and used_args(inner) == {"this"}:
            inner = inner.this
        # A UNION includes the UNIONs on its left.
        if not (
            op == "union"
            and isinstance(inner, exp.Union)
            and (distinct or not inner.args.get("distinct"))
            and used_args(inner) <= {"this", "expression", "distinct"}
        ):
            operands.append(left)
            return operands[::-1]
        left = inner


_TRIMS = ("order", "limit", "offset")


def bind_sort_keys(binder: Binder, e: exp.Expr, outputs: list[Output], scope: Scope) -> list[Node]:
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
        node = output_at_position(binder, this, outputs).node
        return [binder.terms.make("sort", *direction, node)]
    if is_negative_position(this):
        return [binder.give_up("a negative position")]
    if isinstance(this, exp.Var) and this.name.upper() == "ALL":
        return [binder.terms.make("sort", *direction, o.node) for o in outputs]
    if isinstance(this, exp.Column) and len(this.parts) == 1:
        same = [o.node for o in outputs if o.name == this.name.lower()]
        if len(set(same)) == 1:
            return [binder.terms.make("sort", *direction, same[0])]
    return [bind_sort_key(binder, item, scope)]


def _distinct_rows(binder: Binder, rel: Rel, order: list[Node]) -> tuple[Rel, list[Node]]:
    terms = binder.terms
    columns = list(dict.fromkeys(o.node for o in rel.outputs))
    keys = terms.unordered("keys", columns)
    source = Derived("agg", rel.group, rel.scope.correlation, keys=(keys,), columns=columns)
    known = {node: terms.make("ref", source, i) for i, node in enumerate(columns)}
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


def apply_limit(binder: Binder, e: exp.Expr, rel: Rel, order: list[Node]) -> Rel:
    """Apply a query's LIMIT and OFFSET, or record its ORDER BY if it has neither."""
    limit = _count(binder, e.args.get("limit"))
    offset = _count(binder, e.args.get("offset"))
    offset = None if offset is not None and int_value(offset) == 0 else offset
    if limit is None and offset is None:
        rel.group.sorts = order + rel.group.sorts
        return rel
    if sum(int_value(part) or 0 for part in (limit, offset) if part is not None) > _MOST_ROWS:
        binder.give_up("the sum of LIMIT and OFFSET is larger than the maximum INT")
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


_MOST_ROWS = 2**31 - 1
"""Spark's maximum for LIMIT, and for the sum of LIMIT and OFFSET."""


def _count(binder: Binder, e: exp.Expr | None) -> Node | None:
    if e is None:
        return None
    refuse_other_args(e, {"expression"}, "LIMIT")
    value = e.expression
    if isinstance(value, exp.Var) and value.name.upper() == "ALL":
        return None
    bound = binder.bind(value, Scope(None, NO_CTES))
    number = int_value(bound)
    negative = bound.tag == "neg" or (number is not None and number < 0)
    if negative or (bound.tag == "lit" and number is None):
        return binder.give_up("LIMIT and OFFSET take an INT that is not negative", bound)
    return bound


def apply_order_and_limit(binder: Binder, e: exp.Expr, rel: Rel) -> Rel:
    if not any(e.args.get(key) for key in _TRIMS):
        return rel
    entry = NamedSource(
        parts=("",),
        names=[o.name for o in rel.outputs],
        nodes={o.name: o.node for o in rel.outputs},
        types={o.name: o.type for o in rel.outputs},
        written={o.name: o.written for o in rel.outputs},
    )
    scope = Scope(rel.scope.parent, rel.scope.ctes, entries=[entry], clause="order")
    order = bind_sort_keys(binder, e, rel.outputs, scope)
    return apply_limit(binder, e, rel, order)
