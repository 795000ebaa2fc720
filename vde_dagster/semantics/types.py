"""Types of expressions, and checks of whether a value can be stored in a column, as in Spark.

The types of most calls and operators come from a table generated with Spark (`function_types`).
Other types, such as DECIMALs, are computed here with Spark's rules, or are unknown. The checks
follow the ANSI rules of store assignment, which Iceberg tables always use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from vde_dagster.semantics import function_types, spark_functions
from vde_dagster.semantics._sqlglot import called_function, data_type
from vde_dagster.sql.reading import is_star

Type = exp.DataType | None
Fields = list[tuple[str, exp.Expr]]
"""Names and values of a struct's fields."""

_D = exp.DType
_INTEGERS = (_D.TINYINT, _D.SMALLINT, _D.INT, _D.BIGINT)
_LONGEST_INT, _LONGEST_BIGINT = 2**31, 2**63
_LEAST = {str(_LONGEST_INT): "INT", str(_LONGEST_BIGINT): "BIGINT"}
"""Types of the literals -2147483648 and -9223372036854775808, by their digits."""
_ROOM = dict(zip(_INTEGERS, (3, 5, 10, 20), strict=True))
"""Number of digits of a DECIMAL that can have all values of an integer type."""
MOST_DIGITS = 38
_SUFFIXES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "D": "DOUBLE", "F": "FLOAT"}

OF_ONE_TYPE = frozenset({"coalesce", "nvl", "greatest", "least", "array"})
"""Functions whose result (for `array`, each of its elements) has the arguments' common type."""
_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_UNKNOWN = exp.DataType(this=_D.UNKNOWN)
_PREDICATES = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean, exp.Exists)


def infer(e: exp.Expr) -> Type:
    """Return the type of an expression, or None if it is unknown.

    The columns must already have their types. The result is also stored on the expression.
    """
    if e.type is None:
        rule = _RULES.get(e.__class__)
        if rule is not None:
            found = rule(e)
        else:
            found = data_type("BOOLEAN") if isinstance(e, _PREDICATES) else None
        # That it is not known is noted, too: expressions around it ask several times.
        e.type = found if found is not None else _UNKNOWN
        return found
    kind: Type = e.type
    return None if kind is _UNKNOWN or (kind is not None and kind.this is _D.UNKNOWN) else kind


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


def _negative(e: exp.Neg) -> Type:
    if isinstance(e.this, exp.Literal) and str(e.this.this) in _LEAST:
        return data_type(_LEAST[str(e.this.this)])  # The sign is part of the literal.
    return _by_table("negative", [e.this])


_SIGNS: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "mod",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "shiftleft",
    exp.BitwiseRightShift: "shiftright",
    exp.DPipe: "concat",
}
"""Names of operators in the table of functions."""


def _operation(e: exp.Binary) -> Type:
    sides = [e.this, e.expression]
    return _by_table(_SIGNS[e.__class__], sides) or _exact(e)


def _element(e: exp.Bracket) -> Type:
    kind, key = infer(e.this), e.expressions[0]
    if kind is not None and kind.this == _D.STRUCT and isinstance(key, exp.Literal):
        return _field_type(kind, str(key.this).strip("'\""))
    return _by_table("[]", [e.this, *e.expressions])


def _field(e: exp.Dot) -> Type:
    made, name = e.this.unnest(), e.expression.name
    if not isinstance(made, exp.Anonymous) or called_function(made) not in _STRUCTS:
        return _field_type(infer(made), name)
    fields = _STRUCTS[called_function(made)](list_arguments(made))
    values = [value for key, value in fields if key.lower() == name.lower()]
    return infer(values[0]) if len(values) == 1 else None


def _field_type(kind: Type, name: str) -> Type:
    if kind is None or kind.this != _D.STRUCT:
        return None
    found = [field for field in kind.expressions if field.name.lower() == name.lower()]
    return found[0].args.get("kind") if len(found) == 1 else None


