"""Rewrites of calls and operators that would have another meaning in Spark.

Sources: modern-sql.com/caniuse/greatest-least, PostgreSQL's manual 8.1.2 (rounding of numbers), the
dialects' tables of date parts, and DuckDB (its cases in `fixtures/other_dialects.yaml` were run).
In Spark, DAYOFWEEK is 1 on Sundays, WEEKDAY is 0 on Mondays, and weeks are ISO 8601 weeks.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from vde_dagster.sql.other_dialects import (
    DATE_SERIES,
    SPARKS,
    Unwritable,
    comparisons,
    dates,
    lists,
    numbers,
    percentiles,
    regexes,
    texts,
    values,
)
from vde_dagster.sql.other_dialects.building import (
    MOVED,
    Replacement,
    call,
    cast,
    cast_interval_sum,
    null_if_any_null,
)


def rewrite_calls(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Rewrite a tree in place by the rules of all modules, and return the new root."""
    if dialect in SPARKS:
        return tree
    lists.note_subscripts(tree, dialect)
    kinds = [kind for kinds, _ in _RULES for kind in kinds]
    for node in reversed(list(tree.find_all(*kinds))):  # What is inside comes first.
        tried = (rule(node, dialect) for kinds, rule in _RULES if isinstance(node, kinds))
        try:
            made = next((one for one in tried if one is not None), None)
        except Unwritable as problem:
            raise problem.at_node(node) from None
        if made is None:
            continue
        if node is tree:
            tree = made
        else:
            node.replace(made)
    return tree


def _name_fields(node: exp.Struct | exp.StarMap, dialect: str) -> None:
    """Name a struct's fields after their columns. Refuse Snowflake's structs, which omit NULLs."""
    if dialect == "snowflake":
        raise Unwritable("OBJECT_CONSTRUCT")
    named = [
        exp.PropertyEQ(this=field.this.copy(), expression=field)
        if isinstance(field, exp.Column) and not field.is_star
        else field
        for field in node.expressions
    ]
    if named != node.expressions:
        node.set("expressions", named)


def _to_local_time(instant: exp.Expr, zone: exp.Expr) -> exp.Expr:
    """Convert an instant to the local time in a zone. Spark sessions use UTC."""
    return call("FROM_UTC_TIMESTAMP", cast(instant, "TIMESTAMP"), zone)


def _to_instant(local_time: exp.Expr, zone: exp.Expr) -> exp.Expr:
    return call("TO_UTC_TIMESTAMP", cast(local_time, "TIMESTAMP"), zone)


def _rewrite_date(node: exp.Date, dialect: str) -> Replacement:
    if node.this is None or node.expressions:
        return None
    zone = node.args.get("zone")
    return exp.cast(node.this if zone is None else _to_local_time(node.this, zone), "DATE")


def _rewrite_timestamp(node: exp.Timestamp, dialect: str) -> Replacement:
    if node.this is None:
        return None
    zone = node.args.get("zone")
    if zone is None:
        return cast(node.this, "TIMESTAMP")
    return _to_instant(node.this, zone) if dialect == "bigquery" else None


def _rewrite_current_date(node: exp.CurrentDate, dialect: str) -> Replacement:
    if node.this is None:
        return None
    return exp.cast(_to_local_time(exp.CurrentTimestamp(), node.this), "DATE")


_HAVE_LOCAL_TIMES = frozenset({"duckdb", "postgres", "redshift"})
"""Dialects in which AT TIME ZONE converts local times to instants, and instants to local times."""
_LOCAL, _EITHER = "vde_local", "vde_either"
_UTC = frozenset({"utc", "etc/utc", "gmt", "z"})


