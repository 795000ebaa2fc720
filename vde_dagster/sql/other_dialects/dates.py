"""Rewrites of functions of dates and times: parts, units, differences and formats.

Unknown units are refused, because Spark's TRUNC returns NULL for them. Formats are translated
letter by letter; a letter without an equivalent in Spark is refused.
"""

from __future__ import annotations

import re

from sqlglot import exp

from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.building import (
    Replacement,
    call,
    cast,
    cast_interval_sum,
    fill_template,
)
from vde_dagster.sql.other_dialects.texts import literal_int


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split())


_DATE_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK"})
_TIME_UNITS = _DATE_UNITS | {"DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"}
_OTHER_NAMES = _pairs(
    "YYYY=YEAR YY=YEAR YR=YEAR Y=YEAR Q=QUARTER QTR=QUARTER MM=MONTH MON=MONTH W=WEEK "
    "WK=WEEK D=DAY DD=DAY H=HOUR HH=HOUR MI=MINUTE MIN=MINUTE S=SECOND SEC=SECOND "
    "MS=MILLISECOND US=MICROSECOND ISOWEEK=WEEK WEEK(MONDAY)=WEEK"
)


def truncate_time(
    node: exp.DateTrunc | exp.TimestampTrunc | exp.DatetimeTrunc, dialect: str
) -> Replacement:
    """Rewrite the unit of DATE_TRUNC and similar functions. Refuse units that Spark lacks."""
    asked = node.args.get("unit")
    zone = node.args.get("zone")
    if zone is not None:
        return _truncate_in_zone(node, zone, dialect)
    if isinstance(node, exp.DatetimeTrunc):
        plain_cut = exp.TimestampTrunc(this=node.this.copy(), unit=asked)
        return truncate_time(plain_cut, dialect) or plain_cut
    if asked is None or isinstance(asked, exp.WeekStart):
        return None
    if not (asked.is_string or isinstance(asked, exp.Var)):
        raise Unwritable("a unit of time that is computed")
    shown = asked.name.upper()
    plain = shown.removesuffix("S") if len(shown) > 3 else shown
    unit = _OTHER_NAMES.get(plain, plain)
    if shown == "ISOYEAR":
        year = exp.Extract(this=exp.var("YEAROFWEEK"), expression=node.this.copy())
        fourth = call("MAKE_DATE", year, exp.Literal.number(1), exp.Literal.number(4))
        monday = call("TRUNC", fourth, exp.Literal.string("WEEK"))
        return monday if isinstance(node, exp.DateTrunc) else exp.cast(monday, "TIMESTAMP")
    if unit not in _TIME_UNITS:
        raise Unwritable(f"a time cut to {shown}")
    if isinstance(node, exp.DateTrunc) and unit not in _DATE_UNITS:
        if unit != "DAY":
            raise Unwritable(f"a date cut to {shown}")
        return exp.cast(node.this.copy(), "DATE")
    if unit == shown or (unit == plain and isinstance(node, exp.TimestampTrunc)):
        return None
    made = node.copy()
    made.set("unit", exp.Literal.string(unit) if asked.is_string else exp.var(unit))
    return made


def _truncate_in_zone(node: exp.Expr, zone: exp.Expr, dialect: str) -> exp.Expr:
    """Rewrite a truncation of the local time in a zone. The result is an instant.

    A unit shorter than a day is refused, because a clock change may fall inside it.
    """
    unit = node.args["unit"].name.upper()
    if unit not in ("DAY", "MONTH", "QUARTER", "YEAR", "ISOWEEK"):
        raise Unwritable(f"a time cut to {unit} in a time zone")
    instant = cast(node.this.copy(), "TIMESTAMP")
    local = call("FROM_UTC_TIMESTAMP", instant, zone)
    plain_cut = exp.TimestampTrunc(this=local, unit=node.args["unit"].copy())
    made = cast(truncate_time(plain_cut, dialect) or plain_cut, "TIMESTAMP")
    return call("TO_UTC_TIMESTAMP", made, zone)


