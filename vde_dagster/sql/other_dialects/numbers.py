"""Rewrites of number types, divisions and casts to integers.

Sources: PostgreSQL's manual 8.1.2, docs.snowflake.com/en/sql-reference/data-types-numeric,
docs.aws.amazon.com/redshift/latest/dg/r_Numeric_types201.html,
learn.microsoft.com/sql/t-sql/data-types/decimal-and-numeric-transact-sql,
learn.microsoft.com/sql/t-sql/data-types/float-and-real-transact-sql and, for Presto's casts, the
tests in github.com/prestodb/presto (`TestDoubleOperators.java`).
"""

from __future__ import annotations

from sqlglot import exp

from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.building import Replacement, call, cast, fill_template, when

_ONE_INTEGER_TYPE = frozenset({"bigquery", "snowflake"})
"""Dialects whose integer types are all one type, of 64 bits or 38 digits."""
_DIGITS = {
    "bigquery": (38, 9),
    "postgres": (38, 18),  # As many digits as a value has: 18 decimals hold nearly all.
    "redshift": (18, 0),
    "trino": (38, 0),
    "athena": (38, 0),
    "tsql": (18, 0),
    "fabric": (18, 0),
    "mysql": (10, 0),
}
"""Default digits and decimals of DECIMAL, by dialect."""


def set_precision(node: exp.DataType, dialect: str) -> None:
    """Give a number type the precision that its name has in the dialect.

    Raises:
        Unwritable: The type is BIGNUMERIC, or DECIMAL with an unknown default precision.
    """
    kind = node.this
    if kind == exp.DType.BIGDECIMAL:
        raise Unwritable("the type BIGNUMERIC", "BIGNUMERIC", "BIGDECIMAL")
    if kind == exp.DType.MONEY and dialect in ("tsql", "fabric"):
        _set_digits(node, 19, 4)
    elif kind == exp.DType.DECIMAL and not node.expressions:
        if dialect not in _DIGITS:
            raise Unwritable("a DECIMAL without its digits", "DECIMAL", "NUMERIC", "NUMBER")
        _set_digits(node, *_DIGITS[dialect])
    elif kind == exp.DType.FLOAT and dialect in ("tsql", "fabric"):
        bits = node.expressions[0].this if node.expressions else exp.Literal.number(53)
        if int(bits.name) > 24 and not node.meta.get("real"):
            node.set("this", exp.DType.DOUBLE)
        node.set("expressions", None)
    elif dialect == "snowflake" and isinstance(node.parent, exp.TryCast):
        # Spark's narrower integer types would give NULL for larger values. A CAST keeps the
        # narrower type, because it fails for these values.
        if kind in exp.DataType.INTEGER_TYPES:
            _set_digits(node, 38, 0)
    elif dialect in _ONE_INTEGER_TYPE and kind in (
        exp.DType.INT,
        exp.DType.SMALLINT,
        exp.DType.TINYINT,
    ):
        node.set("this", exp.DType.BIGINT)


def _set_digits(node: exp.DataType, digits: int, decimals: int) -> None:
    sizes = [exp.DataTypeParam(this=exp.Literal.number(size)) for size in (digits, decimals)]
    node.set("this", exp.DType.DECIMAL)
    node.set("expressions", sizes)


_WHOLE_TYPES = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
_DOUBTFUL = {
    **{("bigquery", kind): r"(?i)^\s*[-+]?0x" for kind in (*_WHOLE_TYPES, exp.DType.DOUBLE)},
    **{(name, exp.DType.DECIMAL): r"^\s|\s$" for name in ("trino", "athena")},
}
"""Texts by dialect and type that TRY_CAST reads as another number than Spark, or not at all."""
_NUMBER = r"(?i)^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)"
_FORMS = {
    "integer": "^[-+]?[0-9]+$",
    "number": f"{_NUMBER}$",
    "scientific": f"{_NUMBER}e[-+]?[0-9]+$",
    "long": "(?i)^[-+]?([.]?[0-9]){19,}[.]?e|[0-9]{38}[.]",
    "hexadecimal": "(?i)^0x0*[0-9a-f]{1,16}$",
    "binary": "(?i)^0b0*[01]{1,64}$",
    "spaced": r"^\s|\s$|(?i)^0[xb].*_",
    "of_java": r"(?i)[0-9.][df]\s*$|^\s*[-+]?0x|[^\x00-\x7F]",
    "underscore": "(?<=[0-9])_(?=[0-9])",
    "sign_or_underscore": "(?<=[0-9])_(?=[0-9])|[+](?=-)",
    "letter": "(?i)[a-ce-z]",
    "blanks": r"^[ \t\n\x0B\f\r]+|[ \t\n\x0B\f\r]+$|(?<=[0-9])_(?=[0-9])",
}
"""Regular expressions of texts that may be numbers."""
_TEXT = "CAST(given AS STRING)"
_TRIMMED = f"REGEXP_REPLACE({_TEXT}, blanks, '')"
_WHOLE = """ROUND(CASE WHEN TYPEOF(given) <> 'string' THEN TRY_CAST(given AS {kind})
    WHEN {text} RLIKE integer THEN TRY_CAST({text} AS {kind})
    WHEN {text} RLIKE spaced OR {text} RLIKE long THEN RAISE_ERROR(message)
    WHEN {text} RLIKE number
    THEN ROUND(TRY_CAST(REGEXP_REPLACE({text}, '([.][0-9])[0-9]+$', '$1') AS DECIMAL(38, 1)))
    WHEN {text} RLIKE scientific THEN ROUND(TRY_CAST({text} AS DECIMAL(38, 18))) {more}
    END)"""