def _rewrite_at_time_zone(node: exp.AtTimeZone, dialect: str) -> Replacement:
    """Rewrite AT TIME ZONE if the direction of the conversion is certain."""
    if dialect not in _HAVE_LOCAL_TIMES:
        return None
    value, zone = node.this.unnest(), node.args["zone"]
    base = value
    while base.meta.get(MOVED) and not base.meta.get(_EITHER):
        base = base.this.unnest().this.unnest()  # A time plus an interval has the time's type.
    if base.meta.get(_EITHER):
        raise Unwritable("AT TIME ZONE twice, of a value of an unknown type")
    cast_to = base.to.this if isinstance(base, exp.Cast) else None
    if base.meta.get(_LOCAL) or cast_to in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ):
        return _to_instant(value, zone)
    made = base.name.upper() if isinstance(base, exp.Anonymous) else ""
    zoned = cast_to in (exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)
    if zoned or made in ("NOW", "TO_UTC_TIMESTAMP") or isinstance(base, exp.CurrentTimestamp):
        local = _to_local_time(value, zone)
        local.meta[_LOCAL] = True
        return local
    if zone.is_string and zone.name.lower() in _UTC:  # Sessions are in UTC.
        same = cast(value, "TIMESTAMP")
        same.meta[_EITHER] = True
        return same
    raise Unwritable("AT TIME ZONE of a value of an unknown type")


def _add_interval(node: exp.Add | exp.Sub, dialect: str) -> Replacement:
    """Rewrite a date plus an interval as a timestamp, because Spark would return a date."""
    cast_to = node.parent.to.this if isinstance(node.parent, exp.Cast) else None
    if dialect not in _HAVE_LOCAL_TIMES or cast_to in (exp.DType.DATE, exp.DType.TIMESTAMP):
        return None
    if isinstance(node.parent, exp.Add | exp.Sub):
        return None
    sides = [one.unnest() for one in node.flatten()] if isinstance(node, exp.Add) else []
    sides = sides or [node.this.unnest(), node.expression.unnest()]
    lengths = [isinstance(one, exp.Interval) or _is_product_with_interval(one) for one in sides]
    if not any(lengths) or all(lengths):
        return None
    return cast_interval_sum(node.copy())


def _is_product_with_interval(value: exp.Expr) -> bool:
    inner = [value.this, value.expression] if isinstance(value, exp.Mul) else []
    return any(isinstance(one.unnest(), exp.Interval) for one in inner)


def _rewrite_is_not(node: exp.Is, dialect: str) -> Replacement:
    """Rewrite `x IS NOT y` as `NOT x IS y`, because SQLGlot can only write the latter for Spark."""
    if not node.args.get("negate"):
        return None
    made = exp.Not(this=exp.Is(this=node.this, expression=node.expression))
    parent = node.parent
    inside = isinstance(parent, exp.Unary | exp.Cast) or (
        isinstance(parent, exp.Binary) and not isinstance(parent, exp.Connector)
    )
    return exp.paren(made) if inside else made