_PARTS = frozenset(
    {"YEAR", "YEAROFWEEK", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE", "SECOND"}
)
_PART_NAMES = _pairs(
    "DAYOFYEAR=DOY YEARDAY=DOY DY=DOY DAYOFMONTH=DAY WEEKOFYEAR=WEEK YEARS=YEAR QUARTERS=QUARTER "
    "MONTHS=MONTH WEEKS=WEEK DAYS=DAY HOURS=HOUR MINUTES=MINUTE SECONDS=SECOND DAY_OF_YEAR=DOY "
    "YOW=YEAROFWEEK YEAR_OF_WEEK=YEAROFWEEK DAY_OF_MONTH=DAY MS=MILLISECOND US=MICROSECOND "
    "MILLISECONDS=MILLISECOND MICROSECONDS=MICROSECOND MSEC=MILLISECOND USEC=MICROSECOND YYYY=YEAR "
    "YY=YEAR MM=MONTH DD=DAY HH=HOUR MI=MINUTE SS=SECOND QQ=QUARTER M=MONTH D=DAY H=HOUR S=SECOND "
    "Y=YEAR Q=QUARTER W=WEEK MON=MONTH MIN=MINUTE SEC=SECOND"
)
_FRACTIONS = frozenset({"postgres", "materialize", "risingwave", "clickhouse"})
"""Dialects in which EXTRACT of a second has fractions, as in Spark; elsewhere it is whole."""
_SINCE_THE_MINUTE = frozenset({"duckdb", "postgres"})
"""Dialects whose milliseconds count from the beginning of the minute."""


def extract_part(unit: str, value: exp.Expr, dialect: str) -> exp.Expr:
    """Create EXTRACT of a part of a date or time. Raise Unwritable if Spark lacks the part."""
    unit = _PART_NAMES.get(unit, unit)
    if unit in ("MILLISECOND", "MICROSECOND") and dialect in _SINCE_THE_MINUTE:
        many = "1000" if unit == "MILLISECOND" else "1000000"
        second = exp.Extract(this=exp.var("SECOND"), expression=value.copy())
        made = exp.Mul(this=second, expression=exp.Literal.number(many))
        return exp.cast(made, "BIGINT") if dialect == "duckdb" else exp.paren(made)
    if unit not in _PARTS:
        raise Unwritable(f"EXTRACT({unit} FROM …)")
    if unit == "SECOND" and dialect not in _FRACTIONS:
        return call("SECOND", value)
    return exp.Extract(this=exp.var(unit), expression=value.copy())


_DATES = (exp.CurrentDate, exp.LastDay, exp.TsOrDsToDate, exp.DateFromParts)


def is_date(node: exp.Expr) -> bool:
    node = node.unnest()
    if isinstance(node, exp.Cast):
        return bool(node.to.this == exp.DType.DATE)
    if isinstance(node, exp.Add | exp.Sub):
        other = node.expression.unnest()
        return is_date(node.this) and isinstance(other, exp.Literal) and other.is_int
    if isinstance(node, exp.Min | exp.Max | exp.Coalesce):
        return is_date(node.this)
    return isinstance(node, _DATES)


DAYS_BETWEEN = frozenset({"duckdb", "postgres", "redshift", "snowflake"})
"""Dialects in which a date minus a date is a number of days."""


def subtract_dates(node: exp.Sub, dialect: str) -> Replacement:
    """Rewrite the difference of two dates as DATEDIFF, because Spark's `-` returns an interval."""
    if dialect not in DAYS_BETWEEN:
        return None
    if not (is_date(node.this) and is_date(node.expression)):
        return None
    return call("DATEDIFF", node.this, node.expression)


def add_interval(node: exp.DateAdd | exp.DateSub, dialect: str) -> Replacement:
    """Rewrite DuckDB's `date_add(day, INTERVAL …)` as a sum."""
    length = node.expression
    if dialect != "duckdb" or not isinstance(length.unnest(), exp.Interval):
        return None
    kind = exp.Add if isinstance(node, exp.DateAdd) else exp.Sub
    made = exp.paren(kind(this=node.this.copy(), expression=length.copy()))
    return cast_interval_sum(made)


def add_months(node: exp.AddMonths, dialect: str) -> Replacement:
    """Rewrite Snowflake's ADD_MONTHS, which keeps the last day of a month: 28 Feb -> 31 Mar."""
    if dialect != "snowflake":
        return None
    template = """CASE WHEN day = LAST_DAY(day) THEN LAST_DAY(ADD_MONTHS(day, months))
        ELSE ADD_MONTHS(day, months) END"""
    return fill_template(template, day=node.this, months=node.expression)


def add_to_date(
    node: exp.DateAdd | exp.DateSub | exp.DatetimeAdd | exp.DatetimeSub, dialect: str
) -> Replacement:
    """Rewrite MySQL's DATE_ADD and DATE_SUB as sums, which keep the type of the operand.

    BigQuery's DATETIME_ADD and DATETIME_SUB of quarters become sums, too.
    """
    unit = node.args.get("unit")
    if unit is None:
        return None
    name = unit.name.upper()
    if dialect != "mysql" and (name != "QUARTER" or isinstance(node, exp.DateAdd | exp.DateSub)):
        return None
    if name not in _UNITS_TO_ADD:
        raise Unwritable(f"an interval of {name}")
    kind = exp.Add if isinstance(node, exp.DateAdd | exp.DatetimeAdd) else exp.Sub
    length = _make_interval(node.expression, name)
    return exp.paren(kind(this=exp.paren(node.this.copy()), expression=length))


_UNITS_TO_ADD = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})


