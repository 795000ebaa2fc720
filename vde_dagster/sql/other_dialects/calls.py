"""Calls and types of other dialects that mean something else in Spark under SQLGlot's names."""

from __future__ import annotations

from sqlglot import exp

from vde_dagster.sql.other_dialects.values import spark_date_part, spark_value

_LOCAL_TIMES = frozenset({"duckdb", "postgres", "redshift"})
"""Dialects in which AT TIME ZONE goes one way from a local time and the other from an instant."""

_BOUNDARIES = frozenset({"duckdb", "redshift", "tsql", "fabric", "clickhouse"})
"""Dialects whose DATEDIFF always counts the ends of units; of others' SQLGlot says it."""
_UNITS = {
    "MS": "MILLISECOND",
    "MILLISECONDS": "MILLISECOND",
    "US": "MICROSECOND",
    "MICROSECONDS": "MICROSECOND",
    "ISOWEEK": "WEEK",
    "ISOYEAR": "",  # Spark has none.
}
_LONG = frozenset({"bigquery", "snowflake"})
"""Dialects whose names of integers all mean one type: 64 bits, or 38 digits."""
_NULLS_IN_JSON = frozenset({"duckdb", "bigquery"})
"""Dialects whose JSON of a struct has its NULLs, which Spark leaves out unless told."""
_SUNDAY_WEEKS = frozenset({"bigquery", "tsql", "fabric"})
_SPARK_UNITS = frozenset(
    {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"}
    | {"MILLISECOND", "MICROSECOND"}
)


def with_spark_calls(tree: exp.Expr, dialect: str) -> tuple[exp.Expr, str | None]:
    """Rewrite calls that Spark reads otherwise so that they keep their meaning.

    Args:
        tree: A query, statement or expression, which is changed.

    Returns:
        The tree, and None; or what it is in there that has no form in Spark.
    """
    if dialect in ("", "spark", "spark2", "databricks"):
        return tree, None
    asked = (exp.Date, exp.Timestamp, exp.CurrentDate, exp.AtTimeZone, exp.Anonymous, exp.DataType)
    others = (exp.DateDiff, exp.TsOrDsDiff, exp.Struct, exp.Cast, exp.JSONFormat)
    parts = (exp.Extract, exp.DayOfWeek, exp.DayOfWeekIso, exp.Is)
    values = (exp.Greatest, exp.Least, exp.Dayname, exp.Monthname, exp.TimeToStr, exp.Div)
    spans = (exp.DateTrunc, exp.TimestampTrunc, exp.DatetimeTrunc, exp.DatetimeDiff)
    bits = (exp.BitwiseXor, exp.BitwiseOr, exp.BitwiseAnd)
    local: set[int] = set()
    for node in reversed(
        list(tree.find_all(*asked, *others, *parts, *values, *spans, *bits))
    ):  # What is inside comes first.
        if isinstance(node, exp.DataType):
            short = (exp.DType.INT, exp.DType.SMALLINT, exp.DType.TINYINT)
            if dialect == "snowflake" and isinstance(node.parent, exp.TryCast):
                _widen(node)
            elif dialect in _LONG and node.this in short:
                node.set("this", exp.DType.BIGINT)
            continue
        if isinstance(node, exp.Struct):
            _name_fields(node)
            continue
        made, problem = _made(node, dialect, local)
        if problem is not None:
            return tree, problem
        if made is None:
            continue
        if node is tree:
            tree = made
        else:
            node.replace(made)
    return tree, None


def _made(node: exp.Expr, dialect: str, local: set[int]) -> tuple[exp.Expr | None, str | None]:
    """Return a call's replacement, None where it stays, or the reason why there is none."""
    zone = node.args.get("zone")
    if isinstance(node, exp.Date) and node.this is not None and not node.expressions:
        if zone is None:
            return exp.cast(node.this, "DATE"), None
        return exp.cast(_local_time(node.this, zone), "DATE"), None
    if isinstance(node, exp.Timestamp) and node.this is not None:
        if zone is None:
            return exp.cast(node.this, "TIMESTAMP", dialect="spark"), None
        return (_instant(node.this, zone), None) if dialect == "bigquery" else (None, None)
    if isinstance(node, exp.CurrentDate) and node.this is not None:
        return exp.cast(_local_time(exp.CurrentTimestamp(), node.this), "DATE"), None
    if isinstance(node, exp.AtTimeZone) and dialect in _LOCAL_TIMES:
        return _in_zone(node, local), None
    called = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    untold = dialect == "snowflake" and called in ("TO_TIMESTAMP", "TO_TIMESTAMP_NTZ")
    if untold and len(node.expressions) == 1:
        return exp.cast(node.expressions[0], "TIMESTAMP", dialect="spark"), None
    if isinstance(node, exp.Is):
        return _negated(node), None
    if isinstance(node, exp.DatetimeDiff):
        return _boundaries(node, dialect)
    if isinstance(node, exp.DateDiff | exp.TsOrDsDiff):
        counts = node.args.get("date_part_boundary") or dialect in _BOUNDARIES
        return _boundaries(node, dialect) if counts else (None, None)
    made_json = _made_json(node) if dialect in _NULLS_IN_JSON else None
    if made_json is not None:
        return _with_nulls(made_json), None
    made_value, problem = spark_value(node, dialect)
    if made_value is not None or problem is not None:
        return made_value, problem
    return spark_date_part(node, dialect)


def _widen(type_: exp.DataType) -> None:
    """Give Snowflake's names of integers the 38 digits that they have there.

    Only of TRY_CAST, which would be NULL without a word; a CAST of what is too large fails.
    """
    if type_.this in exp.DataType.INTEGER_TYPES:
        digits = [exp.DataTypeParam(this=exp.Literal.number(size)) for size in (38, 0)]
        type_.set("this", exp.DType.DECIMAL)
        type_.set("expressions", digits)


def _negated(node: exp.Is) -> exp.Expr | None:
    """Write PostgreSQL's IS NOT, which is a node of its own, as the NOT that others have."""
    if not node.args.get("negate"):
        return None
    made = exp.Not(this=exp.Is(this=node.this, expression=node.expression))
    parent = node.parent
    inside = isinstance(parent, exp.Unary | exp.Cast) or (
        isinstance(parent, exp.Binary) and not isinstance(parent, exp.Connector)
    )
    return exp.paren(made) if inside else made


def _made_json(node: exp.Expr) -> exp.Expr | None:
    """Return the value that a call writes as JSON; None where it is no such call."""
    value: exp.Expr | None = None
    if isinstance(node, exp.JSONFormat) and not node.args.get("options"):
        value = node.this
    elif isinstance(node, exp.Anonymous) and node.name.upper() == "TO_JSON":
        value = node.expressions[0] if len(node.expressions) == 1 else None
    elif isinstance(node, exp.Cast) and node.to.this == exp.DType.JSON:
        value = node.this if isinstance(node.this, exp.Struct) else None
    return value


def _with_nulls(value: exp.Expr) -> exp.Expr:
    words = [exp.Literal.string("ignoreNullFields"), exp.Literal.string("false")]
    options = exp.Anonymous(this="MAP", expressions=words)
    return exp.Anonymous(this="TO_JSON", expressions=[value, options])


def _name_fields(struct: exp.Struct) -> None:
    """Name fields that are columns, as both dialects would; Spark's reader does it too."""
    fields = struct.expressions
    if any(isinstance(field, exp.Column) and not field.is_star for field in fields):
        named = [
            exp.PropertyEQ(this=field.this.copy(), expression=field)
            if isinstance(field, exp.Column) and not field.is_star
            else field
            for field in fields
        ]
        struct.set("expressions", named)


def _local_time(instant: exp.Expr, zone: exp.Expr) -> exp.Expr:
    """Return the local time of a zone by FROM_UTC_TIMESTAMP, as sessions are in UTC."""
    value = exp.cast(instant, "TIMESTAMP", dialect="spark")
    return exp.Anonymous(this="FROM_UTC_TIMESTAMP", expressions=[value, zone])


def _instant(local_time: exp.Expr, zone: exp.Expr) -> exp.Expr:
    value = exp.cast(local_time, "TIMESTAMP", dialect="spark")
    return exp.Anonymous(this="TO_UTC_TIMESTAMP", expressions=[value, zone])


def _in_zone(node: exp.AtTimeZone, local: set[int]) -> exp.Expr | None:
    """Write AT TIME ZONE where the type tells which way it goes; None where nothing does."""
    value, zone = node.this.unnest(), node.args["zone"]
    cast_to = value.to.this if isinstance(value, exp.Cast) else None
    if id(value) in local or cast_to in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ):
        return _instant(value, zone)
    made = value.name.upper() if isinstance(value, exp.Anonymous) else ""
    zoned = (exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)
    if (
        cast_to in zoned
        or made in ("NOW", "TO_UTC_TIMESTAMP")
        or (isinstance(value, exp.CurrentTimestamp))
    ):
        shown = _local_time(value, zone)
        local.add(id(shown))
        return shown
    return None


