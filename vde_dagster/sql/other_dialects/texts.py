"""Rewrites of text functions that have another meaning in Spark.

If a substring's start is 0 or negative, PostgreSQL, Redshift and SQL Server count from a place
before the text. DuckDB and Trino count a negative start from the end.

Sources: PostgreSQL's manual 9.4, docs.aws.amazon.com/redshift/latest/dg/r_SUBSTRING.html,
learn.microsoft.com/sql/t-sql/functions/substring-transact-sql,
trino.io/docs/current/functions/string.html, and DuckDB and PostgreSQL themselves.
"""

from __future__ import annotations

import re

from sqlglot import exp

from vde_dagster.sql.definitions import Definition, find_definitions
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.building import (
    Replacement,
    call,
    fill_template,
    null_if_any_null,
    when,
)

_BEFORE_THE_TEXT = frozenset({"postgres", "redshift", "tsql", "fabric"})
"""Dialects in which a substring may begin before the text: SUBSTRING('abc', 0, 2) is 'a'."""
_FROM_THE_END = frozenset({"duckdb", "postgres"})
"""Dialects in which LEFT and RIGHT with a negative length leave out that many characters."""
_UNKNOWN_LENGTHS = frozenset({"redshift", "snowflake"})
"""Dialects with an undocumented result of LEFT and RIGHT for a negative length."""
_TRINO = frozenset({"trino", "presto", "athena"})


def _number(value: int) -> exp.Expr:
    shown = exp.Literal.number(abs(value))
    return exp.Neg(this=shown) if value < 0 else shown


