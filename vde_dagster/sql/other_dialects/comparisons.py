"""Rewrites of comparisons of rows, of values with lists, and of values with queries.

In comparisons of rows, NULLs are equal and first in Spark, equal and last in DuckDB, and not equal
in other engines. Outside of conditions, Spark returns false for `x IN (SELECT …)` where other
engines return NULL. DuckDB and PostgreSQL were run; the SQL standard is assumed for other engines.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.building import Replacement, is_null, when

_STRUCT_ROWS = frozenset({"duckdb"})
"""Dialects whose rows are structs, with equal NULLs."""
_ORDERED_ROWS = frozenset({"postgres", "redshift", "mysql"})
"""Dialects that compare rows field by field, up to the first difference or NULL."""
_ORDERS: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.LT,
    exp.LTE: exp.LT,
    exp.GT: exp.GT,
    exp.GTE: exp.GT,
}
"""Comparisons of rows, with the comparison of all fields but the last."""


def compare_fields(node: exp.Binary, dialect: str) -> Replacement:
    """Rewrite a comparison of two rows as comparisons of their fields.

    Raises:
        Unwritable: The rows have different widths, or the dialect orders NULLs in rows differently.
    """
    sides = node.this.unnest(), node.expression.unnest()
    if not any(isinstance(one, exp.Tuple) for one in sides):
        return None
    left, right = (one.expressions for one in sides)
    if not all(isinstance(one, exp.Tuple) for one in sides) or len(left) != len(right):
        raise Unwritable("a comparison of a row")
    if isinstance(node, exp.EQ | exp.NEQ):
        equal = exp.paren(
            _all_equal(left, right, exp.NullSafeEQ if dialect in _STRUCT_ROWS else exp.EQ)
        )
        return equal if isinstance(node, exp.EQ) else exp.Not(this=equal)
    if dialect not in _ORDERED_ROWS:
        raise Unwritable("rows compared by <, <=, > or >=, because Spark orders NULLs differently")
    made: exp.Expr = node.__class__(this=left[-1].copy(), expression=right[-1].copy())
    first = _ORDERS[node.__class__]
    for one, other in zip(left[-2::-1], right[-2::-1], strict=True):
        same = exp.and_(_all_equal([one], [other]), exp.paren(made), copy=False)
        before = first(this=one.copy(), expression=other.copy())
        made = exp.or_(before, exp.paren(same), copy=False)
    return exp.paren(made)


def refuse_rows_between(node: exp.Between, dialect: str) -> Replacement:
    if isinstance(node.this.unnest(), exp.Tuple):
        raise Unwritable("BETWEEN of rows")
    return None


def _all_equal(
    left: Sequence[exp.Expr], right: Sequence[exp.Expr], by: type[exp.Binary] = exp.EQ
) -> exp.Expr:
    pairs = zip(left, right, strict=True)
    return exp.and_(*(by(this=one.copy(), expression=other.copy()) for one, other in pairs))


def find_row_in_list(node: exp.In, dialect: str) -> Replacement:
    """Rewrite `(a, b) IN ((1, 2), (3, 4))` as comparisons of fields joined by AND and OR."""
    row = node.this.unnest()
    if not isinstance(row, exp.Tuple) or not node.expressions or dialect in _STRUCT_ROWS:
        return None
    elements = [one.unnest() for one in node.expressions]
    width = len(row.expressions)
    if any(not isinstance(e, exp.Tuple) or len(e.expressions) != width for e in elements):
        raise Unwritable("a comparison of a row")
    equal = [exp.paren(_all_equal(row.expressions, one.expressions)) for one in elements]
    return exp.paren(exp.or_(*equal))


def find_value_in_query(node: exp.In, dialect: str) -> Replacement:
    """Rewrite `x IN (SELECT …)` outside of conditions so that the result can be NULL."""
    if node.args.get("query") is None or _is_condition(node):
        return None
    found = exp.If(this=node.copy(), true=exp.true())
    missing = exp.If(this=exp.Not(this=node.copy()), true=exp.false())
    return exp.Case(ifs=[found, missing])


_PASSING = (exp.Paren, exp.And, exp.Or)
"""Parts of a condition in which an operand has the same effect whether it is false or NULL."""


def _is_condition(node: exp.Expr) -> bool:
    """Return whether an expression is used as a condition, where NULL acts like false."""
    child, parent = node, node.parent
    while isinstance(parent, exp.Paren):
        child, parent = parent, parent.parent
    if isinstance(parent, exp.Not):
        child, parent = parent, parent.parent
    while isinstance(parent, _PASSING):
        child, parent = parent, parent.parent
    if isinstance(parent, exp.If):
        case = parent.parent
        return child.arg_key == "this" and not (isinstance(case, exp.Case) and case.this)
    is_join = isinstance(parent, exp.Join) and child.arg_key == "on"
    return is_join or isinstance(parent, exp.Where | exp.Having | exp.Qualify)


_ELEMENT = "vde_element"


def find_any_of_list(node: exp.Binary, dialect: str) -> Replacement:
    """Rewrite `x = ANY(list)` as Spark's EXISTS over the list; refuse a subquery in `x`."""
    some = node.expression
    values = some.this.unnest() if isinstance(some, exp.Any) else None
    if values is None or isinstance(values, exp.Query):
        return None
    if node.this.find(exp.Query):
        raise Unwritable("a subquery compared with the elements of a list")
    # SQLGlot's own rewriting (30.30, `transforms.any_to_exists`) is not used, because it names the
    # element `x`, like a column.
    test = node.__class__(this=node.this.copy(), expression=exp.column(_ELEMENT))
    element = exp.Lambda(this=test, expressions=[exp.to_identifier(_ELEMENT)])
    found = exp.Exists(this=values.copy(), expression=element)
    if dialect != "duckdb" or isinstance(values, exp.Array):
        return found
    # For a list that is NULL, DuckDB returns false.
    return when(is_null(values), exp.false(), found)