_COUNT_BOUNDARIES = frozenset({"duckdb", "redshift", "tsql", "fabric", "clickhouse"})
"""Dialects in which every DATEDIFF counts boundaries of units.

In other dialects, SQLGlot marks the calls that count boundaries (`date_part_boundary`).
"""
_SUNDAY_WEEKS = frozenset({"bigquery", "tsql", "fabric", "mysql"})
"""Dialects whose weeks begin on Sunday by default."""
_UNITS = {
    "MS": "MILLISECOND",
    "MILLISECONDS": "MILLISECOND",
    "US": "MICROSECOND",
    "MICROSECONDS": "MICROSECOND",
    "ISOWEEK": "WEEK",
    "ISOYEAR": "",  # Spark has none.
}
_SPARK_UNITS = frozenset(
    {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"}
    | {"MILLISECOND", "MICROSECOND"}
)


def _count_boundaries(
    node: exp.DateDiff | exp.TsOrDsDiff | exp.DatetimeDiff, dialect: str
) -> Replacement:
    """Rewrite a DATEDIFF that counts unit boundaries, because Spark's counts whole units."""
    counts = isinstance(node, exp.DatetimeDiff) or dialect in _COUNT_BOUNDARIES
    if not (counts or node.args.get("date_part_boundary")):
        return None
    asked = node.args.get("unit")
    shown = "DAY" if asked is None else dates.full_unit(asked.name.upper(), dialect)
    sunday = shown == "WEEK" and dialect in _SUNDAY_WEEKS
    if isinstance(asked, exp.WeekStart):
        sunday = shown == "SUNDAY"
        shown = "WEEK" if shown in ("SUNDAY", "MONDAY") else f"WEEK({shown})"
    unit = _UNITS.get(shown, shown.removesuffix("S") if len(shown) > 2 else shown)
    if unit not in _SPARK_UNITS:
        raise Unwritable(f"a difference in {shown}")
    if unit == "WEEK" and dialect == "duckdb":  # It counts whole weeks of days.
        days = call("DATEDIFF", cast(node.this, "DATE"), cast(node.expression, "DATE"))
        return exp.paren(exp.IntDiv(this=days, expression=exp.Literal.number(7)))
    if unit == "DAY":
        return call("DATEDIFF", exp.cast(node.this, "DATE"), exp.cast(node.expression, "DATE"))
    ends = []
    for one in (node.expression, node.this):
        if sunday:
            day = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("DAY"))
            one = exp.Add(this=exp.paren(one), expression=day)
        ends.append(exp.TimestampTrunc(this=one.copy(), unit=exp.var(unit)))
    return exp.TimestampDiff(this=ends[1], expression=ends[0], unit=exp.var(unit))


_NULLS_IN_JSON = frozenset({"duckdb", "bigquery"})
"""Dialects whose JSON of a struct contains NULLs, which Spark omits by default."""


def _keep_nulls_in_json(node: exp.Expr, dialect: str) -> Replacement:
    """Rewrite TO_JSON so that it keeps fields that are NULL."""
    value: exp.Expr | None = None
    if dialect not in _NULLS_IN_JSON:
        return None
    if isinstance(node, exp.JSONFormat):
        value = None if node.args.get("options") else node.this
    elif isinstance(node, exp.Anonymous) and node.name.upper() == "TO_JSON":
        value = node.expressions[0] if len(node.expressions) == 1 else None
    elif isinstance(node, exp.Cast) and node.to.this == exp.DType.JSON:
        value = node.this if isinstance(node.this, exp.Struct) else None
    if value is None:
        return None
    words = (exp.Literal.string("ignoreNullFields"), exp.Literal.string("false"))
    return call("TO_JSON", value, call("MAP", *words))


def _keep_null(node: exp.Greatest | exp.Least, dialect: str) -> Replacement:
    """Rewrite GREATEST and LEAST to return NULL if an argument is NULL, which Spark ignores."""
    given = [node.this, *node.expressions]
    if node.args.get("ignore_nulls") is not False or len(given) < 2:
        return None
    name = "GREATEST" if isinstance(node, exp.Greatest) else "LEAST"
    return null_if_any_null(given, call(name, *given))


def _rewrite_name(node: exp.Dayname | exp.Monthname, dialect: str) -> Replacement:
    if dialect not in ("duckdb", "mysql") or node.args.get("abbreviated"):
        return None
    letters = exp.Literal.string("EEEE" if isinstance(node, exp.Dayname) else "MMMM")
    return call("DATE_FORMAT", node.this.copy(), letters)


def _swap_format(node: exp.TimeToStr, dialect: str) -> Replacement:
    """Swap the arguments of `strftime('%Y', day)`, because DuckDB allows both orders."""
    form, value = node.this, node.args["format"]
    if dialect != "duckdb" or not form.is_string or value.is_string:
        return None
    return exp.TimeToStr(this=value.copy(), format=form.copy())


def _add_brackets(node: exp.Binary, dialect: str) -> Replacement:
    parent = node.parent
    around = isinstance(parent, exp.Binary | exp.Neg | exp.Not)
    return exp.paren(node.copy()) if around and type(parent) is not type(node) else None