def literal_int(node: exp.Expr | None) -> int | None:
    node = node.unnest() if node is not None else None
    if isinstance(node, exp.Neg):
        inner = literal_int(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and node.is_int:
        return int(node.name)
    return None


def lower_bound(node: exp.Expr) -> int | None:
    """Return a lower bound of an integer expression, or None if unknown."""
    node = node.unnest()
    value = literal_int(node)
    if value is not None:
        return value
    if isinstance(node, exp.Length | exp.StrPosition):
        return 0
    if isinstance(node, exp.Add):
        sides = lower_bound(node.this), lower_bound(node.expression)
        return None if sides[0] is None or sides[1] is None else sides[0] + sides[1]
    return None


def plus(left: exp.Expr, right: exp.Expr | int) -> exp.Expr:
    known = literal_int(left)
    if isinstance(right, int):
        if known is not None:
            return _number(known + right)
        other: exp.Expr = exp.Literal.number(abs(right))
        kind = exp.Sub if right < 0 else exp.Add
        return kind(this=_add_brackets(left), expression=other)
    return exp.Add(this=_add_brackets(left), expression=_add_brackets(right))


def _add_brackets(node: exp.Expr) -> exp.Expr:
    loose = isinstance(node, exp.Binary | exp.Unary) and not isinstance(node, exp.Paren)
    return exp.paren(node.copy()) if loose else node.copy()


def _is_less(node: exp.Expr, value: int) -> exp.Expr:
    return exp.LT(this=_add_brackets(node), expression=_number(value))


def rewrite_substring(node: exp.Substring, dialect: str) -> Replacement:
    """Rewrite SUBSTRING with the dialect's meaning of a start below 1 and a negative length."""
    start, length = node.args.get("start"), node.args.get("length")
    if start is None:
        return None
    if start.is_string and dialect == "postgres":
        raise Unwritable("SUBSTRING by a regular expression")
    least = lower_bound(start)
    if dialect in _BEFORE_THE_TEXT:
        return None if least is not None and least >= 1 else _cut_at_start(node.this, start, length)
    if dialect == "duckdb" and length is not None:
        return _duckdb_substring(node.this, start, length)
    if dialect in ("snowflake", "mysql") and (least is None or least < 1):
        raise Unwritable("SUBSTRING from a place that may be before the text")
    if dialect == "bigquery" and length is not None and (least is None or least < 0):
        return _bigquery_substring(node.this, start, length)
    if dialect in _TRINO:
        return (
            None if least is not None and least >= 1 else _trino_substring(node.this, start, length)
        )
    return None


def _cut_at_start(text: exp.Expr, start: exp.Expr, length: exp.Expr | None) -> exp.Expr:
    known = literal_int(start)
    if length is None:
        early: exp.Expr = call("SUBSTRING", text, exp.Literal.number(1))
        late = call("SUBSTRING", text, start)
    else:
        end = literal_int(length)
        rest = (
            _number(known + end - 1)
            if known is not None and end is not None
            else plus(plus(start, length), -1)
        )
        early = call("SUBSTRING", text, exp.Literal.number(1), rest)
        late = call("SUBSTRING", text, start, length)
    return early if known is not None else when(_is_less(start, 1), early, late)


def _duckdb_substring(text: exp.Expr, start: exp.Expr, length: exp.Expr) -> Replacement:
    """Rewrite DuckDB's substring, which has one character less if it starts at 0.

    Raises:
        Unwritable: The length is negative; DuckDB then counts back from the start.
    """
    known, end = literal_int(start), literal_int(length)
    if end is not None and end < 0:
        raise Unwritable("SUBSTRING with a negative length")
    shorter = call("SUBSTRING", text, exp.Literal.number(1), plus(length, -1))
    if known is not None:
        return shorter if known == 0 else None
    least = lower_bound(start)
    if least is not None and least >= 1:
        return None
    zero = exp.EQ(this=_add_brackets(start), expression=exp.Literal.number(0))
    return when(zero, shorter, call("SUBSTRING", text, start, length))


def _bigquery_substring(text: exp.Expr, start: exp.Expr, length: exp.Expr) -> exp.Expr:
    """Rewrite BigQuery's substring, which begins no earlier than at the first character."""
    before = exp.LT(this=_add_brackets(start), expression=exp.Neg(this=call("LENGTH", text)))
    whole = call("SUBSTRING", text, exp.Literal.number(1), length)
    return when(before, whole, call("SUBSTRING", text, start, length))


def _trino_substring(text: exp.Expr, start: exp.Expr, length: exp.Expr | None) -> exp.Expr:
    """Rewrite Trino's substring, which is empty for a start at 0 or before the text."""
    outside = exp.or_(
        exp.EQ(this=_add_brackets(start), expression=exp.Literal.number(0)),
        exp.LT(this=_add_brackets(start), expression=exp.Neg(this=call("LENGTH", text))),
    )
    given = [text, start] if length is None else [text, start, length]
    nothing = call("LEFT", text, exp.Literal.number(0))  # NULL stays NULL.
    return when(outside, nothing, call("SUBSTRING", *given))


def rewrite_left_right(node: exp.Left | exp.Right, dialect: str) -> Replacement:
    """Rewrite LEFT or RIGHT with a negative length, which leaves out that many characters."""
    text, length = node.this, node.expression
    least = lower_bound(length)
    if least is not None and least >= 0:
        return None
    if dialect in _UNKNOWN_LENGTHS:
        raise Unwritable("LEFT or RIGHT with a length that may be negative")
    if dialect not in _FROM_THE_END:
        return None
    if isinstance(node, exp.Left):
        kept = call("GREATEST", plus(call("LENGTH", text), length), exp.Literal.number(0))
        shorter: exp.Expr = call("LEFT", text, kept)
        plain = call("LEFT", text, length)
    else:
        known = literal_int(length)
        begin = (
            exp.Sub(this=exp.Literal.number(1), expression=_add_brackets(length))
            if known is None
            else _number(1 - known)
        )
        shorter = call("SUBSTRING", text, begin)
        plain = call("RIGHT", text, length)
    if literal_int(length) is not None:
        return shorter
    return when(_is_less(length, 0), shorter, plain)


_SPACES = " \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a\u205f\u3000"
_CONTROLS = "\t\n\v\f\r\u2028\u2029"
_WHITESPACE = {
    "bigquery": _SPACES + _CONTROLS + "\x85\xa0\u2007\u202f",
    "duckdb": _SPACES + "\xa0\u2007\u202f",
    **dict.fromkeys(_TRINO, _SPACES + _CONTROLS + "\x1c\x1d\x1e\x1f"),
}
"""Characters that TRIM removes by default, for dialects that remove more than blanks."""


def trim_whitespace(node: exp.Trim, dialect: str) -> Replacement:
    """Rewrite TRIM without characters, which removes only blanks in Spark."""
    if node.expression is not None or dialect not in _WHITESPACE:
        return None
    made = node.copy()
    made.set("expression", exp.Literal.string(_WHITESPACE[dialect]))
    return made


_BYTES = frozenset({"mysql", "tsql", "fabric"})
"""Dialects whose CHAR takes bytes, not code points."""


def rewrite_chr(node: exp.Chr, dialect: str) -> Replacement:
    """Rewrite CHR of code points over 255, because Spark reads only the last eight bits."""
    if dialect in _BYTES or len(node.expressions) != 1:
        return None
    value = node.expressions[0]
    known = literal_int(value)
    if known is not None:
        is_character = 255 < known < 0xD800 or 0xDFFF < known < 0x110000
        return exp.Literal.string(chr(known)) if is_character else None
    template = """CASE WHEN code > 255 THEN DECODE(UNHEX(LPAD(HEX(code), 8, '0')), 'UTF-32')
        ELSE CHR(code) END"""
    return fill_template(template, code=value)


def split_part(node: exp.SplitPart, dialect: str) -> Replacement:
    """Rewrite SPLIT_PART so that it returns NULL for a part that does not exist, as in Trino.

    Raises Unwritable for DuckDB's empty delimiter, which separates all characters.
    """
    by = node.args["delimiter"]
    if dialect == "duckdb" and by.is_string and not by.name:
        raise Unwritable("SPLIT_PART by an empty text")
    if dialect not in _TRINO:
        return None
    given = (node.this, node.args["delimiter"], node.args["part_index"])
    parts = exp.Split(this=node.this.copy(), expression=node.args["delimiter"].copy())
    number = exp.LTE(this=_add_brackets(given[2]), expression=call("SIZE", parts))
    return when(number, call("SPLIT_PART", *given))


def check_separator(node: exp.Split, dialect: str) -> Replacement:
    by = node.expression
    if by is None or (by.is_string and by.name):
        return None
    raise Unwritable("SPLIT by a text that is empty or computed")


def rewrite_length(node: exp.Length, dialect: str) -> Replacement:
    """Make SQL Server's LEN ignore trailing blanks, and MySQL's LENGTH count bytes."""
    if dialect == "mysql" and node.args.get("binary"):
        return call("OCTET_LENGTH", node.this)
    if dialect not in ("tsql", "fabric") or isinstance(node.this, exp.Anonymous):
        return None
    return exp.Length(this=call("RTRIM", node.this))


def concatenate(node: exp.Concat, dialect: str) -> Replacement:
    """Rewrite CONCAT to skip NULL arguments, if the dialect skips them."""
    if isinstance(node, exp.ConcatWs):
        return None
    if dialect == "redshift":
        return call("CONCAT", *node.expressions)
    if not node.args.get("coalesce"):
        return None
    # An empty text replaces NULL, so arguments are cast to texts first.
    empty = exp.Literal.string("")
    texts = [
        one if one.is_string else call("COALESCE", exp.cast(one.copy(), "TEXT"), empty)
        for one in node.expressions
    ]
    return call("CONCAT", *texts)


_NO_ESCAPE = frozenset({"duckdb", "trino", "athena", "snowflake", "tsql", "fabric", "sqlite"})
"""Dialects whose LIKE has no default escape character, unlike Spark's backslash."""


def escape_pattern(node: exp.Like | exp.ILike, dialect: str) -> Replacement:
    """Double the backslashes of a LIKE pattern if they are plain characters in the dialect.

    LIKE ANY with backslashes, and SQL Server's ranges such as `[a-z]`, are refused.
    """
    if isinstance(node.expression, exp.Any | exp.All):
        patterns = node.expression.this.unnest()
        if isinstance(patterns, exp.Array):
            listed = node.copy()
            listed.expression.set("this", exp.Tuple(expressions=patterns.copy().expressions))
            return escape_pattern(listed, dialect) or listed
        if not isinstance(patterns, exp.Tuple | exp.Query | exp.Literal):
            raise Unwritable("LIKE ANY or LIKE ALL of a list")
    if dialect not in _NO_ESCAPE or isinstance(node.parent, exp.Escape):
        return None
    pattern = node.expression
    if isinstance(pattern, exp.Any | exp.All | exp.Tuple):
        if any("\\" in one.name for one in pattern.find_all(exp.Literal)):
            raise Unwritable("LIKE ANY or LIKE ALL with a backslash")
        return None
    if dialect in ("tsql", "fabric") and not (pattern.is_string and "[" not in pattern.name):
        raise Unwritable("LIKE with a range of characters, or a computed pattern")
    if not pattern.is_string:
        back = (exp.Literal.string("\\"), exp.Literal.string("\\\\"))
        doubled: exp.Expr = call("REPLACE", pattern, *back)
    elif "\\" in pattern.name:
        doubled = exp.Literal.string(pattern.name.replace("\\", "\\\\"))
    else:
        return None
    made = node.copy()
    made.set("expression", doubled)
    return made


def rewrite_listagg(node: exp.GroupConcat, dialect: str) -> Replacement:
    """Rewrite Snowflake's LISTAGG, which returns '' for no values. Refuse OVER and FILTER."""
    if dialect != "snowflake":
        return None
    if isinstance(node.parent, exp.Window | exp.Filter | exp.WithinGroup):
        raise Unwritable("LISTAGG with OVER or FILTER")
    return call("COALESCE", node, exp.Literal.string(""))


def writes_instant(node: exp.Expr, dialect: str) -> bool:
    """Return whether a node converts an instant to a text; Spark's text has no time zone."""
    if isinstance(node, exp.Cast):
        is_text = node.to.this in exp.DataType.TEXT_TYPES
        return is_text and _is_instant(node.this, dialect, set())
    if isinstance(node, exp.DPipe):
        return any(_is_instant(side, dialect, set()) for side in (node.this, node.expression))
    if isinstance(node, exp.Concat | exp.ConcatWs):
        return any(_is_instant(one, dialect, set()) for one in node.expressions)
    return False


def _is_instant(value: Definition, dialect: str, seen: set[int]) -> bool:
    if not isinstance(value, exp.Expr) or id(value) in seen:
        return False
    seen.add(id(value))
    value = value.unnest()
    if isinstance(value, exp.Column):
        return any(_is_instant(one, dialect, seen) for one in find_definitions(value))
    moved = exp.Add | exp.Sub | exp.DateAdd | exp.DateSub
    if isinstance(value, exp.Alias | exp.Window | exp.Min | exp.Max | moved):
        return _is_instant(value.this, dialect, seen)
    if isinstance(value, exp.Coalesce):
        given = (value.this, *value.expressions)
        return any(_is_instant(one, dialect, seen) for one in given)
    if isinstance(value, exp.AtTimeZone):
        return not _is_instant(value.this, dialect, seen)
    if isinstance(value, exp.Cast):
        return value.to.this in (exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)
    if isinstance(value, exp.StrToTime):
        return dialect in ("postgres", "redshift")
    is_now = isinstance(value, exp.Anonymous) and value.name.upper() == "NOW"
    return is_now or isinstance(value, exp.CurrentTimestamp | exp.UnixToTime)


_PLUS_CONCATENATES = frozenset({"tsql", "fabric", "redshift"})


def concatenate_by_plus(node: exp.Add, dialect: str) -> Replacement:
    """Rewrite `a + ' ' + b` as `a || ' ' || b` if one side is certainly a text."""
    if dialect not in _PLUS_CONCATENATES:
        return None
    sides = (node.this.unnest(), node.expression.unnest())
    if not any(_is_text_only(one) for one in sides):
        return None
    return exp.DPipe(this=node.this.copy(), expression=node.expression.copy(), safe=True)


def _is_text_only(node: exp.Expr) -> bool:
    if node.is_string:
        return not re.fullmatch(r"\s*[-+]?[\d.]+([eE][-+]?\d+)?\s*", node.name)
    return isinstance(node, exp.DPipe | exp.Upper | exp.Lower)


def check_isnull(node: exp.Coalesce, dialect: str) -> Replacement:
    """Check SQL Server's ISNULL, which casts its result to the first argument's type.

    Raises:
        Unwritable: The cast may cut the second argument, because it is neither an integer literal
            nor an empty text.
    """
    if not node.args.get("is_null") or dialect not in ("tsql", "fabric"):
        return None
    value = node.expressions[0].unnest()
    if literal_int(value) is None and not (value.is_string and not value.name):
        raise Unwritable("ISNULL of a value that may be cut to the first argument's type")
    return None


def check_position(node: exp.StrPosition, dialect: str) -> Replacement:
    """Refuse a text search with a start that is computed, or is counted from the end."""
    begin = node.args.get("position")
    least = None if begin is None else literal_int(begin)
    if begin is not None and (least is None or least < 1):
        raise Unwritable("a search in a text from its end, or from a computed place")
    return None


_DELIMITERS = {
    "bigquery": r"[\s\[\](){}/|\\<>!?@\"^#$&~_,.:;*%+\-]",
    "snowflake": r"[\s\[\](){}/|\\<>!?@\"^#$&~_,.:;*%+\-]",
    "postgres": r"[^\p{IsAlphabetic}\p{IsDigit}]",
}
"""Characters between words, by dialect.

Sources: cloud.google.com/bigquery/docs/reference/standard-sql/string_functions#initcap,
docs.snowflake.com/en/sql-reference/functions/initcap, PostgreSQL's manual 9.4.
"""


def rewrite_initcap(node: exp.Initcap, dialect: str) -> Replacement:
    """Rewrite INITCAP for dialects that separate words at more characters than whitespace."""
    ends = _DELIMITERS.get(dialect)
    if ends is None:
        return None
    given = node.args.get("expression")
    if given is not None and not _is_default_delimiters(given):
        raise Unwritable("INITCAP with delimiters")
    between = f"(?<={ends})|(?={ends})"
    if ends[1] == "^":  # Half of a character outside the basic plane is no end of a word.
        between = rf"(?![\x{{DC00}}-\x{{DFFF}}])(?:{between})"
    around = exp.Literal.string(between)
    part = exp.to_identifier("w")
    word = exp.column("w")
    upper = call("UPPER", call("LEFT", word, exp.Literal.number(1)))
    lower = call("LOWER", call("SUBSTRING", word, exp.Literal.number(2)))
    each = exp.Lambda(this=call("CONCAT", upper, lower), expressions=[part])
    parts = call("SPLIT", node.this, around)
    return call("ARRAY_JOIN", call("TRANSFORM", parts, each), exp.Literal.string(""))


def _is_default_delimiters(given: exp.Expr) -> bool:
    return given.is_string and len(given.name) > 20


_BRACES = re.compile(r"\{\{|\}\}|\{\}|[{}]")


def rewrite_format(node: exp.Format, dialect: str) -> Replacement:
    """Rewrite DuckDB's `format('{} …', text)` as CONCAT. Refuse other formats and values."""
    if dialect != "duckdb":
        return None
    given = [node.this, *node.expressions]
    form, values = given[0], list(given[1:])
    if not form.is_string:
        raise Unwritable("format() whose format is computed")
    parts: list[exp.Expr] = []
    at, text = 0, ""
    for found in _BRACES.finditer(form.name):
        text += form.name[at : found.start()]
        at = found.end()
        if found[0] in ("{{", "}}"):
            text += found[0][0]
            continue
        if found[0] != "{}" or not values or not _is_plain(values[0]):
            raise Unwritable("format() with a specification, or an argument that may not be a text")
        parts += [exp.Literal.string(text)] if text else []
        parts.append(values.pop(0).copy())
        text = ""
    text += form.name[at:]
    parts += [exp.Literal.string(text)] if text or not parts else []
    if values:
        raise Unwritable("format() with more arguments than places")
    return exp.Anonymous(this="CONCAT", expressions=parts)


def _is_plain(value: exp.Expr) -> bool:
    value = value.unnest()
    if isinstance(value, exp.Cast):
        return value.to.this in exp.DataType.TEXT_TYPES | exp.DataType.INTEGER_TYPES
    texts = exp.Lower | exp.Upper | exp.Trim | exp.Substring | exp.Concat | exp.TimeToStr
    return value.is_string or value.is_int or isinstance(value, texts | exp.Length | exp.Count)


def rewrite_printf(node: exp.Anonymous) -> Replacement:
    """Rewrite DuckDB's printf() to return NULL if a value is NULL; Spark would print NULL."""
    given = [one for one in node.expressions if not isinstance(one.unnest(), exp.Literal)]
    if not given:
        return None
    return null_if_any_null(given, node.copy())