def write_date_series(first: exp.Expr, last: exp.Expr, step: exp.Expr) -> exp.Expr:
    """Write an EXPLODE that returns a row per date, from a first to a last day."""
    days = f"SEQUENCE(CAST(first AS DATE), CAST(last AS DATE), INTERVAL {step.name})"
    return fill_template(f"EXPLODE({days})", first=first, last=last)


_HAVE_DATEADD = frozenset({"trino", "athena", "snowflake", "redshift", "tsql", "fabric"})
_SQL_SERVER_UNITS = _pairs(
    "YY=YEAR YYYY=YEAR QQ=QUARTER Q=QUARTER MM=MONTH M=MONTH DAYOFYEAR=DAY DY=DAY Y=DAY DD=DAY "
    "D=DAY WK=WEEK WW=WEEK WEEKDAY=DAY DW=DAY W=DAY HH=HOUR MI=MINUTE N=MINUTE SS=SECOND S=SECOND"
)


def add_units(node: exp.DateAdd | exp.TsOrDsAdd | exp.TimestampAdd, dialect: str) -> Replacement:
    """Rewrite `DATEADD(hour, n, x)` as a sum, which keeps the type of `x`.

    Raises:
        Unwritable: Spark cannot add the unit, or Redshift would keep the last day of a month.
    """
    unit = node.args.get("unit")
    if dialect not in _HAVE_DATEADD or unit is None:
        return None
    written = node.meta.get("end", 0) + 1 - node.meta.get("start", 0)
    if dialect == "redshift" and written == len("ADD_MONTHS"):  # SQLGlot has one class for both.
        raise Unwritable("ADD_MONTHS")
    # SQLGlot would write Spark's DATE_ADD, which adds days, whatever the unit.
    name = unit.name.upper()
    name = full_unit(name, dialect)
    if name not in _UNITS_TO_ADD:
        raise Unwritable(f"DATEADD of {name}")
    length = _make_interval(node.expression, name)
    moved: exp.Expr = exp.paren(node.this.copy())
    # Redshift returns a timestamp.
    if dialect == "redshift" or node.this.is_string:
        moved = cast(node.this.copy(), "TIMESTAMP")
    return exp.paren(exp.Add(this=moved, expression=length))


def _make_interval(number: exp.Expr, unit: str) -> exp.Interval:
    """Create an interval. A quarter becomes three months, because Spark lacks quarters."""
    known = literal_int(exp.Literal.number(number.name) if number.is_string else number)
    times = 3 if unit == "QUARTER" else 1
    value: exp.Expr = exp.Literal.string(str((known or 0) * times))
    if known is None:
        value = number.copy()
        if times > 1:
            value = exp.Mul(this=exp.paren(value), expression=exp.Literal.number(times))
    return exp.Interval(this=value, unit=exp.var("MONTH" if times > 1 else unit))


def full_unit(name: str, dialect: str) -> str:
    """Return the full name of a unit of time, such as `DAY` for SQL Server's `DD`."""
    return _SQL_SERVER_UNITS.get(name, name) if dialect in ("tsql", "fabric") else name


