"""The FROM clause: tables, common table expressions, subqueries, joins and lateral views."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from vde_dagster.semantics._sqlglot import called_function, is_injective_equality
from vde_dagster.semantics.algebra.nodes import (
    Derived,
    FullJoin,
    Group,
    Node,
    Output,
    Rel,
    conjuncts,
)
from vde_dagster.semantics.algebra.uniqueness import has_at_most_one_row
from vde_dagster.semantics.binding.binder import (
    Binder,
    Unsupported,
    flat_operands,
    refuse_other_args,
)
from vde_dagster.semantics.binding.ctes import CteDef, VisibleCtes
from vde_dagster.semantics.binding.generators import bind_generator, bind_range, bind_values
from vde_dagster.semantics.binding.names import NamedSource, Scope
from vde_dagster.semantics.binding.pivots import rewrite_pivot
from vde_dagster.semantics.binding.stars import unknown_columns_error
from vde_dagster.semantics.simplify.existence import in_subqueries_as_exists
from vde_dagster.semantics.types import infer

_TABLE_ARGS = {"this", "db", "catalog", "alias", "joins", "hints", "only"}
_JOIN_ARGS = {"this", "on", "using", "side", "kind", "method", "hint"}


@dataclass(slots=True)
class BoundSources:
    """The bound tables of a FROM clause, with the names that they define."""

    group: Group = field(default_factory=Group)
    entries: list[NamedSource] = field(default_factory=list)
    merged: dict[str, tuple[Node, Any]] = field(default_factory=dict)
    crossed: bool = False


def bind_from(binder: Binder, e: exp.Expr, scope: Scope) -> Group:
    """Bind FROM, JOINs and LATERAL VIEWs of a SELECT, and add their names to the scope."""
    from_ = e.args.get("from_")
    if from_ is None:
        if e.args.get("joins") or e.args.get("laterals"):
            raise Unsupported("joins without FROM")
        return Group()
    sources = _item(binder, from_.this, scope)
    scope.entries, scope.merged = sources.entries, sources.merged
    for join in e.args.get("joins") or []:
        _join(binder, join, sources, scope)
    for lateral in e.args.get("laterals") or []:
        _lateral_view(binder, lateral, sources, scope)
    return sources.group


def bind_conditions(binder: Binder, e: exp.Expr, scope: Scope) -> list[Node]:
    """Bind a condition, split it at its ANDs, and record equalities that can prove uniqueness."""
    nodes: list[Node] = []
    joining = len(scope.entries) > 1 or scope.parent is not None
    operands = flat_operands(e, exp.And)
    is_whole = scope.clause != "having" and len(operands) == 1
    check = binder.check_condition if is_whole else binder.require_boolean
    for item in operands:
        node = check(binder.bind(item, scope), item)
        nodes.append(node)
        equal = joining and isinstance(item, (exp.EQ, exp.NullSafeEQ))
        if equal and is_injective_equality(infer(item.this), infer(item.expression)):
            binder.terms.same_type.add(node)
    found = conjuncts(binder.terms.combine("and", nodes))
    if scope.clause in ("where", "on"):
        found = in_subqueries_as_exists(found, binder.terms)
    return found


def _item(binder: Binder, e: exp.Expr, scope: Scope) -> BoundSources:
    if e.args.get("pivots"):
        return _bind_pivot(binder, e, scope)
    if isinstance(e, exp.Table):
        return _table(binder, e, scope)
    if isinstance(e, exp.Subquery):
        return _subquery(binder, e, scope)
    if isinstance(e, exp.Values):
        source, outputs = bind_values(binder, e, scope)
        return BoundSources(
            Group([source]), [_entry(binder, e, outputs, _alias(e), e.alias_column_names)]
        )
    if isinstance(e, exp.Lateral):
        return _lateral(binder, e, scope)
    raise Unsupported(f"{e.__class__.__name__} in FROM")


def _alias(e: exp.Expr) -> tuple[str, ...]:
    name = e.alias_or_name if isinstance(e, exp.Table) else e.alias
    return (name.lower(),) if name else ("",)


def _renames(binder: Binder, e: exp.Expr, names: list[str], width: int) -> None:
    if names and len(names) != width:
        binder.record_refusal("alias list", e, len(names), width)
        raise Unsupported("the number of column names differs from the number of columns")


def _entry(
    binder: Binder,
    e: exp.Expr,
    outputs: list[Output],
    parts: tuple[str, ...],
    names: list[str],
    rest: NamedSource | None = None,
) -> NamedSource:
    if names and rest is not None:
        raise unknown_columns_error(rest)
    _renames(binder, e, names, len(outputs))
    renamed = [name.lower() for name in names] or [output.name for output in outputs]
    return NamedSource(
        parts=parts,
        names=renamed,
        nodes={name: o.node for name, o in zip(renamed, outputs, strict=True)},
        types={name: o.type for name, o in zip(renamed, outputs, strict=True)},
        repeated={name for name in renamed if renamed.count(name) > 1},
        written=_by_lower(names) if names else {o.name: o.written for o in outputs},
        open=rest is not None,
        rest=rest,
    )


def _by_lower(names: Iterable[str]) -> dict[str, str | None]:
    return {name.lower(): name for name in names}


def _table(binder: Binder, e: exp.Table, scope: Scope) -> BoundSources:
    refuse_other_args(e, _TABLE_ARGS, "a table")
    names = e.alias_column_names
    if isinstance(e.this, exp.Func):
        made = _table_function(binder, e, names, scope)
    elif not isinstance(e.this, exp.Identifier):
        raise Unsupported("a table that is not a name")
    else:
        made = _named_table(binder, e, names, scope)
    return _nested_joins(binder, e, made, scope)


def _table_function(binder: Binder, e: exp.Table, names: list[str], scope: Scope) -> BoundSources:
    # Without LATERAL, the function can name only columns of outer queries.
    around = Scope(scope.parent, scope.ctes)
    if called_function(e.this) == "range":
        numbers, outputs = bind_range(binder, e.this, around)
        return BoundSources(Group([numbers]), [_entry(binder, e, outputs, _alias(e), names)])
    mistakes = len(binder.mistakes)
    source, outputs = bind_generator(binder, e.this, names, around)
    if scope.entries:
        for mistake in binder.mistakes[mistakes:]:
            mistake.hint = "Write LATERAL before a function that uses tables of the same FROM."
    scope.correlation.found |= around.correlation.found
    return BoundSources(Group([source]), [_entry(binder, e, outputs, (e.alias.lower(),), [])])


def _named_table(binder: Binder, e: exp.Table, names: list[str], scope: Scope) -> BoundSources:
    parts = tuple(part.name.lower() for part in e.parts)
    alias = e.alias.lower()
    found = scope.ctes.get(parts[0]) if len(parts) == 1 else None
    if found is not None:
        definition, reach = found
        rel = _read_cte(definition, reach, binder)
        scope.correlation.found |= rel.scope.correlation.found
        if definition.names:
            if rel.rest is not None:
                raise unknown_columns_error(rel.rest)
            _renames(binder, e, definition.names, len(rel.outputs))
            named = zip(definition.names, rel.outputs, strict=True)
            rel = Rel(
                rel.group, [Output(n.lower(), o.node, o.type, n) for n, o in named], rel.scope
            )
        return BoundSources(
            rel.group, [_entry(binder, e, rel.outputs, (alias or parts[0],), names, rel.rest)]
        )
    entry = binder.bind_table(parts)
    if alias:
        entry.parts = (alias,)
    if names:
        if entry.open:
            raise Unsupported("column aliases of a table whose columns are not known")
        _renames(binder, e, names, len(entry.names))
        lower = [name.lower() for name in names]
        entry.leaf_names = dict(zip(lower, entry.names, strict=True))
        entry.types = {new: entry.types[old] for new, old in entry.leaf_names.items()}
        entry.names, entry.written = lower, _by_lower(names)
    assert entry.leaf is not None
    return BoundSources(Group([entry.leaf]), [entry])


def _subquery(binder: Binder, e: exp.Subquery, scope: Scope) -> BoundSources:
    from vde_dagster.semantics.binding.queries import bind_partial

    inner = e.this
    if e.args.get("sample"):
        raise Unsupported("TABLESAMPLE")
    if isinstance(inner, (exp.Table, exp.Subquery)) and not _is_query(inner):
        made = _item(binder, inner, scope)
        if e.alias:
            raise Unsupported("a parenthesized join with an alias")
    else:
        # The parentheses only matter when they carry ORDER BY or LIMIT.
        carries = any(e.args.get(key) for key in ("order", "limit", "offset", "with_"))
        rel = bind_partial(binder, e if carries else inner, scope.parent, scope.ctes)
        scope.correlation.found |= rel.scope.correlation.found
        made = BoundSources(
            rel.group, [_entry(binder, e, rel.outputs, _alias(e), e.alias_column_names, rel.rest)]
        )
    return _nested_joins(binder, e, made, scope)


def _bind_pivot(binder: Binder, e: exp.Expr, scope: Scope) -> BoundSources:
    from vde_dagster.semantics.binding.queries import bind_partial

    before: list[NamedSource] = []

    def columns(source: exp.Expr) -> list[str]:
        (entry,) = _item(binder, source, Scope(scope.parent, scope.ctes)).entries
        if entry.open or entry.repeated:
            raise Unsupported("PIVOT of columns that are not known")
        before.append(entry)
        return entry.names

    mistakes, noted = len(binder.mistakes), len(binder.noted)
    query = rewrite_pivot(e, columns)
    assert query is not None
    rel = bind_partial(binder, query, scope.parent, scope.ctes)
    if len(binder.mistakes) > mistakes:
        # They may be mistakes of the plain query, which has no text to show.
        del binder.mistakes[mistakes:]
        raise Unsupported("a PIVOT with a mistake")
    del binder.noted[noted:]
    binder.give_up("PIVOT is compared as text")
    scope.correlation.found |= rel.scope.correlation.found
    alias = e.args["pivots"][0].args.get("alias")
    parts = (alias.name.lower(),) if alias is not None and alias.name else before[0].parts
    made = BoundSources(
        rel.group, [_entry(binder, e, rel.outputs, parts, e.args["pivots"][0].alias_column_names)]
    )
    return _nested_joins(binder, e, made, scope)


def _is_query(e: exp.Expr) -> bool:
    if isinstance(e, exp.Subquery):
        return not e.alias and _is_query(e.this) and not e.args.get("joins")
    return isinstance(e, exp.Query) and not isinstance(e, exp.Table)


def _nested_joins(binder: Binder, e: exp.Expr, made: BoundSources, scope: Scope) -> BoundSources:
    joins = e.args.get("joins")
    if joins:
        inner = Scope(scope.parent, scope.ctes, entries=made.entries, merged=made.merged)
        for join in joins:
            _join(binder, join, made, inner)
        scope.correlation.found |= inner.correlation.found
    return made


def _lateral(binder: Binder, e: exp.Lateral, scope: Scope) -> BoundSources:
    # The subquery can name columns of the tables before it.
    from vde_dagster.semantics.binding.queries import bind_query

    if e.args.get("view") or e.args.get("outer") or e.args.get("cross_apply") is not None:
        raise Unsupported("LATERAL of this form")
    if not isinstance(e.this, exp.Subquery):
        return _generated(binder, e, scope)
    rel = bind_query(binder, e.this, scope, scope.ctes)
    return BoundSources(
        rel.group, [_entry(binder, e, rel.outputs, _alias(e), e.alias_column_names)]
    )


def _lateral_view(binder: Binder, e: exp.Lateral, sources: BoundSources, scope: Scope) -> None:
    if e.args.get("view"):
        made = _generated(binder, e, scope, outer=bool(e.args.get("outer")))
    else:
        made = _lateral(binder, e, scope)
    sources.group.absorb(made.group)
    sources.entries += made.entries


def _generated(
    binder: Binder, e: exp.Lateral, scope: Scope, *, outer: bool = False
) -> BoundSources:
    source, outputs = bind_generator(binder, e.this, e.alias_column_names, scope, outer=outer)
    return BoundSources(Group([source]), [_entry(binder, e, outputs, _alias(e), [])])


_MOST_TABLES = 200
"""Maximum number of tables in a FROM: the time for looking up names grows quadratically."""


def _join(binder: Binder, e: exp.Join, left: BoundSources, scope: Scope) -> None:
    refuse_other_args(e, _JOIN_ARGS, "a join")
    side, kind, method = e.side.upper(), e.kind.upper(), e.method.upper()
    if method not in ("", "NATURAL") or kind not in (
        "", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"
    ):  # fmt: skip
        raise Unsupported(f"{method} {kind} JOIN".strip())
    if side in ("RIGHT", "FULL") and left.crossed:
        raise Unsupported("RIGHT or FULL JOIN after a comma")
    if side in ("RIGHT", "FULL") and isinstance(e.this, exp.Lateral):
        raise Unsupported(f"{side} JOIN LATERAL")
    if kind in ("SEMI", "ANTI") and side == "RIGHT":
        raise Unsupported(f"RIGHT {kind} JOIN")
    if len(left.entries) >= _MOST_TABLES:
        raise Unsupported(f"over {_MOST_TABLES:,} tables in one FROM")
    right = _item(binder, e.this, scope)
    names = _using_columns(e, left, right)
    if names is not None and side == "" and left.crossed:
        raise Unsupported("USING after a comma")
    on = _on(binder, e, names, left, right, scope)
    if kind in ("SEMI", "ANTI"):
        _semi(binder, kind, left, right, on, scope)
        _merge_using(binder, names or (), left, "")
        return
    if side == "LEFT":
        _outer(binder, left.group, right, on, scope)
    elif side == "RIGHT":
        group = Group()
        group.absorb(right.group)
        _outer(binder, group, left, on, scope)
        left.group = group
    elif side == "FULL":
        _full(binder, left, right, on, scope)
    else:
        left.group.absorb(right.group)
        left.group.conditions += on
        left.group.joins.update(on)
    left.crossed = left.crossed or (kind == "CROSS" and not e.args.get("on"))
    left.entries += right.entries
    left.merged.update(right.merged)
    scope.entries, scope.merged = left.entries, left.merged
    _merge_using(binder, names or (), left, side)


def _on(
    binder: Binder,
    e: exp.Join,
    names: list[str] | None,
    left: BoundSources,
    right: BoundSources,
    scope: Scope,
) -> list[Node]:
    if names is not None:
        out = []
        for name in names:
            a, a_type = _side(binder, left, name)
            b, b_type = _side(binder, right, name)
            equal = binder.terms.unordered("eq", [a, b])
            if is_injective_equality(a_type, b_type):
                binder.terms.same_type.add(equal)
            out.append(equal)
        return out
    condition = e.args.get("on")
    if condition is None:
        return []
    inner = Scope(
        scope.parent,
        scope.ctes,
        entries=left.entries + right.entries,
        merged={**right.merged, **left.merged},
        clause="on",
    )
    on = bind_conditions(binder, condition, inner)
    scope.correlation.found |= inner.correlation.found
    return on


def _side(binder: Binder, sources: BoundSources, name: str) -> tuple[Node, Any]:
    if name in sources.merged:
        return sources.merged[name]
    having = [entry for entry in sources.entries if entry.has(name)]
    if not having:
        # Spark refuses the query unless a table whose columns are not known has it.
        having = [entry for entry in sources.entries if entry.open]
        if len(having) != 1:
            raise Unsupported(f"USING ({name}) with several tables whose columns are not known")
        having[0].types[name] = None
    if len(having) != 1 or name in having[0].repeated:
        raise Unsupported(f"USING ({name}) with several columns of that name")
    return having[0].get(name, binder.terms), having[0].types[name]


def _semi(
    binder: Binder, kind: str, left: BoundSources, right: BoundSources, on: list[Node], scope: Scope
) -> None:
    right.group.conditions += on
    right.group.joins.update(on)
    exists = binder.terms.make("exists", Rel(right.group, [], scope, local=True))
    condition = exists if kind == "SEMI" else binder.terms.negate(exists)
    left.group.conditions.append(condition)
    left.group.joins.add(condition)


def _outer(
    binder: Binder, group: Group, optional: BoundSources, on: list[Node], scope: Scope
) -> None:
    inner = optional.group.copied()
    inner.conditions += on
    inner.joins.update(on)
    source = Derived("left", inner, scope.correlation)
    source.unique = has_at_most_one_row(inner, binder.terms)
    group.sources.append(source)
    _wrap(binder, optional, source)


def _full(
    binder: Binder, left: BoundSources, right: BoundSources, on: list[Node], scope: Scope
) -> None:
    source = FullJoin(left.group, right.group, on, scope.correlation)
    left.group = Group([source])
    _wrap(binder, left, source)
    _wrap(binder, right, source)


def _wrap(binder: Binder, sources: BoundSources, source: Derived | FullJoin) -> None:
    for entry in sources.entries:
        entry.wraps.append(source)
    sources.merged = {
        name: (binder.terms.make("ref", source, source.export(node)), kind)
        for name, (node, kind) in sources.merged.items()
    }


def _merge_using(binder: Binder, names: Sequence[str], left: BoundSources, side: str) -> None:
    for name in names:
        having = [entry for entry in left.entries if entry.has(name)]
        known = left.merged.get(name)
        last = having[-1]
        last_node = last.get(name, binder.terms)
        first = known or (having[0].get(name, binder.terms), having[0].types[name])
        if side == "RIGHT":
            left.merged[name] = (last_node, last.types[name])
        elif side == "FULL":
            if binder.using_calls_coalesce:
                both = binder.terms.make("call", "coalesce", first[0], last_node)
            else:
                both = binder.terms.make("Coalesce", "expressions", 1, last_node, "this", first[0])
            left.merged[name] = (both, first[1] if first[1] == last.types[name] else None)
        else:
            left.merged[name] = first
        for entry in having:
            entry.hidden.setdefault(name)
    columns = dict(left.merged)
    left.merged.clear()
    left.merged.update({name: columns[name] for name in names})  # First in a star.
    left.merged.update(columns)


def _using_columns(e: exp.Join, left: BoundSources, right: BoundSources) -> list[str] | None:
    using = e.args.get("using")
    if using:
        return [identifier.name.lower() for identifier in using]
    if e.method.upper() != "NATURAL":
        return None
    if any(entry.open for entry in left.entries + right.entries):
        raise Unsupported("NATURAL JOIN of tables whose columns are not known")
    there = {name for entry in right.entries for name in entry.names}
    return list(dict.fromkeys(n for entry in left.entries for n in entry.names if n in there))


def _read_cte(definition: CteDef, reach: VisibleCtes, binder: Binder) -> Rel:
    from vde_dagster.semantics.binding.queries import bind_partial

    if definition.apart is not None:
        return _copy(definition.apart, binder)
    binder.cte_readings += 1
    rel = bind_partial(binder, definition.query, definition.outer, reach)
    if binder.cte_readings > binder.CTE_BUDGET:
        if rel.rest is not None:
            raise Unsupported("too many uses of CTEs, one of which has unknown columns")
        definition.apart = rel
        return _copy(rel, binder)
    return rel


def _copy(rel: Rel, binder: Binder) -> Rel:
    block = Derived(
        "block", rel.group, rel.scope.correlation, columns=[o.node for o in rel.outputs]
    )
    outputs = [
        o.as_node(binder.terms.make("ref", block, block.export(o.node))) for o in rel.outputs
    ]
    return Rel(Group([block]), outputs, rel.scope)