def _exact(e: exp.Binary) -> Type:
    """Return the result type of arithmetic with a DECIMAL operand, or None if it is unknown.

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
    if not isinstance(e, exp.Div):
        return None
    return _decimal(whole + scale_2, max(6, scale + whole_2 + scale_2 + 1))


def _kind(e: exp.Expr) -> exp.DType | None:
    found = infer(e)
    return found.this if found is not None else None


def _digits(e: exp.Expr, *, shown: bool = False) -> tuple[int, int] | None:
    """Return the digits before and after the point of an integer type or a DECIMAL.

    With `shown`, a literal has only its written digits, as in Spark's arithmetic.
    """
    e, kind = e.unnest(), infer(e)
    if kind is None or kind.this not in (*_INTEGERS, _D.DECIMAL):
        return None
    if kind.this != _D.DECIMAL:
        literal = e.this if isinstance(e, exp.Neg) else e
        number = str(literal.this).rstrip("LlSs") if isinstance(literal, exp.Literal) else ""
        return len(str(int(number))) if shown and number.isdigit() else _ROOM[kind.this], 0
    return decimal_digits(kind)


def decimal_digits(kind: exp.DataType) -> tuple[int, int]:
    """Return the digits of a DECIMAL type before and after the point: (8, 2) for DECIMAL(10, 2)."""
    given = [int(part.name) for part in kind.expressions]
    precision, scale = (*given, *(10, 0)[len(given) :])
    return precision - scale, scale


def _decimal(whole: int, scale: int) -> Type:
    digits = max(whole + scale, 1)
    return data_type(f"DECIMAL({digits}, {scale})") if digits <= MOST_DIGITS else None


_PADDED = (_D.CHAR, _D.VARCHAR)


def _cast(e: exp.Cast) -> Type:
    kind: exp.DataType = e.args["to"]
    # Spark casts to STRING instead of CHAR and VARCHAR.
    if kind.this in _PADDED:
        return data_type("STRING")
    inside = any(part.this in _PADDED for part in kind.find_all(exp.DataType))
    return None if kind.expressions and inside else kind


def case_branches(e: exp.Case) -> list[exp.Expr]:
    default = e.args.get("default")
    values = [branch.args["true"] for branch in e.args["ifs"]]
    return [*values, *([default] if default is not None else [])]


def common_type(values: Iterable[exp.Expr]) -> Type:
    """Return the type of a CASE with these values, or None if it is unknown."""
    values = [value for value in values if not isinstance(value, exp.Null)]
    kinds = [infer(value) for value in values]
    if not kinds or all(kind == kinds[0] for kind in kinds):
        return kinds[0] if kinds else None
    if all(kind is not None and kind.this in (_D.TEXT, *_PADDED) for kind in kinds):
        return data_type("STRING")
    digits = [_digits(value) for value in values]
    known = [one for one in digits if one is not None]
    if len(known) < len(values) or _D.DECIMAL not in map(_kind, values):
        return None
    return _decimal(max(whole for whole, _ in known), max(scale for _, scale in known))


def _call(e: exp.Anonymous) -> Type:
    name = called_function(e)
    if name.endswith(_LITERAL):
        return _typed_literal(name.removesuffix(_LITERAL), str(e.expressions[0].this))
    arguments = list_arguments(e)
    if any(isinstance(argument, exp.Kwarg) for argument in arguments):
        return None
    if any(map(is_star, arguments)):
        return _starred_call(name, len(arguments))
    if name in _STRUCTS:
        return _struct(_STRUCTS[name](arguments))
    if name == "map":
        return _map(common_type(arguments[::2]), common_type(arguments[1::2]))
    if (name in OF_ONE_TYPE or name == "if") and arguments:
        found = _common_result(name, arguments)
        if found is not None:
            return found
    found = _by_table(name, arguments)
    if found is not None or len(arguments) != 1:
        return found
    if name in ("sum", "avg"):
        return _total(name, arguments[0])
    return _rounded(name, arguments[0]) if name in ("abs", "ceil", "floor", "round") else None


def list_arguments(e: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of a call, including the arguments of DISTINCT."""
    return [
        part
        for a in e.expressions
        for part in (a.expressions if isinstance(a, exp.Distinct) else [a])
    ]