def rewrite_week(node: exp.Week, dialect: str) -> Replacement:
    """Rewrite Snowflake's WEEK, which by default is the ISO 8601 week."""
    if dialect != "snowflake" or node.args.get("mode") is not None:
        return None
    return exp.WeekOfYear(this=node.this.copy())


_SPARK_LETTERS = _pairs(
    "%Y=yyyy %m=MM %d=dd %H=HH %M=mm %S=ss %f=SSSSSS %y=yy %b=MMM %B=MMMM %a=EEE "
    "%A=EEEE %j=DDD %p=a %I=hh %-d=d %-m=M %-H=H %-I=h %-M=m %-S=s %-j=D %%=% "
    "%F=yyyy-MM-dd %T=HH:mm:ss %R=HH:mm %h=MMM %e=d %-y=yy %D=MM/dd/yy"
)
_DIRECTIVE = re.compile(r"%-?[A-Za-z%]")
_LETTER_FORMATS = frozenset({"postgres", "redshift", "snowflake", "oracle", "teradata"})
"""Dialects whose formats are letters: SQLGlot keeps letters that it cannot translate."""


def _translate_format(form: str, dialect: str) -> str:
    """Translate a time format to Spark's letters. Raise Unwritable if Spark lacks a letter."""
    made: list[str] = []
    at = 0
    while at < len(form):
        found = _DIRECTIVE.match(form, at)
        if found is not None:
            if found[0] not in _SPARK_LETTERS or (found[0] == "%e" and dialect != "mysql"):
                raise Unwritable(f"'{found[0]}' in a time format")
            if found[0] in ("%D", "%F", "%R") and dialect == "mysql":  # Other directives there.
                raise Unwritable(f"'{found[0]}' in a time format")
            if found[0] == "%-d" and dialect == "bigquery":  # SQLGlot's reading of `%e`.
                raise Unwritable("'%e' in a time format")
            made.append(_SPARK_LETTERS[found[0]])
            at = found.end()
            continue
        word = re.compile(r"[A-Za-z]+").match(form, at)
        if word is None:
            made.append("''" if form[at] == "'" else form[at])
            at += 1
            continue
        if dialect in _LETTER_FORMATS:
            raise Unwritable(f"'{word[0]}' in a time format")
        made.append(f"'{word[0]}'")
        at = word.end()
    return "".join(made)


def format_time(node: exp.TimeToStr, dialect: str) -> Replacement:
    """Rewrite the formatting of a time if SQLGlot does not translate the format correctly."""
    form = node.args.get("format")
    if form is None or not form.is_string:
        return None
    text = form.name
    letters = _translate_format(text, dialect)
    rest = _DIRECTIVE.sub("", text)
    zone = node.args.get("zone")
    # SQLGlot fails for formats with the day of the year, with a percent sign or letters as plain
    # text, or with milliseconds.
    plain = not re.search("%j|%%", text) and not re.search(r"[A-Za-z'#\[\]{}]", rest)
    if plain and zone is None and dialect not in _ROUND_TO_MILLIS:
        return None
    if re.search(r"[#\[\]{}]", rest):
        raise Unwritable(f"the time format '{text}'")
    value = node.this
    if zone is not None:
        value = call("FROM_UTC_TIMESTAMP", value, zone)
    if dialect in _ROUND_TO_MILLIS:
        value = _add_microseconds(cast(value.copy(), "TIMESTAMP"), 500)
    return call("DATE_FORMAT", value, exp.Literal.string(letters))


_ROUND_TO_MILLIS = frozenset({"trino", "athena"})
"""Dialects whose DATE_FORMAT rounds times to milliseconds first."""


_OTHER_FIRST_YEAR = frozenset({"duckdb", "postgres", "redshift", "mysql"})
"""Dialects in which a text without a year is parsed as a time of another year than 1970."""


