"""Types of expressions by Spark's rules, and the types of values that a column takes.

A type is found where every setting of Spark's gives the same one; of all other expressions it is
not known. `vde_dagster_tests/spark/test_types_on_spark.py` compares with what Spark says. Rules of
store assignment are those of ANSI, which Iceberg's tables have whatever a session says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import called, data_type

Type = exp.DataType | None

_D = exp.DType
_INTEGERS = (_D.TINYINT, _D.SMALLINT, _D.INT, _D.BIGINT)
_LONGEST_INT, _LONGEST_BIGINT = 2**31, 2**63
_ROOM = dict(zip(_INTEGERS, (3, 5, 10, 20), strict=True))
"""Digits that a whole number is given in a DECIMAL."""
MOST_DIGITS = 38
_SUFFIXES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "D": "DOUBLE", "F": "FLOAT"}

_RETURNS = {
    name: kind
    for kind, names in {
        "BIGINT": """count count_if approx_count_distinct xxhash64 unix_micros unix_millis
            unix_seconds regr_count bitmap_bucket_number bitmap_bit_position crc32 factorial""",
        "BOOLEAN": """isnull isnotnull isnan rlike like ilike and or not = != < <= > >= <=> exists
            forall array_contains arrays_overlap map_contains_key bool_and bool_or
            is_valid_utf8 luhn_check""",
        "DATE": """current_date add_months date_add date_sub date_from_unix_date last_day make_date
            next_day""",
        "DOUBLE": """acos acosh asin asinh atan atan2 atanh cbrt cos cosh cot csc degrees e exp
            expm1 hypot ln log log10 log1p log2 pi pow radians rint sec sin sinh sqrt tan tanh sign
            corr covar_pop covar_samp kurtosis skewness stddev stddev_pop stddev_samp variance
            var_pop cume_dist percent_rank months_between""",
        "INT": """ascii bit_length char_length dayofweek dayofyear day datediff find_in_set hour
            instr json_array_length length levenshtein locate minute month octet_length quarter
            size array_size second weekday weekofyear year hash rank dense_rank row_number ntile
            unix_date""",
        "STRING": """base64 bin chr char concat_ws date_format dayname format_number format_string
            from_unixtime hex initcap lower md5 monthname regexp_extract regexp_replace repeat
            replace sha1 sha2 soundex space substring_index to_json translate trim ltrim rtrim
            typeof upper url_encode url_decode uuid listagg get_json_object to_char split_part""",
        "TIMESTAMP": "current_timestamp date_trunc from_utc_timestamp timestamp to_utc_timestamp",
        "ARRAY<STRING>": "split json_object_keys",
    }.items()
    for name in names.split()
}
"""Functions that return one type whatever they are given."""

_OF_FIRST = frozenset(
    {"max", "min", "first", "last", "any_value", "nullif", "lag", "lead", "nth_value"}
    | {"array_distinct", "array_sort", "sort_array", "slice", "array_compact"}
)
"""Functions that return the type of their first argument."""
_OF_ALL = frozenset({"coalesce", "nvl", "greatest", "least"})
_LISTS = frozenset({"collect_list", "collect_set", "array"})
_PREDICATES = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean, exp.Exists)


def fixed_type(name: str) -> Type:
    """The type that a function returns whatever it is given, or None."""
    text = _RETURNS.get(name)
    return data_type(text) if text is not None else None


def infer(e: exp.Expr) -> Type:
    """The type of an expression whose columns have theirs, or None.

    It is noted on the expression, for those around it.
    """
    if e.type is None:
        rule = _RULES.get(e.__class__)
        boolean = data_type("BOOLEAN") if isinstance(e, _PREDICATES) else None
        found = rule(e) if rule is not None else boolean
        if found is not None:
            e.type = found
        return found
    kind: Type = e.type
    return None if kind is not None and kind.this == _D.UNKNOWN else kind


def _inner(e: exp.Expr) -> Type:
    return infer(e.this)


def _literal(e: exp.Literal) -> Type:
    text = str(e.this).upper()
    if text[-1:] in "'\"":
        return data_type("STRING")
    if text.isdigit() and int(text) < _LONGEST_BIGINT:
        return data_type("INT" if int(text) < _LONGEST_INT else "BIGINT")
    number = text.removesuffix("BD")
    if number == text and text[-1:] in _SUFFIXES:
        return data_type(_SUFFIXES[text[-1:]])
    if "E" in number and number == text:
        return data_type("DOUBLE")
    try:
        _, digits, exponent = Decimal(number).as_tuple()
    except InvalidOperation:
        return None
    return _decimal(max(len(digits) + int(exponent), 0), max(-int(exponent), 0))


def _signed(e: exp.Expr) -> Type:
    """The type of a number with a sign; texts become one."""
    kind = infer(e)
    return data_type("DOUBLE") if kind == data_type("STRING") else kind


def _negative(e: exp.Neg) -> Type:
    kind = _signed(e.this)
    longest = (str(_LONGEST_INT), str(_LONGEST_BIGINT))
    least = isinstance(e.this, exp.Literal) and str(e.this.this) in longest
    return None if least else kind


def _arithmetic(e: exp.Binary) -> Type:
    kinds = [infer(e.this), infer(e.expression)]
    if any(kind is None for kind in kinds):
        return None
    names = [kind.this for kind in kinds if kind is not None]
    if all(name in _INTEGERS for name in names):
        return kinds[0] if _INTEGERS.index(names[0]) >= _INTEGERS.index(names[1]) else kinds[1]
    return data_type("DOUBLE") if _float(names) else _exact(e)


def _exact(e: exp.Binary) -> Type:
    """The type of arithmetic of which a side is a DECIMAL, as far as its digits have room in one.

    https://github.com/apache/spark/blob/v4.1.0/sql/catalyst/src/main/scala/org/apache/spark/sql/catalyst/expressions/arithmetic.scala
    """
    one, two = (_digits(side, shown=True) for side in (e.this, e.expression))
    if one is None or two is None or _D.DECIMAL not in [_kind(e.this), _kind(e.expression)]:
        return None
    (whole, scale), (whole_2, scale_2) = one, two
    more = max(scale, scale_2)
    if isinstance(e, exp.Add | exp.Sub):
        return _decimal(max(whole, whole_2) + 1, more)
    if isinstance(e, exp.Mul):
        return _decimal(whole + whole_2 + 1, scale + scale_2)
    if isinstance(e, exp.Mod):
        return _decimal(min(whole, whole_2), more)
    return _decimal(whole + scale_2, max(6, scale + whole_2 + scale_2 + 1))


def _kind(e: exp.Expr) -> exp.DType | None:
    found = infer(e)
    return found.this if found is not None else None


def _digits(e: exp.Expr, *, shown: bool = False) -> tuple[int, int] | None:
    """The digits before and behind the point of a whole number's type, or of a DECIMAL.

    Args:
        shown: Whether a literal has no more than one sees, as beside an operator.
    """
    e, kind = e.unnest(), infer(e)
    if kind is None or kind.this not in (*_INTEGERS, _D.DECIMAL):
        return None
    if kind.this != _D.DECIMAL:
        number = str(e.this).rstrip("LlSs") if isinstance(e, exp.Literal) else ""
        return len(str(int(number))) if shown and number.isdigit() else _ROOM[kind.this], 0
    given = [int(part.name) for part in kind.expressions]
    precision, scale = (*given, *(10, 0)[len(given) :])
    return precision - scale, scale


def _decimal(whole: int, scale: int) -> Type:
    """A DECIMAL; None for one of more digits than there are, which depends on settings."""
    digits = max(whole + scale, 1)
    return data_type(f"DECIMAL({digits}, {scale})") if digits <= MOST_DIGITS else None


def _float(names: list[exp.DType]) -> bool:
    """Whether numbers of these types make a DOUBLE."""
    numeric = all(name in (*_INTEGERS, _D.DOUBLE, _D.FLOAT, _D.DECIMAL) for name in names)
    return numeric and _D.DOUBLE in names


def _quotient(e: exp.Div) -> Type:
    kinds = [infer(e.this), infer(e.expression)]
    names = [kind.this for kind in kinds if kind is not None]
    if len(names) == 2 and (_float(names) or all(n in (*_INTEGERS, _D.FLOAT) for n in names)):
        return data_type("DOUBLE")
    return _exact(e)


def _whole_quotient(e: exp.IntDiv) -> Type:
    whole = _kind(e.this) in _INTEGERS and _kind(e.expression) in _INTEGERS
    return data_type("BIGINT") if whole else None


def _concatenation(e: exp.DPipe) -> Type:
    text = data_type("STRING")
    return text if infer(e.this) == text and infer(e.expression) == text else None


def _case(e: exp.Case) -> Type:
    values = [branch.args["true"] for branch in e.args["ifs"]]
    default = e.args.get("default")
    return _common([*values, *([default] if default is not None else [])])


def _common(values: Iterable[exp.Expr]) -> Type:
    """The type that all values have, or the DECIMAL that has room for them; NULL has any."""
    values = [value for value in values if not isinstance(value, exp.Null)]
    kinds = [infer(value) for value in values]
    if not kinds or all(kind == kinds[0] for kind in kinds):
        return kinds[0] if kinds else None
    digits = [_digits(value) for value in values]
    known = [one for one in digits if one is not None]
    if len(known) < len(values) or _D.DECIMAL not in map(_kind, values):
        return None
    return _decimal(max(whole for whole, _ in known), max(scale for _, scale in known))


def _call(e: exp.Anonymous) -> Type:
    name = called(e)
    arguments = [a.expressions[0] if isinstance(a, exp.Distinct) else a for a in e.expressions]
    constant = _RETURNS.get(name) or spark_functions.CASTS.get(name)
    if constant is not None:
        return data_type(constant)
    if not arguments:
        return None
    if name in _OF_FIRST:
        return infer(arguments[0])
    if name in ("negative", "positive"):
        return _signed(arguments[0])
    if name in _OF_ALL:
        return _common(arguments)
    if name == "if" and len(arguments) == 3:
        return _common(arguments[1:])
    if name in _LISTS:
        kind = _common(arguments)
        return exp.DataType(this=_D.ARRAY, expressions=[kind.copy()], nested=True) if kind else None
    if name in ("sum", "avg"):
        return _total(name, arguments[0])
    if name in ("abs", "ceil", "floor", "round") and len(arguments) == 1:
        return _rounded(name, arguments[0])
    # `DATE '2024-01-01'` and its like.
    named = {"x": "BINARY", "date": "DATE", "timestamp_ntz": "TIMESTAMP_NTZ"}
    literal = named.get(name.removesuffix(" literal")) if name.endswith(" literal") else None
    return data_type(literal) if literal else None


def _total(name: str, of: exp.Expr) -> Type:
    kind = _kind(of)
    if kind in (_D.DOUBLE, _D.FLOAT):
        return data_type("DOUBLE")
    if kind in _INTEGERS:
        return data_type("BIGINT" if name == "sum" else "DOUBLE")
    digits = _digits(of)
    if digits is None:
        return None
    whole, scale = digits
    if name == "sum":
        return _decimal(min(whole + 10, MOST_DIGITS - scale), scale)
    return _decimal(whole, scale + 4)


def _rounded(name: str, of: exp.Expr) -> Type:
    digits = _digits(of) if _kind(of) == _D.DECIMAL else None
    if digits is None:
        return None
    same = name == "abs" or (name != "round" and digits[1] == 0)
    return infer(of) if same else _decimal(digits[0] + 1, 0)


_RULES: dict[type, Callable[..., Type]] = {
    exp.Literal: _literal,
    exp.Neg: _negative,
    exp.Sqrt: lambda e: _signed(e.this),
    **dict.fromkeys((exp.Paren, exp.Alias, exp.Window, exp.Filter), _inner),
    **dict.fromkeys((exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup), _inner),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod), _arithmetic),
    exp.Div: _quotient,
    exp.IntDiv: _whole_quotient,
    exp.DPipe: _concatenation,
    **dict.fromkeys((exp.Cast, exp.TryCast), lambda e: e.args["to"]),
    exp.Case: _case,
    exp.Anonymous: _call,
    exp.CurrentDate: lambda e: data_type("DATE"),
    exp.CurrentTimestamp: lambda e: data_type("TIMESTAMP"),
}


_CLASSES = {
    kind: name
    for name, kinds in {
        "a number": (*_INTEGERS, _D.FLOAT, _D.DOUBLE, _D.DECIMAL),
        "text": (_D.TEXT, _D.VARCHAR, _D.CHAR),
        "a date": (_D.DATE,),
        "a time": (_D.TIMESTAMP, _D.TIMESTAMPTZ, _D.TIMESTAMPLTZ, _D.TIMESTAMPNTZ),
        "a boolean": (_D.BOOLEAN,),
        "an array": (_D.ARRAY,),
        "a map": (_D.MAP,),
        "a struct": (_D.STRUCT,),
    }.items()
    for kind in kinds
}
_INTO_TEXT = frozenset({"a number", "text", "a date", "a time", "a boolean"})


def type_class(kind: Type) -> str | None:
    """The class of a type in words, such as "a number"; None for one that is not known."""
    return _CLASSES.get(kind.this) if kind is not None else None


def is_refused(value: str, column: str) -> bool:
    """Whether Spark certainly refuses to store values of one type in a column of another.

    >>> is_refused("STRING", "INT"), is_refused("INT", "STRING"), is_refused("UNKNOWN", "INT")
    (True, False, False)
    >>> is_refused("BIGINT", "INT"), is_refused("DATE", "TIMESTAMP"), is_refused("INT", "BOOLEAN")
    (False, False, True)
    """
    given, taken = (type_class(data_type(text)) for text in (value, column))
    if given is None or taken is None or given == taken or {given, taken} == {"a date", "a time"}:
        return False  # What is inside of arrays, maps and structs is left to Spark.
    return not (taken == "text" and given in _INTO_TEXT)