_LITERAL = " literal"
_LITERAL_TYPES = {"x": "BINARY", "date": "DATE", "timestamp_ntz": "TIMESTAMP_NTZ"}
_SPANS = (("DAY", "HOUR", "MINUTE", "SECOND"), ("YEAR", "MONTH"))
_IN_SPAN = {"WEEK": "DAY", "MILLISECOND": "SECOND", "MICROSECOND": "SECOND"}


def _typed_literal(name: str, text: str) -> Type:
    if name in _LITERAL_TYPES:
        return data_type(_LITERAL_TYPES[name])
    # `1 DAY` and `'1-2' YEAR TO MONTH`, as `grammar.tokens` writes them.
    words = text.rpartition("'")[2].split() if "'" in text else text.split()[1:]
    span = [_IN_SPAN.get(word.upper(), word.upper()) for word in words]
    if name != "interval" or not any(unit in span for units in _SPANS for unit in units):
        return None
    known = len(span) == 1 or (len(span) == 3 and span[1] == "TO")
    return data_type(f"INTERVAL {' '.join(span)}") if known else None


def _named(arguments: Sequence[exp.Expr]) -> Fields:
    names = (one if isinstance(one, exp.Literal) else None for one in arguments[::2])
    texts = ("" if one is None else str(one.this).strip("'\"") for one in names)
    return list(zip(texts, arguments[1::2], strict=False))


def _aliased(arguments: Sequence[exp.Expr]) -> Fields:
    named = (exp.Alias, exp.Column)
    return [(a.alias_or_name if isinstance(a, named) else "", a) for a in arguments]


_STRUCTS: dict[str, Callable[[Sequence[exp.Expr]], Fields]] = {
    "named_struct": _named,
    "struct": _aliased,
}


def _struct(fields: Fields) -> Type:
    kinds = [infer(value) for _, value in fields]
    names = [name.lower() for name, _ in fields]
    if not fields or None in kinds or len({*names}) < len(names):
        return None
    if not all(_WORD.fullmatch(name) for name in names):
        return None
    made = [
        exp.ColumnDef(this=exp.to_identifier(name), kind=kind.copy())
        for (name, _), kind in zip(fields, kinds, strict=True)
        if kind is not None
    ]
    return exp.DataType(this=_D.STRUCT, expressions=made, nested=True)


def _map(key: Type, value: Type) -> Type:
    if key is None or value is None:
        return None
    return exp.DataType(this=_D.MAP, expressions=[key.copy(), value.copy()], nested=True)


def _common_result(name: str, arguments: list[exp.Expr]) -> Type:
    if name == "if":
        return common_type(arguments[1:]) if len(arguments) == 3 else None
    kind = common_type(arguments)
    if name != "array" or kind is None:
        return kind
    return exp.DataType(this=_D.ARRAY, expressions=[kind.copy()], nested=True)


def _starred_call(name: str, least: int) -> Type:
    """Return the type of a call with the argument `*`, or None if it depends on the columns.

    `least` is the number of arguments, with each `*` counted as one.
    """
    if name == "count":
        return data_type("BIGINT")
    found = {
        function_types.find_result(name, None, count) for count in range(max(least - 1, 1), _MANY)
    }
    text = found.pop() if len(found) == 1 else None
    return data_type(text) if text is not None else None


_MANY = 12


_SUMS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)


def infer_family(e: exp.Expr) -> Type:
    """Return an expression's type, or DOUBLE for a number whose exact type is unknown."""
    found, e = infer(e), e.unnest()
    if found is not None:
        return found
    parts: list[exp.Expr] = [e.this, e.expression] if isinstance(e, _SUMS) else []
    if isinstance(e, exp.Case):
        parts = [branch.args["true"] for branch in e.args["ifs"]]
    elif isinstance(e, exp.Anonymous) and called_function(e) in OF_ONE_TYPE - {"array"}:
        parts = e.expressions
    classes = {type_class(infer_family(part)) for part in parts}
    return data_type("DOUBLE") if "a number" in classes <= {"a number", "text"} else None