def check_format(node: exp.Expr, dialect: str) -> Replacement:
    """Refuse a time format without an equivalent in Spark. PARSE_DATETIME becomes TO_TIMESTAMP.

    Formats with two-digit years are refused, because Spark reads 70 to 99 in another century: 70 is
    2070. Formats without a year are refused if the dialect assumes another year than Spark's 1970.
    """
    form = node.args.get("format")
    if form is None or not form.is_string:
        return None
    if re.search("%-?y|%D", form.name):
        raise Unwritable("a text that is parsed as a year of two digits")
    if dialect in _OTHER_FIRST_YEAR and not re.search("%[YF]", form.name):
        raise Unwritable("a text that is parsed as a time without a year")
    if node.args.get("zone") is not None:
        raise Unwritable("a text that is parsed as a time in a zone")
    letters = _translate_format(form.name, dialect)
    if isinstance(node, exp.ParseDatetime):
        return call("TO_TIMESTAMP", node.this, exp.Literal.string(letters))
    if re.search(r"[A-Za-z]", _DIRECTIVE.sub("", form.name)):
        raise Unwritable(f"plain letters in the time format '{form.name}'")
    return None


def parse_time(value: exp.Expr, kind: str) -> exp.Expr:
    """Cast a text to a date or time, but fail at run time for a text of digits alone.

    Snowflake reads such a text as seconds since 1970, and Spark as a year.
    """
    text = exp.cast(value.copy(), "TEXT")
    digits = exp.RegexpLike(this=text, expression=exp.Literal.string(r"^\s*[0-9]+\s*$"))
    fails = call("RAISE_ERROR", exp.Literal.string("a text of digits alone is read as seconds"))
    checked = call("IF", digits, fails, value)
    return cast(checked, kind)


def rewrite_to_date(node: exp.TsOrDsToDate, dialect: str) -> Replacement:
    """Rewrite Snowflake's TO_DATE of one value. Raise Unwritable for TRY_TO_DATE."""
    if dialect != "snowflake" or node.args.get("format") is not None:
        return None
    if node.args.get("safe"):
        raise Unwritable("TRY_TO_DATE")
    return parse_time(node.this, "DATE")


def rewrite_current_datetime(node: exp.CurrentDatetime, dialect: str) -> Replacement:
    now = exp.CurrentTimestamp()
    return now if node.this is None else call("FROM_UTC_TIMESTAMP", now, node.this)


def round_time(node: exp.Cast, dialect: str) -> Replacement:
    """Rewrite a cast such as `CAST(t AS TIMESTAMP(0))` to round the fractional seconds."""
    if node.to.this == exp.DType.SMALLDATETIME:
        raise Unwritable("the type SMALLDATETIME", "SMALLDATETIME")
    if node.to.this not in _TIMES or node.meta.get("rounded"):
        return None
    given = node.to.expressions
    if not given and dialect not in _ROUND_TO_MILLIS:
        return None
    digits = given[0].name if given else "3"
    value = node.this.unnest()
    if int(digits) >= 6:
        return None
    if value.is_string:
        fraction = _FRACTION.search(value.name)
        if fraction is None or len(fraction[1]) <= int(digits):
            return None
    if digits not in _ROUNDED or dialect not in _ROUNDING_TIMES:
        raise Unwritable(f"times with {digits} fractional digits")
    unit, half = _ROUNDED[digits]
    made = cast(node.this.copy(), "TIMESTAMP")
    made.meta["rounded"] = True
    later = _add_microseconds(made, half)
    if dialect == "postgres":  # Halves are rounded away from the year 2000.
        early = exp.LT(
            this=made.copy(), expression=cast(exp.Literal.string("2000-01-01"), "TIMESTAMP")
        )
        early.this.meta["rounded"] = True
        when = exp.If(this=early, true=_add_microseconds(made.copy(), half - 1))
        when.args["true"].this.meta["rounded"] = True
        later = exp.Case(ifs=[when], default=later)
    return call("DATE_TRUNC", exp.Literal.string(unit), later)


def _add_microseconds(time: exp.Expr, microseconds: int) -> exp.Expr:
    number = exp.Literal.string(str(microseconds))
    return exp.Add(this=time, expression=exp.Interval(this=number, unit=exp.var("MICROSECOND")))


_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME2)
_ROUNDED = {"0": ("SECOND", 500_000), "3": ("MILLISECOND", 500)}
_ROUNDING_TIMES = frozenset({"postgres", "trino", "athena", "tsql", "fabric"})
"""Dialects in which a cast to a time with fewer digits rounds."""
_FRACTION = re.compile(r"\.(\d+)")
