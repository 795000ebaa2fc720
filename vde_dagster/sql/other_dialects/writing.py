"""Generates Spark SQL from trees, with parameters as time variables such as `@start_ts`.

Two forms are written here, because SQLGlot's generator (30.30) changes their meaning:

- QUALIFY, which Spark does not have. `transforms.eliminate_qualify` uses unqualified column names,
  so `PARTITION BY c.k` becomes the expression of an output named `k`. It also applies DISTINCT,
  ORDER BY and LIMIT before the filter.
- Nested WITH, which Spark supports. `transforms.move_ctes_to_top_level` moves it to the top, even
  if names repeat.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from vde_dagster.sql.definitions import reads_column
from vde_dagster.sql.other_dialects import Unwritable

_PLACEHOLDER_NAME = re.compile(r"__vde_param_(\w+?)__$")


def restore_parameters(tree: exp.Expr) -> exp.Expr:
    """Replace each placeholder for a parameter with the parameter, `@name`, in place."""
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
    """Return a copy of a tree whose parameters become `@name` in the SQL of every dialect."""
    return tree.transform(
        lambda node: exp.Var(this=f"@{node.name}") if isinstance(node, exp.Parameter) else node
    )


def with_qualified_rows(tree: exp.Expr) -> None:
    """Rewrite DISTINCT ON in place as QUALIFY with the first row of each key.

    Raises:
        Unwritable: The query also has QUALIFY, or the column of a position such as `ORDER BY 2`
            is missing, or is unknown because of a star.
    """
    for select in list(tree.find_all(exp.Select)):
        distinct = select.args.get("distinct")
        keys = distinct.args.get("on") if distinct is not None else None
        if not isinstance(keys, exp.Tuple):
            continue
        if select.args.get("qualify"):
            raise Unwritable("DISTINCT ON with QUALIFY").at_node(select)
        # SQLGlot's own rewriting (30.30, `transforms.eliminate_distinct_on`) is wrong. It applies
        # LIMIT before the filter, treats positions in ORDER BY as constants, and adds a column to a
        # star.
        given = select.args.get("order")
        order = exp.Order(expressions=[one.copy() for one in (given or keys).expressions])
        partition = [one.copy() for one in keys.expressions]
        window = exp.Window(this=exp.RowNumber(), partition_by=partition, order=order)
        aliases = _aliases(select)
        for key in list(window.find_all(exp.Literal, exp.Column)):
            if not isinstance(key.parent, exp.Window | exp.Ordered | exp.Order):
                continue
            if isinstance(key, exp.Literal) and key.is_int:
                key.replace(_output_at(select, int(key.name)))
            elif isinstance(key, exp.Column) and not key.table and key.name.lower() in aliases:
                key.replace(exp.paren(aliases[key.name.lower()].copy()))
        select.set("distinct", None)
        first = exp.EQ(this=window, expression=exp.Literal.number(1))
        select.set("qualify", exp.Qualify(this=first))


_OF_INPUT = "vde_input"


def mark_input_columns(tree: exp.Expr, dialect: str) -> None:
    """Mark columns in QUALIFY that have the name of an alias, but are input columns.

    Input columns come before aliases in all dialects but BigQuery.
    """
    for qualify in tree.find_all(exp.Qualify) if dialect != "bigquery" else ():
        select = qualify.parent_select
        for column in qualify.find_all(exp.Column):
            if column.table or select is None or column.parent_select is not select:
                continue
            # In PostgreSQL it stands for DISTINCT ON, whose expressions have no aliases.
            if dialect == "postgres" or reads_column(select, column.name.lower()):
                column.meta[_OF_INPUT] = True


def _aliases(select: exp.Select) -> dict[str, exp.Expr]:
    return {
        item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)
    }


def _output_at(select: exp.Select, position: int) -> exp.Expr:
    if any(one.is_star for one in select.expressions) or position > len(select.expressions):
        raise Unwritable("a position in DISTINCT ON").at_node(select)
    return exp.paren(select.expressions[position - 1].unalias().copy())


_CONDITION = "_qualify"
_AFTER_THE_FILTER = ("with_", "distinct", "order", "limit", "offset", "sort", "cluster")


def query_sql(tree: exp.Expr, *, strict: bool = False) -> str:
    """Write a query as one line of Spark SQL without comments, with parameters as `@name`.

    Raises UnsupportedError if `strict` is set and SQLGlot reports a part that it cannot write.
    """
    tree = with_variables(tree)
    for select in reversed(list(tree.find_all(exp.Select))):
        if select.args.get("qualify"):
            filtered = _filter_rows(select)
            tree = filtered if select is tree else tree
    exp.Paren(this=tree)  # Of what is inside of something SQLGlot lifts no WITH.
    level = ErrorLevel.RAISE if strict else ErrorLevel.WARN
    return tree.sql(dialect="spark", comments=False, copy=False, unsupported_level=level)


def _filter_rows(select: exp.Select) -> exp.Select:
    condition = select.args["qualify"].pop().this
    aliases = _aliases(select)
    holder = exp.Paren(this=condition)
    for column in list(holder.find_all(exp.Column)):
        known = column.table or column.meta.get(_OF_INPUT)
        meant = None if known else aliases.get(column.name.lower())
        if meant is not None:
            column.replace(exp.Paren(this=meant.copy()))
    moved = {key: select.args.get(key) for key in _AFTER_THE_FILTER if select.args.get(key)}
    for key in moved:
        select.set(key, None)
    outputs = _name_outputs(select)
    hidden = [exp.alias_(holder.this, _CONDITION, quoted=True)]
    hidden += _order_outside(moved.get("order"), outputs)
    outer = exp.Select(expressions=_subquery(outputs, hidden))
    if select.parent is not None:
        select.replace(outer)
    select.set("expressions", [*select.expressions, *hidden])
    outer.set("from_", exp.From(this=select.subquery("_t", copy=False)))
    outer.set("where", exp.Where(this=exp.column(_CONDITION, quoted=True)))
    for key, value in moved.items():
        outer.set(key, value)
    return outer


def _name_outputs(select: exp.Select) -> list[str] | None:
    """Give every output a name, and return the names. Return None if there is a star."""
    if any(item.is_star for item in select.expressions):
        return None
    names = []
    for number, item in enumerate(select.expressions):
        if not isinstance(item, exp.Alias | exp.Column):
            item.replace(exp.alias_(item.copy(), f"_c{number}", quoted=True))
        names.append(select.expressions[number].alias_or_name)
    return names


def _subquery(outputs: list[str] | None, hidden: list[exp.Expr]) -> list[exp.Expr]:
    if outputs is None:
        names = [exp.to_identifier(item.alias, quoted=True) for item in hidden]
        return [exp.Star(except_=names)]
    return [exp.column(name, quoted=True) for name in outputs]


def _order_outside(order: exp.Expr | None, outputs: list[str] | None) -> list[exp.Expr]:
    """Replace sort keys that are not outputs with hidden columns, and return these columns."""
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