def is_refused_by_argument_types(name: str, arguments: Sequence[exp.Expr]) -> bool:
    """Return whether Spark certainly refuses a call or an operator with these argument types.

    Args:
        name: The function's canonical name, or the operator's sign (`function_types.txt`).
        arguments: The arguments in order; one of unknown type is never refused.
    """
    letters = [_letter(argument, infer(argument)) or function_types.ANY for argument in arguments]
    return function_types.is_refused_call(name, "".join(letters))


def is_refused_by_operand_types(e: exp.Binary) -> bool:
    sign = _SIGNS.get(e.__class__)
    return sign is not None and is_refused_by_argument_types(sign, [e.this, e.expression])


def _by_table(name: str, arguments: Sequence[exp.Expr]) -> Type:
    units = spark_functions.UNITS.get(name, {})
    unit = _unit(name, arguments[0]) if 0 in units and arguments else None
    rest = arguments if unit is None else arguments[1:]
    kinds = [infer(argument) for argument in rest]
    letters = function_types.encode_argument_types(
        [_letter(a, kind) for a, kind in zip(rest, kinds, strict=True)], kinds
    )
    result = function_types.find_result(name, letters, len(arguments), unit)
    if result is None:
        return None
    form, place = result[0], result[1:]
    if form not in function_types.FORMS or not place.isdigit():
        return data_type(result)
    return _formed(form, kinds[int(place) - 1 - (unit is not None)])


def _unit(name: str, e: exp.Expr) -> str | None:
    if not isinstance(e, exp.Literal):
        return None
    text = str(e.this)
    word = text if text.isidentifier() else text.strip("'\"")
    return spark_functions.canonical_unit(name, 0, word)


def _letter(e: exp.Expr, kind: Type) -> str | None:
    e = e.unnest()
    if isinstance(e, exp.Null):
        return function_types.NULL
    return (
        function_types.LAMBDA if isinstance(e, exp.Lambda) else function_types.letter_of_type(kind)
    )


def _formed(form: str, kind: Type) -> Type:
    """Apply a sign of `function_types.FORMS` to an argument's type: "@" and INT give ARRAY<INT>."""
    if kind is None or form == "=":
        return data_type("STRING") if kind is not None and kind.this in _PADDED else kind
    if form == "@":
        return exp.DataType(this=_D.ARRAY, expressions=[kind.copy()], nested=True)
    parts = [part for part in kind.expressions if isinstance(part, exp.DataType)]
    at = 1 if form == "v" else 0
    return parts[at] if at < len(parts) else None


def _total(name: str, of: exp.Expr) -> Type:
    digits = _digits(of) if _kind(of) == _D.DECIMAL else None
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
    exp.Sqrt: lambda e: _by_table("positive", [e.this]),
    exp.BitwiseNot: lambda e: _by_table("~", [e.this]),
    exp.Bracket: _element,
    exp.Dot: _field,
    **dict.fromkeys((exp.Paren, exp.Alias, exp.Where, exp.Window, exp.Filter), _inner),
    **dict.fromkeys((exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup), _inner),
    **dict.fromkeys(_SIGNS, _operation),
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    exp.Case: lambda e: common_type(case_branches(e)),
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
    """Return a type's class as words for a message, such as "a number", or None if unknown."""
    return _CLASSES.get(kind.this) if kind is not None else None


def is_refused_store(value: str, column: str) -> bool:
    """Return whether Spark certainly refuses to store type `value` in a column of type `column`.

    >>> is_refused_store("STRING", "INT"), is_refused_store("INT", "STRING")
    (True, False)
    >>> is_refused_store("BIGINT", "INT"), is_refused_store("INT", "BOOLEAN")
    (False, True)
    """
    given, taken = (type_class(data_type(text)) for text in (value, column))
    if given is None or taken is None or given == taken or {given, taken} == {"a date", "a time"}:
        return False  # What is inside of arrays, maps and structs is left to Spark.
    return not (taken == "text" and given in _INTO_TEXT)