def _truncate_to_sunday(node: exp.Expr, dialect: str) -> Replacement:
    """Rewrite a truncation to weeks that begin on Sunday; Spark's weeks begin on Monday."""
    unit = node.args.get("unit")
    if unit is None:
        return None
    told = unit.name.upper() if isinstance(unit, exp.WeekStart) else ""
    if told not in ("", "MONDAY", "SUNDAY"):
        raise Unwritable(f"weeks that begin on {told.capitalize()}")
    if told != "SUNDAY" and not (dialect in _SUNDAY_WEEKS and unit.name.upper() == "WEEK"):
        return None
    if not isinstance(node, exp.DateTrunc) and (dialect != "bigquery" or node.args.get("zone")):
        raise Unwritable("weeks that begin on Sunday")
    later = call("DATE_ADD", node.this.copy(), exp.Literal.number(1))
    monday = call("TRUNC", later, exp.Literal.string("WEEK"))
    sunday = call("DATE_ADD", monday, exp.Literal.number(-1))
    return sunday if isinstance(node, exp.DateTrunc) else cast(sunday, "TIMESTAMP")


_FROM_ZERO = frozenset({"duckdb", "postgres", "redshift", "snowflake"})
"""Dialects in which Sunday is day 0."""
_ISO = frozenset({"trino", "presto", "athena"})
"""Dialects in which Monday is day 1 and Sunday day 7."""
_DAYS = frozenset({"DOW", "DAYOFWEEK", "DAY_OF_WEEK", "DW", "WEEKDAY"})
_ISO_DAYS = frozenset({"ISODOW", "DAYOFWEEKISO", "DAYOFWEEK_ISO", "DOW_ISO"})
_NAMES = {
    **dict.fromkeys(("ISOWEEK", "WEEKISO", "WEEK_ISO"), "WEEK"),
    **dict.fromkeys(("ISOYEAR", "YEAROFWEEKISO"), "YEAROFWEEK"),
}


def _rewrite_by_name(node: exp.Anonymous, dialect: str) -> Replacement:
    given, name = node.expressions, node.name.upper()
    one = given[0] if len(given) == 1 else None
    if name == DATE_SERIES:
        return dates.write_date_series(*given)
    if one is not None and dialect == "snowflake" and name in ("TO_TIMESTAMP", "TO_TIMESTAMP_NTZ"):
        return dates.parse_time(one, "TIMESTAMP")
    if one is not None and dialect == "duckdb" and name == "ARBITRARY":
        return call("FIRST", one)
    if dialect == "duckdb" and name == "PRINTF":
        return texts.rewrite_printf(node)
    if one is not None and dialect == "duckdb" and name == "WEEKDAY":
        return _day_from_sunday(one)
    if one is not None and dialect == "duckdb" and name in ("MILLISECOND", "MICROSECOND"):
        return dates.extract_part(name, one, dialect)
    dated = dialect == "duckdb" and name in ("DATE_PART", "DATEPART") and len(given) == 2
    return (
        _extract_part(given[0].name.upper(), given[1], dialect)
        if dated and given[0].is_string
        else None
    )


def _rewrite_extract(node: exp.Extract, dialect: str) -> Replacement:
    if not (isinstance(node.this, exp.Var | exp.Identifier | exp.Column) or node.this.is_string):
        return None
    return _extract_part(node.name.upper(), node.expression, dialect)


def _extract_part(unit: str, value: exp.Expr, dialect: str) -> exp.Expr:
    """Rewrite EXTRACT of a part of a date, with the dialect's numbers for days and weeks."""
    if unit in _ISO_DAYS or (unit in _DAYS and dialect in _ISO):
        return _day_from_monday(value)
    if unit in _DAYS:
        zero = dialect in _FROM_ZERO
        return _day_from_sunday(value) if zero else call("DAYOFWEEK", value.copy())
    if unit == "EPOCH":
        return _to_seconds(value)
    if unit == "WEEK" and dialect in _SUNDAY_WEEKS:
        raise Unwritable("weeks that begin on Sunday")
    if unit == "DATE":
        return exp.cast(value, "DATE")
    return dates.extract_part(_NAMES.get(unit, unit), value, dialect)


