"""Functions of texts that Spark has under the same name with another meaning.

PostgreSQL, Redshift and SQL Server count a substring's end from a start before the text; DuckDB and
Trino count a negative start from the end. Sources: PostgreSQL's manual 9.4,
docs.aws.amazon.com/redshift/latest/dg/r_SUBSTRING.html,
learn.microsoft.com/sql/t-sql/functions/substring-transact-sql,
trino.io/docs/current/functions/string.html, and DuckDB and PostgreSQL themselves.
"""

from __future__ import annotations

import re

from sqlglot import exp

from vde_dagster.sql.other_dialects import Unwritable

Made = exp.Expr | None

_BEFORE_THE_TEXT = frozenset({"postgres", "redshift", "tsql", "fabric"})
"""Dialects in which a substring may begin before the text, whose places there are empty."""
_FROM_THE_END = frozenset({"duckdb", "postgres"})
"""Dialects in which LEFT and RIGHT with a negative length leave out that many characters."""
_TRINO = frozenset({"trino", "presto", "athena"})


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[one.copy() for one in arguments])


def _number(value: int) -> exp.Expr:
    shown = exp.Literal.number(abs(value))
    return exp.Neg(this=shown) if value < 0 else shown


def literal_int(node: exp.Expr | None) -> int | None:
    """Return the value of a literal integer with its sign, or None for others."""
    node = node.unnest() if node is not None else None
    if isinstance(node, exp.Neg):
        inner = literal_int(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and node.is_int:
        return int(node.name)
    return None


def lower_bound(node: exp.Expr) -> int | None:
    """Return a number that an integer expression is never below, as far as it alone tells.

    A position of a text within a text is at least 0.
    """
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


def _when(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def _plus(left: exp.Expr, right: exp.Expr | int) -> exp.Expr:
    known = literal_int(left)
    if isinstance(right, int):
        if known is not None:
            return _number(known + right)
        other: exp.Expr = exp.Literal.number(abs(right))
        kind = exp.Sub if right < 0 else exp.Add
        return kind(this=_grouped(left), expression=other)
    return exp.Add(this=_grouped(left), expression=_grouped(right))


def _grouped(node: exp.Expr) -> exp.Expr:
    loose = isinstance(node, exp.Binary | exp.Unary) and not isinstance(node, exp.Paren)
    return exp.paren(node.copy()) if loose else node.copy()


def _less(node: exp.Expr, value: int) -> exp.Expr:
    return exp.LT(this=_grouped(node), expression=_number(value))


def substring(node: exp.Substring, dialect: str) -> Made:
    """Write SUBSTRING so that starts before the text and negative lengths keep their meaning."""
    start, length = node.args.get("start"), node.args.get("length")
    if start is None:
        return None
    if start.is_string and dialect == "postgres":
        raise Unwritable("SUBSTRING by a regular expression")
    least = lower_bound(start)
    if dialect in _BEFORE_THE_TEXT:
        return None if least is not None and least >= 1 else _cut_before(node.this, start, length)
    if dialect == "duckdb" and length is not None:
        return _duckdb_substring(node.this, start, length)
    if dialect in _TRINO:
        return None if least is not None and least >= 1 else _trino(node.this, start, length)
    return None


def _cut_before(text: exp.Expr, start: exp.Expr, length: exp.Expr | None) -> exp.Expr:
    known = literal_int(start)
    if length is None:
        early: exp.Expr = _call("SUBSTRING", text, exp.Literal.number(1))
        late = _call("SUBSTRING", text, start)
    else:
        end = literal_int(length)
        rest = (
            _number(known + end - 1)
            if known is not None and end is not None
            else _plus(_plus(start, length), -1)
        )
        early = _call("SUBSTRING", text, exp.Literal.number(1), rest)
        late = _call("SUBSTRING", text, start, length)
    return early if known is not None else _when(_less(start, 1), early, late)


def _duckdb_substring(text: exp.Expr, start: exp.Expr, length: exp.Expr) -> Made:
    """Begin a substring from 0 one character early, as DuckDB does.

    Raises:
        Unwritable: The length is negative: DuckDB goes back from the start.
    """
    known, end = literal_int(start), literal_int(length)
    if end is not None and end < 0:
        raise Unwritable("SUBSTRING with a negative length")
    shorter = exp.Anonymous(
        this="SUBSTRING", expressions=[text.copy(), exp.Literal.number(1), _plus(length, -1)]
    )
    if known is not None:
        return shorter if known == 0 else None
    least = lower_bound(start)
    if least is not None and least >= 1:
        return None
    zero = exp.EQ(this=_grouped(start), expression=exp.Literal.number(0))
    return _when(zero, shorter, _call("SUBSTRING", text, start, length))


def _trino(text: exp.Expr, start: exp.Expr, length: exp.Expr | None) -> exp.Expr:
    """Return no text for a start at 0, or before the text's first character."""
    outside = exp.or_(
        exp.EQ(this=_grouped(start), expression=exp.Literal.number(0)),
        exp.LT(this=_grouped(start), expression=exp.Neg(this=_call("LENGTH", text))),
    )
    given = [text, start] if length is None else [text, start, length]
    nothing = _call("LEFT", text, exp.Literal.number(0))  # NULL stays NULL.
    return _when(outside, nothing, _call("SUBSTRING", *given))


def left_or_right(node: exp.Left | exp.Right, dialect: str) -> Made:
    """Leave out characters where LEFT or RIGHT has a negative length."""
    if dialect not in _FROM_THE_END:
        return None
    text, length = node.this, node.expression
    least = lower_bound(length)
    if least is not None and least >= 0:
        return None
    if isinstance(node, exp.Left):
        kept = _call("GREATEST", _plus(_call("LENGTH", text), length), exp.Literal.number(0))
        shorter: exp.Expr = _call("LEFT", text, kept)
        plain = _call("LEFT", text, length)
    else:
        known = literal_int(length)
        begin = (
            exp.Sub(this=exp.Literal.number(1), expression=_grouped(length))
            if known is None
            else _number(1 - known)
        )
        shorter = _call("SUBSTRING", text, begin)
        plain = _call("RIGHT", text, length)
    if literal_int(length) is not None:
        return shorter
    return _when(_less(length, 0), shorter, plain)


_DELIMITERS = {
    "bigquery": r"[\s\[\](){}/|\\<>!?@\"^#$&~_,.:;*%+\-]",
    "snowflake": r"[\s\[\](){}/|\\<>!?@\"^#$&~_,.:;*%+\-]",
    "postgres": r"[^\p{IsAlphabetic}\p{IsDigit}]",
}
"""Characters between words, by dialect.

Sources: cloud.google.com/bigquery/docs/reference/standard-sql/string_functions#initcap,
docs.snowflake.com/en/sql-reference/functions/initcap, PostgreSQL's manual 9.4.
"""


def capitalized(node: exp.Initcap, dialect: str) -> Made:
    """Begin every word with a capital, where words end at more than blanks."""
    ends = _DELIMITERS.get(dialect)
    if ends is None:
        return None
    given = node.args.get("expression")
    if "start" in node.meta and given is not None and not _is_default(given):
        raise Unwritable("INITCAP with delimiters")
    between = f"(?<={ends})|(?={ends})"
    if ends[1] == "^":  # Half of a character outside the basic plane is no end of a word.
        between = rf"(?![\x{{DC00}}-\x{{DFFF}}])(?:{between})"
    around = exp.Literal.string(between)
    part = exp.to_identifier("w")
    word = exp.column("w")
    upper = _call("UPPER", _call("LEFT", word, exp.Literal.number(1)))
    lower = _call("LOWER", _call("SUBSTRING", word, exp.Literal.number(2)))
    each = exp.Lambda(this=_call("CONCAT", upper, lower), expressions=[part])
    parts = _call("SPLIT", node.this, around)
    words = exp.Anonymous(this="TRANSFORM", expressions=[parts, each])
    return exp.Anonymous(this="ARRAY_JOIN", expressions=[words, exp.Literal.string("")])


def _is_default(given: exp.Expr) -> bool:
    return given.is_string and len(given.name) > 20


_BRACES = re.compile(r"\{\{|\}\}|\{\}|[{}]")


def formatted(node: exp.Format, dialect: str) -> Made:
    """Write DuckDB's `format('{} …', text)` as CONCAT.

    Raises:
        Unwritable: A format, or a type of argument whose text is not known.
    """
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
            raise Unwritable("format() with a specification, or of what may not be a text")
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
