"""Rewrites of functions of lists: subscripts, series of numbers, and sizes.

In Spark, `x[n]` and GET count from 0; outside of the list, `x[n]` fails and GET returns NULL.
ELEMENT_AT and TRY_ELEMENT_AT count from 1, or from the end for negative numbers. DuckDB,
PostgreSQL, Trino and GoogleSQL were run; the rules of Snowflake and Redshift come from
docs.snowflake.com/en/sql-reference/data-types-semistructured and
docs.aws.amazon.com/redshift/latest/dg/query-super.html.
"""

from __future__ import annotations

from sqlglot import exp

from vde_dagster.sql.definitions import reads_column
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.building import Replacement, call, cast, when
from vde_dagster.sql.other_dialects.texts import literal_int, plus

_FROM_ONE = frozenset({"duckdb", "postgres", "trino", "presto", "athena"})
"""Dialects whose subscripts count from 1."""
_FROM_ZERO_IN_TREE = "from zero"
_OTHERS_FROM_ZERO = frozenset({"bigquery", "hive", "spark", "spark2", "databricks"})
_NULL_OUTSIDE = frozenset({"snowflake", "redshift"})


def note_subscripts(tree: exp.Expr, dialect: str) -> None:
    """Mark the subscripts that SQLGlot's parser changed to count from 0.

    Call this before a part of the tree is replaced.
    """
    if dialect not in _FROM_ONE:
        return
    for node in tree.find_all(exp.Bracket):
        kind = node.this.type
        is_list = kind is None or kind.this in (exp.DType.UNKNOWN, exp.DType.ARRAY)
        if not is_list or len(node.expressions) != 1:
            continue
        # The parser (30.30, `apply_index_offset`) changes integer literals. The changed expression
        # has no type.
        index = node.expressions[0].type  # An outer subscript gives types to what is inside.
        if index is None or index.this in exp.DataType.INTEGER_TYPES:
            node.meta[_FROM_ZERO_IN_TREE] = True


def rewrite_subscript(node: exp.Bracket, dialect: str) -> Replacement:
    """Rewrite `x[n]` to count from the dialect's first index.

    If no element is at `n`, the rewritten expression returns NULL or fails, as in the dialect.
    """
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        raise Unwritable("a slice of a list or text")
    (index,) = node.expressions
    if index.is_string:
        return None  # The key of a map, or the field of a struct.
    offset = node.args.get("offset")
    if offset is not None:
        return _bigquery_subscript(node, index, offset)
    if dialect in _NULL_OUTSIDE:
        return call("GET", node.this, index)
    if dialect not in _FROM_ONE:
        if dialect in _OTHERS_FROM_ZERO:
            return None
        raise Unwritable(f"a subscript of {dialect}")
    from_zero = node.meta.get(_FROM_ZERO_IN_TREE, False)
    if dialect == "postgres":
        return call("GET", node.this, index if from_zero else plus(index, -1))
    place = plus(index, 1) if from_zero else index
    number = literal_int(place)
    if number == 0 or (number is not None and number < 0 and dialect != "duckdb"):
        raise Unwritable(f"a subscript {number}")
    return call("TRY_ELEMENT_AT" if dialect == "duckdb" else "ELEMENT_AT", node.this, place)


def _bigquery_subscript(node: exp.Bracket, index: exp.Expr, offset: int) -> exp.Expr:
    if offset:
        index = plus(index, -1)
    if node.args.get("safe"):
        return call("GET", node.this, index)
    return exp.Bracket(this=node.this.copy(), expressions=[index.copy()])


def rewrite_series(node: exp.GenerateSeries, dialect: str) -> Replacement:
    """Rewrite GENERATE_SERIES as SEQUENCE, but with no values if the end is before the start.

    Raises:
        Unwritable: The series is a table, its step is computed or below 1, or it excludes its end
            and has a computed bound or another step than 1.
    """
    if dialect in ("trino", "presto", "athena"):
        return None  # They count down as Spark does.
    start, end, step = node.args["start"], node.args["end"], node.args.get("step")
    ends = literal_int(start), literal_int(end)
    by = 1 if step is None else literal_int(step)
    if by is None or by < 1 or isinstance(node.parent, exp.Table | exp.From | exp.Lateral):
        raise Unwritable("a series of numbers with a computed or negative step, or as a table")
    if node.args.get("is_end_exclusive"):
        if None in ends or by != 1:
            raise Unwritable(
                "a series of numbers that excludes its end, if a bound is computed or "
                "the step is over 1"
            )
        end = exp.Literal.number((ends[1] or 0) - 1)
        ends = ends[0], literal_int(end)
    numbers = call("SEQUENCE", start, end, *([] if step is None else [step]))
    if ends[0] is not None and ends[1] is not None and ends[0] <= ends[1]:
        return numbers
    kind = "ARRAY<BIGINT>"
    runs = exp.LTE(this=exp.paren(start.copy()), expression=exp.paren(end.copy()))
    ended = exp.GT(this=exp.paren(start.copy()), expression=exp.paren(end.copy()))
    empty = cast(exp.Array(expressions=[]), kind)
    counted = cast(numbers, kind)
    return exp.Case(ifs=[exp.If(this=runs, true=counted), exp.If(this=ended, true=empty)])