def _day_from_sunday(value: exp.Expr) -> exp.Expr:
    day = call("DAYOFWEEK", value.copy())
    return exp.paren(exp.Sub(this=day, expression=exp.Literal.number(1)))


def _day_from_monday(value: exp.Expr) -> exp.Expr:
    day = call("WEEKDAY", value.copy())
    return exp.paren(exp.Add(this=day, expression=exp.Literal.number(1)))


def _rewrite_epoch(node: exp.TimeToUnix, dialect: str) -> Replacement:
    return _to_seconds(node.this) if dialect in ("duckdb", "trino", "athena") else None


def _to_seconds(value: exp.Expr) -> exp.Expr:
    """Convert a time to seconds since 1970, or a time difference to seconds, with fractions."""
    inner = value.unnest()
    ends = [value]
    if isinstance(inner, exp.Sub) and not isinstance(inner.expression, exp.Interval):
        ends = [inner.this, inner.expression]
    counted: list[exp.Expr] = [call("UNIX_MICROS", cast(one, "TIMESTAMP").copy()) for one in ends]
    if len(counted) > 1:
        counted = [exp.paren(exp.Sub(this=counted[0], expression=counted[1]))]
    return exp.paren(
        exp.Div(this=counted[0], expression=exp.Literal.number("1e6"), typed=False, safe=True)
    )


