"""Rewrites of functions of numbers, lists, aggregates and JSON with another meaning in Spark.

DuckDB and PostgreSQL were run; the rules of other dialects come from their documentation:
cloud.google.com/bigquery/docs/reference/standard-sql/mathematical_functions,
trino.io/docs/current/functions/math.html and docs.snowflake.com/en/sql-reference/functions/trunc.
"""

from __future__ import annotations

from sqlglot import exp

from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.building import Replacement, call, is_null, when
from vde_dagster.sql.other_dialects.texts import literal_int


def truncate_number(node: exp.Trunc, dialect: str) -> Replacement:
    """Rewrite `TRUNC(x, digits)` as CEIL if `x` is negative, else as FLOOR."""
    decimals = node.args.get("decimals")
    if decimals is None:
        return None
    if literal_int(decimals) is None:
        raise Unwritable("TRUNC whose number of decimals is computed")
    below = exp.LT(this=exp.paren(node.this.copy()), expression=exp.Literal.number(0))
    up, down = call("CEIL", node.this, decimals), call("FLOOR", node.this, decimals)
    return when(below, up, down)


def rewrite_isnan(node: exp.IsNan, dialect: str) -> Replacement:
    """Rewrite ISNAN to return NULL for NULL, where Spark returns false."""
    if isinstance(node.parent, exp.If) and node.arg_key == "false":
        return None
    return when(exp.Not(this=is_null(node.this)), call("ISNAN", node.this), exp.Null())


def rewrite_uuid(node: exp.Uuid, dialect: str) -> Replacement:
    return call("UPPER", node.copy()) if dialect in ("tsql", "fabric") else None


def remove_duplicates(node: exp.ArrayDistinct, dialect: str) -> Replacement:
    """Rewrite ARRAY_DISTINCT to drop NULL, as in DuckDB."""
    return call("ARRAY_COMPACT", node.copy()) if dialect == "duckdb" else None


def rewrite_arg_max(node: exp.ArgMax | exp.ArgMin, dialect: str) -> Replacement:
    """Rewrite DuckDB's arg_max and arg_min, which skip rows if the returned value is NULL."""
    if dialect != "duckdb" or node.args.get("count") is not None:
        return None
    made = node.copy()
    made.set("expression", when(exp.Not(this=is_null(node.this)), node.expression.copy()))
    return made


_ALL_VALUES = frozenset({"duckdb", "postgres", "trino", "athena", "bigquery"})
"""Dialects whose ARRAY_AGG keeps NULL among its values."""


def collect_values(node: exp.ArrayAgg, dialect: str) -> Replacement:
    """Rewrite ARRAY_AGG for dialects that keep NULLs among its values.

    Raises Unwritable if it has DISTINCT, ORDER BY, FILTER or OVER.
    """
    if dialect not in _ALL_VALUES:
        return None
    if isinstance(node.parent, exp.IgnoreNulls):
        return None
    if isinstance(node.this, exp.Order | exp.Distinct | exp.Filter):
        raise Unwritable("ARRAY_AGG with DISTINCT or ORDER BY")
    if isinstance(node.parent, exp.Filter | exp.Window | exp.WithinGroup | exp.Order):
        raise Unwritable("ARRAY_AGG with FILTER or OVER")
    named = exp.PropertyEQ(this=exp.to_identifier("v"), expression=node.this.copy())
    # Unlike Spark's function, this keeps NULLs.
    row = exp.Struct(expressions=[named])
    value = exp.column("v", table="e")
    each = exp.Lambda(this=value, expressions=[exp.to_identifier("e")])
    values = call("TRANSFORM", call("COLLECT_LIST", row), each)
    # Without input rows, the result is NULL.
    some = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
    return when(some, values)