_BITS = f"""WHEN {_TRIMMED} RLIKE hexadecimal
    THEN CAST(CONV(SUBSTRING({_TRIMMED}, 3), 16, 10) AS DECIMAL(20, 0))
    WHEN {_TRIMMED} RLIKE binary
    THEN CAST(CONV(SUBSTRING({_TRIMMED}, 3), 2, 10) AS DECIMAL(20, 0))"""
_FLOAT = f"""CASE WHEN TYPEOF(given) <> 'string' THEN TRY_CAST(given AS {{kind}})
    WHEN {_TEXT} RLIKE of_java THEN NULL
    ELSE TRY_CAST(REGEXP_REPLACE({_TEXT}, sign_or_underscore, '') AS {{kind}}) END"""
_SQL_SERVER_FLOAT = f"""CASE WHEN TYPEOF(given) <> 'string' THEN TRY_CAST(given AS {{kind}})
    WHEN {_TEXT} RLIKE number OR {_TEXT} RLIKE scientific THEN TRY_CAST(given AS {{kind}})
    WHEN NOT {_TEXT} RLIKE letter THEN RAISE_ERROR(message) END"""
_FLOATING = (exp.DType.FLOAT, exp.DType.DOUBLE)
_TRY_TEMPLATES = {
    **{
        ("duckdb", kind): _WHOLE.format(text=_TRIMMED, more=_BITS, kind="{kind}")
        for kind in _WHOLE_TYPES
    },
    **{("duckdb", kind): _FLOAT for kind in _FLOATING},
    ("duckdb", exp.DType.DECIMAL): _FLOAT.replace("sign_or_underscore", "underscore"),
    ("snowflake", exp.DType.DECIMAL): _WHOLE.format(text=_TEXT, more="", kind="{kind}"),
    **{(name, kind): _SQL_SERVER_FLOAT for name in ("tsql", "fabric") for kind in _FLOATING},
}
"""Templates by dialect and type for the number that TRY_CAST reads from a text.

The first digit after the point decides how a text is rounded. The query fails for a text that the
dialect may read as another number than Spark, for example a text with blanks in Snowflake, or an
exponent after more than 18 digits.
"""


def try_number(node: exp.TryCast, dialect: str) -> Replacement:
    """Rewrite a TRY_CAST of a text to a number.

    The query fails at run time for a text that the dialect may read as another number than Spark.
    """
    key = (dialect, node.to.this)
    kind = node.to.sql("spark")
    if node.meta.get("checked") or _fraction_type(node.this, dialect) is not None:
        return None
    message = f"TRY_CAST of {dialect} may read this text as another number"
    if key in _TRY_TEMPLATES:
        made = fill_template(
            _TRY_TEMPLATES[key].format(kind=kind), given=node.this, message=message, **_FORMS
        )
        tried = exp.TryCast(this=made, to=node.to.copy(), safe=True)
        tried.meta["checked"] = True
        return tried
    form = _DOUBTFUL.get(key)
    if form is None:
        return None
    made = node.copy()
    made.meta["checked"] = True
    template = f"IF(TYPEOF(given) = 'string' AND {_TEXT} RLIKE form, RAISE_ERROR(message), tried)"
    return fill_template(template, given=node.this, form=form, message=message, tried=made)


BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift)


def refuse_mixed_bits(node: exp.Binary, dialect: str) -> Replacement:
    """Refuse different bit operators without parentheses; SQLGlot reads them from left to right."""
    mixed = isinstance(node.parent, BITS) and type(node.parent) is not type(node)
    if dialect in ("bigquery", "mysql") and mixed:
        raise Unwritable("different bit operators without parentheses")
    return None


def shift_right(node: exp.BitwiseRightShift, dialect: str) -> Replacement:
    """Rewrite BigQuery's right shift, which fills the left bits with zeros."""
    if dialect != "bigquery":
        return None
    bits = node.expression.unnest()
    if not (isinstance(bits, exp.Literal) and bits.is_int and int(bits.name) < 64):
        raise Unwritable("a shift by a number of bits that is computed or over 63")
    return call("SHIFTRIGHTUNSIGNED", cast(node.this.copy(), "BIGINT"), bits.copy())


