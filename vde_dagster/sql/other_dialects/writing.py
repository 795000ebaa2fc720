"""Spark SQL written from trees, with parameters as time variables: `@name`.

SQLGlot's own generator changes two meanings. Spark has no QUALIFY: SQLGlot (30.30,
`transforms.eliminate_qualify`) rewrites it by bare column names, so that `PARTITION BY c.k` becomes
the expression of an output named `k`, and it leaves DISTINCT, ORDER BY and LIMIT before the filter.
SQLGlot also lifts every nested WITH to the top (`transforms.move_ctes_to_top_level`) whatever the
names, though Spark reads nested ones: here they stay.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import ErrorLevel

_PLACEHOLDER_NAME = re.compile(r"__vde_param_(\w+?)__$")


def restore_parameters(tree: exp.Expr) -> exp.Expr:
    """Turn placeholders into parameters, in place; return the tree."""
    for identifier in list(tree.find_all(exp.Identifier)):
        found = _PLACEHOLDER_NAME.match(identifier.name)
        if found is None:
            continue
        parameter = exp.Parameter(this=exp.Var(this=found[1]))
        owner = identifier.parent
        if isinstance(owner, exp.Column) and not owner.args.get("table"):
            if owner is tree:
                return parameter
            owner.replace(parameter)
        else:
            identifier.replace(parameter)
    return tree


def with_variables(tree: exp.Expr) -> exp.Expr:
    """Return a copy of a tree with parameters that every dialect writes as `@name`."""
    return tree.transform(
        lambda node: exp.Var(this=f"@{node.name}") if isinstance(node, exp.Parameter) else node
    )


_CONDITION = "_qualify"
_AFTER_THE_FILTER = ("with_", "distinct", "order", "limit", "offset", "sort", "cluster")


def query_sql(tree: exp.Expr, *, strict: bool = False) -> str:
    """Write a query as one line of Spark SQL without comments, with parameters as `@name`.

    Raises:
        UnsupportedError: `strict` is set, and SQLGlot itself doubts a part of what it writes.
    """
    tree = with_variables(tree)
    for select in reversed(list(tree.find_all(exp.Select))):
        if select.args.get("qualify"):
            filtered = _filtered(select)
            tree = filtered if select is tree else tree
    exp.Paren(this=tree)  # Of what is inside of something SQLGlot lifts no WITH.
    level = ErrorLevel.RAISE if strict else ErrorLevel.WARN
    return tree.sql(dialect="spark", comments=False, copy=False, unsupported_level=level)


def _filtered(select: exp.Select) -> exp.Select:
    condition = select.args["qualify"].pop().this
    aliases = {
        item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)
    }
    holder = exp.Paren(this=condition)
    for column in list(holder.find_all(exp.Column)):
        meant = aliases.get(column.name.lower()) if not column.table else None
        if meant is not None:
            column.replace(exp.Paren(this=meant.copy()))
    moved = {key: select.args.get(key) for key in _AFTER_THE_FILTER if select.args.get(key)}
    for key in moved:
        select.set(key, None)
    outputs = _outputs(select)
    hidden = [exp.alias_(holder.this, _CONDITION, quoted=True)]
    hidden += _order_outside(moved.get("order"), outputs)
    outer = exp.Select(expressions=_named(outputs, hidden))
    if select.parent is not None:
        select.replace(outer)
    select.set("expressions", [*select.expressions, *hidden])
    outer.set("from_", exp.From(this=select.subquery("_t", copy=False)))
    outer.set("where", exp.Where(this=exp.column(_CONDITION, quoted=True)))
    for key, value in moved.items():
        outer.set(key, value)
    return outer


def _outputs(select: exp.Select) -> list[str] | None:
    """Name every output; return None if there is a star, whose columns are unknown here."""
    if any(item.is_star for item in select.expressions):
        return None
    names = []
    for number, item in enumerate(select.expressions):
        if not isinstance(item, exp.Alias | exp.Column):
            item.replace(exp.alias_(item.copy(), f"_c{number}", quoted=True))
        names.append(select.expressions[number].alias_or_name)
    return names


def _named(outputs: list[str] | None, hidden: list[exp.Expr]) -> list[exp.Expr]:
    if outputs is None:
        names = [exp.to_identifier(item.alias, quoted=True) for item in hidden]
        return [exp.Star(except_=names)]
    return [exp.column(name, quoted=True) for name in outputs]


def _order_outside(order: exp.Expr | None, outputs: list[str] | None) -> list[exp.Expr]:
    """Add hidden columns for an outer ORDER BY that reads values that are not outputs."""
    if order is None:
        return []
    known = {name.lower() for name in outputs or ()}
    hidden: list[exp.Expr] = []
    for key in order.expressions:
        value = key.this if isinstance(key, exp.Ordered) else key
        plain = isinstance(value, exp.Column) and not value.table and value.name.lower() in known
        if plain or isinstance(value, exp.Literal):
            continue
        name = f"_order{len(hidden)}"
        hidden.append(exp.alias_(value.copy(), name, quoted=True))
        value.replace(exp.column(name, quoted=True))
    return hidden