def collect_without_nulls(node: exp.IgnoreNulls, dialect: str) -> Replacement:
    """Rewrite BigQuery's `ARRAY_AGG(x IGNORE NULLS)`, which is NULL if no value remains.

    Raises Unwritable if the values have an order, are distinct, or belong to a window.
    """
    inner = node.this
    if not isinstance(inner, exp.ArrayAgg) or dialect != "bigquery":
        return None
    if isinstance(inner.this, exp.Order | exp.Distinct) or isinstance(
        node.parent, exp.Window | exp.Order | exp.Limit
    ):
        raise Unwritable("ARRAY_AGG with DISTINCT, ORDER BY or OVER")
    values = call("COLLECT_LIST", inner.this)
    some = exp.GT(this=exp.Count(this=inner.this.copy()), expression=exp.Literal.number(0))
    return when(some, values)


def refuse_array_of_rows(node: exp.Array, dialect: str) -> Replacement:
    if any(isinstance(one, exp.Query) for one in node.expressions):
        raise Unwritable("ARRAY(SELECT …)")
    return None


def refuse_ordinality(node: exp.Unnest, dialect: str) -> Replacement:
    """Raise Unwritable for WITH ORDINALITY, because SQLGlot would number the rows from 0."""
    if node.args.get("offset") and dialect not in ("bigquery",):
        raise Unwritable("UNNEST WITH ORDINALITY")
    return None


def rewrite_digest(node: exp.SHA2Digest | exp.SHA1Digest, dialect: str) -> Replacement:
    """Rewrite a hash as bytes; Spark returns hexadecimal digits."""
    if isinstance(node, exp.SHA1Digest):
        return call("UNHEX", exp.SHA(this=node.this.copy()))
    bits = node.args.get("length") or exp.Literal.number(256)
    return call("UNHEX", call("SHA2", node.this, bits))


def count_if(node: exp.CountIf, dialect: str) -> Replacement:
    """Rewrite DuckDB's count_if, which is NULL if the condition is NULL in all rows."""
    if dialect != "duckdb" or isinstance(node.this, exp.Distinct):
        return None
    return exp.Sum(this=exp.cast(node.this.copy(), "INT"))


def rewrite_log(node: exp.Log, dialect: str) -> Replacement:
    """Rewrite LOG of one number with base 10, as in DuckDB, PostgreSQL and Redshift."""
    if dialect not in ("duckdb", "postgres", "redshift") or node.expression is not None:
        return None
    return exp.Log(this=exp.Literal.number(10), expression=node.this.copy())


def contains_value(node: exp.ArrayContains, dialect: str) -> Replacement:
    """Rewrite DuckDB's ARRAY_CONTAINS, which ignores NULLs; Spark may return NULL for them."""
    if dialect != "duckdb":
        return None
    given = (node.this, node.expression)
    present = exp.and_(*(exp.Not(this=is_null(one)) for one in given))
    return when(present, call("COALESCE", node, exp.false()))


def concatenate_lists(node: exp.ArrayConcat, dialect: str) -> Replacement:
    """Rewrite DuckDB's ARRAY_CONCAT, which treats NULL as an empty list."""
    given = [node.this, *node.expressions]
    lists = [one for one in given if not isinstance(one.unnest(), exp.Null)]
    if dialect != "duckdb" or node.args.get("null_propagation") or not lists:
        return None
    if all(isinstance(one.unnest(), exp.Array) for one in lists):
        return lists[0].copy() if len(lists) == 1 else call("CONCAT", *lists)
    return call("CONCAT", *(call("COALESCE", one, call("ARRAY")) for one in lists))


def rewrite_list_length(node: exp.Length, dialect: str) -> Replacement:
    lists = exp.Array | exp.ArrayDistinct | exp.ArrayConcat | exp.Split | exp.ArrayAgg
    return call("SIZE", node.this) if isinstance(node.this.unnest(), lists) else None


def refuse_stuff(node: exp.Stuff, dialect: str) -> Replacement:
    raise Unwritable("INSERT or STUFF")


_PASS_OVER_NULL = (
    *(exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg, exp.Stddev, exp.StddevSamp, exp.StddevPop),
    *(exp.Variance, exp.VariancePop, exp.LogicalAnd, exp.LogicalOr),
)