def check_date_series(node: exp.GenerateDateArray, dialect: str) -> Replacement:
    """Refuse BigQuery's series of months from a day that may be after the 28th.

    BigQuery computes each day from the previous day, Spark from the first day of the series.
    """
    step = node.args.get("step")
    unit = step.args.get("unit") if isinstance(step, exp.Interval) else None
    if dialect != "bigquery" or unit is None or unit.name.upper() not in _MONTHS:
        return None
    start = node.args["start"].unnest()
    start = start.this if isinstance(start, exp.Cast) else start
    day = literal_int(start.args.get("day")) if isinstance(start, exp.DateFromParts) else None
    if start.is_string and start.name[8:].isdigit():
        day = int(start.name[8:])
    cut = start.args["unit"].name.upper() if isinstance(start, exp.DateTrunc) else ""
    if (day is None or day > 28) and cut not in _MONTHS:
        raise Unwritable("a series of months from a day that may be after the 28th")
    return None


_MONTHS = ("MONTH", "QUARTER", "YEAR")


def rewrite_length(node: exp.ArraySize, dialect: str) -> Replacement:
    """Rewrite PostgreSQL's array_length of dimension 1, which is NULL for an empty list."""
    if dialect != "postgres":
        return None
    dimension = node.expression
    if dimension is not None and literal_int(dimension) != 1:
        raise Unwritable("array_length of another dimension than 1")
    return call("NULLIF", call("SIZE", node.this), exp.Literal.number(0))


def check_limit(node: exp.Limit | exp.Fetch, dialect: str) -> Replacement:
    """Refuse forms of LIMIT that SQLGlot drops or that have another meaning in Spark.

    Refused are WITH TIES, PERCENT, and LIMIT in an aggregate. LIMIT is also refused after an ORDER
    BY expression with the name of an alias, if the dialect prefers the input column there.
    """
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
        raise Unwritable("LIMIT or FETCH with PERCENT or WITH TIES")
    query = node.parent
    if not isinstance(query, exp.Query) or node.arg_key != "limit":
        raise Unwritable("LIMIT inside of an aggregate function")
    order = query.args.get("order")
    if order is not None and _sorts_by_alias(query, order, dialect):
        raise Unwritable("LIMIT after ORDER BY of an expression with an alias of the SELECT list")
    return None


_INPUT_IN_ORDER = frozenset({"postgres", "redshift", "tsql", "fabric"})
"""Dialects in which a name inside an ORDER BY expression is an input column, not an alias.

In DuckDB, such a name is an alias only if no input column has the same name.
"""


def _sorts_by_alias(query: exp.Query, order: exp.Order, dialect: str) -> bool:
    named = {
        one.alias.lower()
        for one in query.selects
        if isinstance(one, exp.Alias)
        and not (isinstance(one.this, exp.Column) and one.this.name.lower() == one.alias.lower())
    }
    if dialect == "duckdb" and isinstance(query, exp.Select):
        named = {name for name in named if reads_column(query, name)}
    elif dialect not in _INPUT_IN_ORDER:
        return False
    keys = (key.this if isinstance(key, exp.Ordered) else key for key in order.expressions)
    inside = (
        c for key in keys if not isinstance(key, exp.Column) for c in key.find_all(exp.Column)
    )
    return any(not c.table and c.name.lower() in named for c in inside)


def join_elements(node: exp.ArrayToString, dialect: str) -> Replacement:
    """Rewrite DuckDB's array_to_string, which is NULL for a list without values.

    A NULL separator, which DuckDB treats as a comma, is refused.
    """
    given = node.this.unnest()
    if dialect == "duckdb" and isinstance(node.expression, exp.Null):
        raise Unwritable("array_to_string with NULL as its separator")
    if dialect != "duckdb" or (
        isinstance(given, exp.Array)
        and any(isinstance(one, exp.Literal) for one in given.expressions)
    ):
        return None
    values = call("ARRAY_COMPACT", node.this)
    present = exp.GT(this=call("SIZE", values), expression=exp.Literal.number(0))
    return when(present, node.copy())