def _boundaries(
    node: exp.DateDiff | exp.TsOrDsDiff | exp.DatetimeDiff, dialect: str
) -> tuple[exp.Expr | None, str | None]:
    """Count the ends of units between two times, where Spark's DATEDIFF counts whole units."""
    asked = node.args.get("unit")
    shown = "DAY" if asked is None else asked.name.upper()
    sunday = shown == "WEEK" and dialect in _SUNDAY_WEEKS
    if isinstance(asked, exp.WeekStart):
        sunday = shown == "SUNDAY"
        shown = "WEEK" if shown in ("SUNDAY", "MONDAY") else f"WEEK({shown})"
    unit = _UNITS.get(shown, shown.removesuffix("S") if len(shown) > 2 else shown)
    if unit not in _SPARK_UNITS:
        return None, f"a difference in {shown}"
    if unit == "DAY":
        days = [exp.cast(one, "DATE") for one in (node.this, node.expression)]
        return exp.Anonymous(this="DATEDIFF", expressions=days), None
    ends = []
    for one in (node.expression, node.this):
        if sunday:
            day = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("DAY"))
            one = exp.Add(this=exp.paren(one), expression=day)
        ends.append(exp.TimestampTrunc(this=one.copy(), unit=exp.var(unit)))
    return exp.TimestampDiff(this=ends[1], expression=ends[0], unit=exp.var(unit)), None