_ROUNDING_CASTS = frozenset(
    {"postgres", "duckdb", "mysql", "bigquery", "snowflake", "trino", "athena", "presto"}
)
"""Dialects in which a CAST to an integer rounds; Spark's cuts off."""
CUTTING_CASTS = frozenset({"tsql", "fabric", "clickhouse", "hive", "sqlite"})
"""Dialects in which a CAST to an integer cuts off, as Spark's does."""
_ROUND_TO_EVEN = frozenset({"postgres", "duckdb", "mysql"})
"""Dialects in which a CAST to an integer rounds halves of floats to the even neighbor."""
_FLOATS = frozenset({"duckdb", "bigquery"})
"""Dialects in which divisions and averages are floats, not decimals."""
_FLOAT, _DECIMAL = "float", "decimal"


def round_to_integer(node: exp.Cast, dialect: str) -> Replacement:
    """Round the value of a cast to an integer, if it is certainly a float or decimal."""
    if dialect not in _ROUNDING_CASTS or node.to.this not in exp.DataType.INTEGER_TYPES:
        return None
    fraction = _fraction_type(node.this, dialect)
    if fraction is None:
        return None
    even = fraction == _FLOAT and dialect in _ROUND_TO_EVEN
    made = node.copy()
    made.set("this", call("BROUND" if even else "ROUND", made.this.copy()))
    return made


def _fraction_type(node: exp.Expr, dialect: str) -> str | None:
    """Return "float" or "decimal" if an expression certainly has such a type, else None."""
    node = node.unnest()
    if isinstance(node, exp.Literal):
        if node.is_string or node.is_int:
            return None
        return _FLOAT if dialect == "bigquery" or "e" in node.name.lower() else _DECIMAL
    if isinstance(node, exp.Cast):
        if node.to.this in (exp.DType.FLOAT, exp.DType.DOUBLE):
            return _FLOAT
        return _DECIMAL if node.to.this == exp.DType.DECIMAL else None
    if isinstance(node, exp.Avg) or (isinstance(node, exp.Div) and not node.args.get("typed")):
        return _FLOAT if dialect in _FLOATS else _DECIMAL
    if isinstance(node, exp.Log | exp.Ln | exp.Sqrt | exp.Exp | exp.Pow):
        return _FLOAT if dialect in _FLOATS else None
    within: list[exp.Expr] = []
    if isinstance(node, exp.Neg | exp.Abs | exp.Sum | exp.Min | exp.Max):
        within = [node.this]
    elif isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
        within = [node.this, node.expression]
    elif isinstance(node, exp.Coalesce):
        within = [node.this, *node.expressions]
    found = [_fraction_type(one, dialect) for one in within]
    return _FLOAT if _FLOAT in found else _DECIMAL if _DECIMAL in found else None


def divide_as_floats(node: exp.Div, dialect: str) -> Replacement:
    """Rewrite a division of decimals as a division of floats, as in DuckDB."""
    sides = (_fraction_type(node.this, dialect), _fraction_type(node.expression, dialect))
    if dialect != "duckdb" or _DECIMAL not in sides or _FLOAT in sides:
        return None
    made = node.copy()
    made.set("this", cast(node.this.copy(), "DOUBLE"))
    return made


def divide_as_integers(node: exp.Div, dialect: str) -> Replacement:
    """Rewrite a division of integers as DIV, if the dialect's `/` drops the remainder."""
    if not (node.args.get("typed") and _is_whole(node.this) and _is_whole(node.expression)):
        return None
    return exp.IntDiv(this=node.this.copy(), expression=node.expression.copy())


def _is_whole(node: exp.Expr) -> bool:
    node = node.unnest()
    if isinstance(node, exp.Literal):
        return node.is_int
    if isinstance(node, exp.Cast):
        return node.to.this in exp.DataType.INTEGER_TYPES
    if isinstance(node, exp.Neg):
        return _is_whole(node.this)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        return _is_whole(node.this) and _is_whole(node.expression)
    return isinstance(node, exp.Count | exp.CountIf | exp.Length | exp.IntDiv | exp.RowNumber)


def rewrite_sign(node: exp.Sign, dialect: str) -> Replacement:
    """Rewrite SIGN to return 0 for NaN, as in DuckDB and PostgreSQL."""
    if dialect not in ("duckdb", "postgres") or isinstance(node.this.unnest(), exp.Literal):
        return None
    zero = exp.Literal.number(0)
    is_nan = call("ISNAN", node.this)
    return when(is_nan, zero, call("SIGN", node.this))
