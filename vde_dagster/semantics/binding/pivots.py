"""PIVOT and UNPIVOT, rewritten as plain queries for lineage and names.

`PIVOT (sum(a) FOR k IN (1 AS x))` becomes `sum(a) FILTER (WHERE k = 1) AS x`, grouped by all
columns that the PIVOT does not name. UNPIVOT becomes a UNION ALL of one query per column. A query
with PIVOT is still compared as text, because the rewritten query may return other rows in rare
cases; for example, a count of no rows is NULL in a PIVOT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from vde_dagster.semantics._sqlglot import called_function
from vde_dagster.semantics.algebra.nodes import AGGREGATES, plain_string
from vde_dagster.semantics.binding.binder import Unsupported, refuse_other_args
from vde_dagster.semantics.spark_functions import function_kind

_PIVOT_ARGS = {"expressions", "fields", "alias", "columns"}
_UNPIVOT_ARGS = {"expressions", "fields", "alias", "unpivot", "include_nulls"}
_DEFAULTS = {
    "default_on_null",
    "identify_pivot_strings",
    "prefixed_pivot_columns",
    "pivot_column_naming",
    "value_columns_first",
    "unpivot",
    "include_nulls",
}
"""Arguments that may be ignored: the dialect that SQLGlot records, and flags that are False."""
_PLAIN = re.compile(r"\w+")


def rewrite_pivot(e: exp.Expr, columns: Callable[[exp.Expr], Sequence[str]]) -> exp.Expr | None:
    """Rewrite a table or subquery with PIVOT or UNPIVOT as a query; return None without a PIVOT.

    Args:
        columns: Returns the column names of a table or subquery.

    Raises:
        Unsupported: There are several PIVOTs, or the PIVOT has an unsupported form or name.
    """
    pivots = e.args.get("pivots")
    if not pivots:
        return None
    if len(pivots) > 1 or len(pivots[0].args.get("fields") or ()) != 1:
        raise Unsupported("several PIVOTs")
    pivot, source = pivots[0], e.copy()
    source.set("pivots", None)
    source.set("joins", None)
    named = columns(source)
    return _unpivoted(pivot, source, named) if pivot.unpivot else _pivoted(pivot, source, named)


def _pivoted(pivot: exp.Expr, source: exp.Expr, columns: Sequence[str]) -> exp.Expr:
    refuse_other_args(pivot, _PIVOT_ARGS | _DEFAULTS, "PIVOT")
    field = pivot.args["fields"][0]
    keys = _items(field.this)
    aggregates = [(one.alias, one.unalias()) for one in pivot.expressions]
    if len(aggregates) > 1 and not all(name for name, _ in aggregates):
        raise Unsupported("PIVOT of aggregates without names")
    named = {
        column.name.lower()
        for one in (*keys, *(aggregate for _, aggregate in aggregates))
        for column in one.find_all(exp.Column)
    }
    kept = [exp.column(name, quoted=True) for name in columns if name not in named]
    made: list[exp.Expr] = []
    for name, values in _values(field.expressions):
        if len(values) != len(keys):
            raise Unsupported("PIVOT with values that do not match the number of keys")
        is_one = exp.and_(
            *(exp.EQ(this=k.copy(), expression=v) for k, v in zip(keys, values, strict=True))
        )
        for own, aggregate in aggregates:
            of_one = _filtered(aggregate, is_one)
            called = f"{name}_{own}" if len(aggregates) > 1 else name
            made.append(exp.alias_(of_one, called, quoted=True))
    select = exp.select(*kept, *made).from_(source)
    return select.group_by(*(one.copy() for one in kept)) if kept else select


def _filtered(aggregate: exp.Expr, condition: exp.Expr) -> exp.Expr:
    if (
        not isinstance(aggregate, exp.Anonymous)
        or function_kind(called_function(aggregate)) not in AGGREGATES
    ):
        raise Unsupported("PIVOT of more than an aggregate")
    return exp.Filter(this=aggregate.copy(), expression=exp.Where(this=condition.copy()))


def _values(listed: Sequence[exp.Expr]) -> Iterator[tuple[str, list[exp.Expr]]]:
    for one in listed:
        value = one.this if isinstance(one, (exp.PivotAlias, exp.Alias)) else one
        name = one.alias
        if not name and isinstance(value, exp.Literal):
            text = plain_string(value.this) if value.is_string else value.this
            name = text if text is not None and _PLAIN.fullmatch(text) else ""
        if not name:
            raise Unsupported("PIVOT with values without names")
        yield name, [part.copy() for part in _items(value)]


def _unpivoted(pivot: exp.Expr, source: exp.Expr, columns: Sequence[str]) -> exp.Expr:
    refuse_other_args(pivot, _UNPIVOT_ARGS | _DEFAULTS, "UNPIVOT")
    field = pivot.args["fields"][0]
    into = [part.name for one in pivot.expressions for part in _items(one)]
    groups = [
        _items(one.this if isinstance(one, (exp.PivotAlias, exp.Alias)) else one)
        for one in field.expressions
    ]
    if any(len(group) != len(into) for group in groups):
        raise Unsupported("UNPIVOT of groups of another size")
    named = {column.name.lower() for group in groups for column in group}
    kept = [name for name in columns if name not in named]
    branches: list[exp.Expr] = []
    for group in groups:
        select = exp.select(
            *(exp.column(name, quoted=True) for name in kept),
            exp.alias_(exp.Literal.string("'_'"), field.this.name, quoted=True),
            *(exp.alias_(c.copy(), n, quoted=True) for c, n in zip(group, into, strict=True)),
        ).from_(source.copy())
        if not pivot.args.get("include_nulls"):
            # A row is left out whose values are NULL, all of them.
            there = (exp.Not(this=exp.Is(this=one.copy(), expression=exp.Null())) for one in group)
            select = select.where(exp.or_(*there))
        branches.append(select)
    return exp.union(*branches, distinct=False) if len(branches) > 1 else branches[0]


def _items(e: exp.Expr) -> list[exp.Expr]:
    return list(e.expressions) if isinstance(e, exp.Tuple) else [e.unnest()]