def filter_window(node: exp.Window, dialect: str) -> Replacement:
    """Rewrite `f(a) FILTER (WHERE b) OVER …` as `f(CASE WHEN b THEN a END) OVER …` for Spark.

    Raises Unwritable if the aggregate has DISTINCT or several arguments, or is not known to skip
    NULL.
    """
    inner = node.this
    if not isinstance(inner, exp.Filter):
        return None
    aggregate, condition = inner.this, inner.expression.this
    value = aggregate.this
    if not isinstance(aggregate, _PASS_OVER_NULL) or isinstance(value, exp.Distinct):
        raise Unwritable(f"FILTER of {aggregate.sql(dialect)} before OVER")
    if value is None or isinstance(value, exp.Star):
        value = exp.Literal.number(1)
    if aggregate.args.get("expressions"):
        raise Unwritable(f"FILTER of {aggregate.sql(dialect)} before OVER")
    made = node.copy()
    kept = aggregate.copy()
    kept.set("this", when(condition.copy(), value.copy()))
    made.set("this", kept)
    return made


_OF_FRAMES = (exp.FirstValue, exp.LastValue, exp.NthValue)


def set_whole_frame(node: exp.Window, dialect: str) -> Replacement:
    """Add Snowflake's default frame to FIRST_VALUE, LAST_VALUE and NTH_VALUE without a frame.

    The default frame is the whole partition.
    """
    inner = node.this
    if isinstance(inner, exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    if dialect != "snowflake" or not isinstance(inner, _OF_FRAMES) or node.args.get("spec"):
        return None
    if node.args.get("alias") is not None:
        raise Unwritable("a named window without a frame")
    made = node.copy()
    ends = {"start": "UNBOUNDED", "start_side": "PRECEDING", "end": "UNBOUNDED"}
    made.set("spec", exp.WindowSpec(kind="ROWS", end_side="FOLLOWING", **ends))
    return made


_JSON = (exp.DType.JSON, exp.DType.JSONB)


def rewrite_json_path(node: exp.Expr, dialect: str) -> Replacement:
    """Rewrite the operators `->` and `->>` on a JSON text as one GET_JSON_OBJECT with a path.

    Raises Unwritable if the result is JSON, not text, or the path has more than keys and numbers.
    """
    if dialect not in ("duckdb", "postgres"):
        return None
    if isinstance(node, exp.JSONExtract | exp.JSONBExtract):
        if isinstance(node.parent, exp.JSONExtract | exp.JSONExtractScalar) and (
            node.arg_key == "this"
        ):
            return None  # The outer one reads the whole path.
        raise Unwritable("a value of the type JSON by `->`")
    value: exp.Expr = node
    parts: list[exp.Expr] = []
    while isinstance(value, exp.JSONExtract | exp.JSONExtractScalar):
        path = value.expression
        if not isinstance(path, exp.JSONPath):
            raise Unwritable("a path of JSON that is computed")
        parts[:0] = path.expressions[1:]
        value = value.this.unnest()
    if not all(isinstance(part, exp.JSONPathKey | exp.JSONPathSubscript) for part in parts):
        raise Unwritable("a path of JSON with more than keys and numbers")
    if isinstance(value, exp.Cast) and value.to.this in _JSON:
        value = value.this
    path = exp.JSONPath(expressions=[exp.JSONPathRoot(), *(part.copy() for part in parts)])
    return exp.JSONExtractScalar(this=value.copy(), expression=path)


def rewrite_json_cast(node: exp.Cast, dialect: str) -> Replacement:
    """Drop a cast of a text literal to JSON. Raise Unwritable for JSONB outside of JSON paths."""
    if node.to.this not in _JSON or dialect not in ("duckdb", "postgres"):
        return None
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, exp.JSONExtract | exp.JSONExtractScalar):
        return None
    if node.to.this == exp.DType.JSONB:
        raise Unwritable("the type JSONB", "JSONB")
    return node.this.copy() if node.this.is_string else None