_RULES: list[tuple[tuple[type[exp.Expr], ...], Callable[..., Replacement]]] = [
    ((exp.DataType,), numbers.set_precision),
    ((exp.WithinGroup, exp.PercentileCont), percentiles.rewrite_percentile),
    ((exp.Struct, exp.StarMap), _name_fields),
    ((exp.Bracket,), lists.rewrite_subscript),
    ((exp.GenerateSeries,), lists.rewrite_series),
    ((exp.GenerateDateArray,), lists.check_date_series),
    ((exp.ArraySize,), lists.rewrite_length),
    ((exp.ArrayToString,), lists.join_elements),
    ((exp.Limit, exp.Fetch), lists.check_limit),
    ((exp.Date,), _rewrite_date),
    ((exp.Timestamp,), _rewrite_timestamp),
    ((exp.CurrentDate,), _rewrite_current_date),
    ((exp.AtTimeZone,), _rewrite_at_time_zone),
    ((exp.Sub,), dates.subtract_dates),
    ((exp.DateAdd, exp.DateSub), dates.add_interval),
    ((exp.DateAdd, exp.DateSub, exp.DatetimeAdd, exp.DatetimeSub), dates.add_to_date),
    ((exp.AddMonths,), dates.add_months),
    ((exp.DateAdd, exp.TsOrDsAdd, exp.TimestampAdd), dates.add_units),
    ((exp.Week,), dates.rewrite_week),
    ((exp.CurrentDatetime,), dates.rewrite_current_datetime),
    ((exp.Cast,), dates.round_time),
    ((exp.Add,), texts.concatenate_by_plus),
    ((exp.Add, exp.Sub), _add_interval),
    ((exp.Is,), _rewrite_is_not),
    ((exp.DatetimeDiff, exp.DateDiff, exp.TsOrDsDiff), _count_boundaries),
    ((exp.JSONFormat, exp.Anonymous, exp.Cast), _keep_nulls_in_json),
    ((exp.Anonymous,), _rewrite_by_name),
    ((exp.Greatest, exp.Least), _keep_null),
    ((exp.Dayname, exp.Monthname), _rewrite_name),
    ((exp.TimeToStr,), _swap_format),
    ((exp.TimeToStr,), dates.format_time),
    (
        (exp.StrToTime, exp.StrToDate, exp.TsOrDsToDate, exp.StrToUnix, exp.ParseDatetime),
        dates.check_format,
    ),
    ((exp.TryCast,), numbers.try_number),
    ((exp.TsOrDsToDate,), dates.rewrite_to_date),
    (numbers.BITS, numbers.refuse_mixed_bits),
    ((exp.BitwiseRightShift,), numbers.shift_right),
    ((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), comparisons.find_any_of_list),
    ((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), comparisons.compare_fields),
    ((exp.Between,), comparisons.refuse_rows_between),
    ((exp.In,), comparisons.find_row_in_list),
    ((exp.In,), comparisons.find_value_in_query),
    ((exp.Sign,), numbers.rewrite_sign),
    ((exp.BitwiseXor, exp.BitwiseOr, exp.BitwiseAnd), _add_brackets),
    ((exp.Cast,), values.rewrite_json_cast),
    ((exp.Cast,), numbers.round_to_integer),
    ((exp.Div,), numbers.divide_as_floats),
    ((exp.Div,), numbers.divide_as_integers),
    ((exp.DateTrunc, exp.TimestampTrunc, exp.DatetimeTrunc), _truncate_to_sunday),
    ((exp.DayOfWeekIso,), lambda node, dialect: _day_from_monday(node.this)),
    (
        (exp.DayOfWeek,),
        lambda node, dialect: _day_from_sunday(node.this) if dialect in _FROM_ZERO else None,
    ),
    ((exp.DateTrunc, exp.TimestampTrunc, exp.DatetimeTrunc), dates.truncate_time),
    ((exp.Extract,), _rewrite_extract),
    ((exp.RegexpReplace,), regexes.rewrite_replace),
    ((exp.RegexpLike, exp.RegexpILike), regexes.rewrite_match),
    ((exp.SimilarTo,), regexes.rewrite_similar),
    ((exp.RegexpExtract, exp.RegexpExtractAll), regexes.rewrite_extract),
    ((exp.RegexpFullMatch,), regexes.rewrite_full_match),
    ((exp.Substring,), texts.rewrite_substring),
    ((exp.Left, exp.Right), texts.rewrite_left_right),
    ((exp.SplitPart,), texts.split_part),
    ((exp.Trim,), texts.trim_whitespace),
    ((exp.Chr,), texts.rewrite_chr),
    ((exp.Split,), texts.check_separator),
    ((exp.StrPosition,), texts.check_position),
    ((exp.Initcap,), texts.rewrite_initcap),
    ((exp.Format,), texts.rewrite_format),
    ((exp.Trunc,), values.truncate_number),
    ((exp.Uuid,), values.rewrite_uuid),
    ((exp.IsNan,), values.rewrite_isnan),
    ((exp.ArgMax, exp.ArgMin), values.rewrite_arg_max),
    ((exp.IgnoreNulls,), values.collect_without_nulls),
    ((exp.ArrayAgg,), values.collect_values),
    ((exp.Array,), values.refuse_array_of_rows),
    ((exp.Unnest,), values.refuse_ordinality),
    ((exp.SHA2Digest, exp.SHA1Digest), values.rewrite_digest),
    ((exp.CountIf,), values.count_if),
    ((exp.Log,), values.rewrite_log),
    ((exp.TimeToUnix,), _rewrite_epoch),
    ((exp.ArrayContains,), values.contains_value),
    ((exp.ArrayDistinct,), values.remove_duplicates),
    ((exp.ArrayConcat,), values.concatenate_lists),
    ((exp.Length,), values.rewrite_list_length),
    ((exp.Length,), texts.rewrite_length),
    ((exp.Coalesce,), texts.check_isnull),
    ((exp.Concat,), texts.concatenate),
    ((exp.Like, exp.ILike), texts.escape_pattern),
    ((exp.GroupConcat,), texts.rewrite_listagg),
    ((exp.Stuff,), values.refuse_stuff),
    ((exp.Window,), values.filter_window),
    ((exp.Window,), values.set_whole_frame),
    ((exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract), values.rewrite_json_path),
]
