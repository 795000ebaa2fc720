"""Calls of functions and operators as nodes of the algebra.

`spark_functions` lists the synonyms of functions, which were tested on Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from vde_dagster.semantics import spark_functions, types
from vde_dagster.semantics._sqlglot import called_function, data_type, type_key
from vde_dagster.semantics.algebra.nodes import AGGREGATES, Node, Terms, is_plain_date, plain_string
from vde_dagster.semantics.binding.binder import Binder, Unsupported
from vde_dagster.semantics.binding.names import Ambiguous, NotFound, Scope, UnclearName, resolve
from vde_dagster.semantics.binding.stars import expand_star
from vde_dagster.semantics.function_types import is_refused_cast
from vde_dagster.sql.grammar.tokens import WITH_UNIT
from vde_dagster.sql.reading import call_name, is_star

_NAMING = frozenset({"struct", "arrays_zip"})
"""Functions that name the fields of their result after their arguments."""
_COUNT = "count"
_LITERAL = " literal"
_TRIMMED = {"btrim": "trim", "trim both": "trim", "trim leading": "ltrim", "trim trailing": "rtrim"}
_INSTANTS = ("timestamp", "timestamp_ltz", "timestamp_ntz")
_MIDNIGHT = re.compile(r"[ T]00:00(:00(\.0{1,6})?)?'$")


def bind_call(binder: Binder, e: exp.Anonymous, scope: Scope) -> Node:
    name = called_function(e)
    if name.endswith(_LITERAL):
        return _typed_literal(binder, name[: -len(_LITERAL)], e.expressions[0].this)
    check_argument_count(binder, e)
    return check_argument_types(binder, e, name, _bind_by_kind(binder, e, name, scope))


def check_argument_types(binder: Binder, e: exp.Anonymous, name: str, node: Node) -> Node:
    arguments = types.list_arguments(e)
    if any(is_star(a) or isinstance(a, exp.Kwarg) for a in arguments):
        return node
    for chosen in _common_type_arguments(name, arguments):
        node = binder.require_common_type(node, chosen, ordered=name in ("greatest", "least"))
    for pair in _compared_arguments(name, arguments):
        node = binder.require_comparable(node, pair)
    fixed = (arguments[at] for at in spark_functions.CONSTANTS.get(name, ()) if at < len(arguments))
    if name not in binder.functions and any(a.find(exp.Column) is not None for a in fixed):
        return binder.give_up(f"{name} of a column in place of a constant", node)
    if name not in binder.functions and types.is_refused_by_argument_types(name, arguments):
        return binder.give_up(f"{name} of types that it does not take", node)
    return node


def _common_type_arguments(name: str, arguments: list[exp.Expr]) -> list[list[exp.Expr]]:
    if name in types.OF_ONE_TYPE:
        return [arguments]
    if name == "map":
        return [arguments[::2], arguments[1::2]]
    if name == "decode" and len(arguments) > 2:
        return [[*arguments[2::2], *(arguments[-1:] if len(arguments) % 2 == 0 else ())]]
    return [arguments[1:]] if name == "nvl2" else []


def _compared_arguments(name: str, arguments: list[exp.Expr]) -> list[list[exp.Expr]]:
    if name == "nullif":
        return [arguments]
    searched = arguments[1:-1:2] if name == "decode" else []
    return [[arguments[0], value] for value in searched]


def _bind_by_kind(binder: Binder, e: exp.Anonymous, name: str, scope: Scope) -> Node:
    kind = spark_functions.function_kind(name)
    if kind in AGGREGATES or kind == "grouping":
        return _aggregate(binder, e, name, scope, ordered=kind == "ordered aggregate")
    if name in _NAMING:
        return make_call(binder.terms, name, *_named_arguments(binder, e, scope))
    if name == "named_struct":
        return _named_struct(binder, e, scope)
    arguments = bind_arguments(binder, e, scope)
    if name in binder.scalar_functions:
        return binder.terms.make("call", name, *arguments)
    if kind == "session" or (
        name in spark_functions.SESSION_WITHOUT_ARGUMENTS and not e.expressions
    ):
        return binder.terms.make("session", name, *arguments)
    if kind in ("scalar", "parsed", "operator") or name.startswith("trim "):
        return _scalar(binder, e, name, arguments)
    if kind is None:
        if name not in binder.functions:
            binder.record_refusal("unknown function", e)
        return binder.give_up_call(f"function {name} is not declared as deterministic", arguments)
    if kind in ("ranking", "tie-breaking"):
        binder.record_refusal("no window", e)
    return binder.give_up_call(f"{kind} function {name} in an expression", arguments)


def bind_arguments(binder: Binder, e: exp.Expr, scope: Scope) -> list[Node]:
    """Bind a call's arguments. The argument `*` becomes one argument per column."""
    nodes: list[Node] = []
    for item in e.expressions:
        if not is_star(item):
            nodes.append(binder.bind(item, scope))
            continue
        try:
            nodes += [output.node for output in expand_star(binder, item, scope)]
        except Unsupported as why:
            nodes.append(binder.give_up(str(why)))
    return nodes


def check_argument_count(binder: Binder, e: exp.Expr) -> None:
    """Record a mistake if a Spark function gets too few or too many arguments."""
    name = call_name(e)
    given = types.list_arguments(e)
    if name in binder.functions or any(a.is_star or isinstance(a, exp.Kwarg) for a in given):
        return
    if not spark_functions.accepts_argument_count(name, len(given)):
        binder.record_refusal("number of arguments", e, len(given))


_ARITHMETIC = frozenset(
    {"mod", "pmod", "try_add", "try_subtract", "try_multiply", "try_divide", "try_mod"}
)


def widen_literals(binder: Binder, parts: Sequence[exp.Expr], sides: list[Node]) -> list[Node]:
    """Return an operator's two operands, and adapt an integer literal to the other operand.

    If the other operand is a DECIMAL, the literal is cast to DECIMAL. If the other operand's type
    is unknown, the literal is wrapped in a node `digits`.
    """
    found = list(sides)
    for at, other in ((0, 1), (1, 0)):
        # Spark casts only a plain literal: `e + 3` and `e + (4 - 1)` have different types.
        number = _count_literal_digits(parts[at].unnest())
        if not number or sides[at].tag != "lit":
            continue
        kind = types.infer(parts[other])
        if kind is None or kind.this == exp.DType.UNKNOWN:
            found[at] = binder.terms.make("digits", sides[at])
        elif kind.this == exp.DType.DECIMAL and (digits := data_type(f"DECIMAL({number}, 0)")):
            found[at] = make_cast(binder.terms, sides[at], digits)
    return found


def _count_literal_digits(e: exp.Expr) -> int:
    literal = e.this if isinstance(e, exp.Neg) else e
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return 0
    text = str(literal.this).rstrip("LSYlsy")
    return len(text.lstrip("0") or "0") if text.isdigit() else 0


def _scalar(binder: Binder, e: exp.Anonymous, name: str, arguments: list[Node]) -> Node:
    if name in spark_functions.CASTS and len(arguments) == 1:
        target = data_type(spark_functions.CASTS[name])
        assert target is not None
        if is_refused_cast(types.infer(e.expressions[0]), target):
            return binder.give_up("a cast between types that Spark does not convert", *arguments)
        return make_cast(binder.terms, arguments[0], target)
    if name == "if" and len(arguments) == 3:
        condition = binder.require_boolean(arguments[0], e.expressions[0])
        chosen = make_case(binder.terms, [condition, arguments[1]], arguments[2])
        return binder.require_common_type(chosen, e.expressions[1:])
    if name in _ARITHMETIC and len(arguments) == len(e.expressions) == 2:
        arguments = widen_literals(binder, e.expressions, arguments)
    if name == "nvl" and len(arguments) == 2:
        name = "coalesce"
    if name in _BY_UNIT and len(arguments) == 3:
        name = _BY_UNIT[name]
    if name.startswith("trim ") and len(arguments) == 2 and _is_blank(arguments[0]):
        return make_call(binder.terms, _TRIMMED[name], arguments[1])
    if name == "left" and len(arguments) == 2:
        name = "substring"
        arguments.insert(1, binder.terms.number(1))
    if len(arguments) == 1:
        name = _TRIMMED.get(name, name)
    size = len(e.expressions)
    if len(arguments) != size:
        return make_call(binder.terms, name, *arguments)  # A star stands for some of them.
    for index in spark_functions.UNITS.get(name, {}):
        if index < size and (name not in WITH_UNIT or size == 3):
            word = _word(e.expressions[index])
            same = spark_functions.canonical_unit(name, index, word) if word is not None else None
            if same is not None:
                arguments[index] = binder.terms.make("unit", same)
    return make_call(binder.terms, name, *arguments)


_BY_UNIT = {
    **dict.fromkeys(("date_add", "timestampadd"), "timestampadd"),
    **dict.fromkeys(("datediff", "timestampdiff", "timediff"), "timestampdiff"),
}
"""Canonical names of functions in calls with three arguments, the first of which is a unit."""


def _is_blank(node: Node) -> bool:
    return node.tag == "lit" and node.parts[1] == "' '"


def _word(e: exp.Expr) -> str | None:
    if not isinstance(e, exp.Literal):
        return None
    text: str = e.this
    return text if text.isidentifier() else plain_string(text)


def _typed_literal(binder: Binder, name: str, text: str) -> Node:
    if name == "date" and is_plain_date(text):
        target = data_type("DATE")
        assert target is not None
        return make_cast(binder.terms, binder.terms.literal(text), target)
    if name == "x":
        text = text.upper()
    elif name == "interval":
        text = _normal_interval(text)
    elif name in _INSTANTS and is_plain_date(f"{text[:11]}'"):
        text = _MIDNIGHT.sub("'", text)
    return binder.terms.make("typed literal", name, text)


_COUNTED = re.compile(
    r"(?P<sign>[+-]?)(?P<quote>'?)\s*(?P<value>[+-]?\d{1,9})\s*(?P=quote)\s+"
    r"(?P<unit>year|month|week|day|hour|minute|second)s?\b\s*",
    re.IGNORECASE,
)
_IN_TEXT = re.compile(r"'\s*(?:interval\s+)?([^']*?)\s*'", re.IGNORECASE)


def _normal_interval(text: str) -> str:
    """Return the normal form of an interval of whole units, and any other text unchanged.

    >>> _normal_interval("'1' DAY"), _normal_interval("'1 days'"), _normal_interval("-1 MONTH")
    ('1 DAY', '1 DAY', '-1 MONTH')
    >>> _normal_interval("'1 day 2 hours'"), _normal_interval("'1-2' YEAR TO MONTH")
    ('1 DAY 2 HOUR', "'1-2' YEAR TO MONTH")
    """
    quoted = _IN_TEXT.fullmatch(text)
    inner = quoted[1] if quoted is not None else text
    pieces: list[str] = []
    at = 0
    while at < len(inner):
        found = _COUNTED.match(inner, at)
        if found is None or (found["sign"] and not found["value"].isdigit()):
            return text
        value = int(found["value"])
        pieces.append(f"{-value if found['sign'] == '-' else value} {found['unit'].upper()}")
        at = found.end()
    return " ".join(pieces) or text


def bind_session_value(binder: Binder, name: str, scope: Scope) -> Node:
    """Bind a word such as CURRENT_DATE as a column of this name, or else as a function call."""
    try:
        return resolve((name,), scope, binder.terms).node
    except NotFound:
        return binder.terms.make("session", name)
    except (Ambiguous, UnclearName):
        return binder.give_up(f"{name} may be a column")


def _aggregate(binder: Binder, e: exp.Anonymous, name: str, scope: Scope, *, ordered: bool) -> Node:
    if scope.in_aggregate:
        binder.record_refusal("nested aggregate", e)
        return binder.give_up("nested aggregate functions", *binder.bind_children(e, scope))
    if name in ("window", "session_window"):
        return binder.give_up(f"{name} makes rows", *binder.bind_children(e, scope))
    if name == "grouping_id" and not e.expressions:
        return binder.give_up("GROUPING_ID() of unnamed keys")
    if scope.clause in ("where", "on", "group"):
        if scope.parent is None:
            binder.record_refusal("aggregate in clause", e, scope.clause)
        return binder.give_up(f"an aggregate function in {scope.clause.upper()}")
    scope.in_aggregate += 1
    try:
        body = bind_aggregate_body(binder, e, scope)
    finally:
        scope.in_aggregate -= 1
    scope.has_aggregate = True
    return binder.terms.make("ordered aggregate" if ordered else "aggregate", body)


_OF_CONDITIONS = ("count_if", "bool_and", "bool_or", "every", "some", "any")


def bind_aggregate_body(binder: Binder, e: exp.Anonymous, scope: Scope) -> Node:
    name = called_function(e)
    if name == _COUNT and len(e.expressions) == 1:
        this = e.expressions[0]
        if isinstance(this, exp.Star) and not this.args.get("except_"):
            return binder.terms.make("count rows")
        if isinstance(this, (exp.Literal, exp.Boolean)):
            return binder.terms.make("count rows")
    arguments = bind_arguments(binder, e, scope)
    if name in _OF_CONDITIONS and len(arguments) == len(e.expressions) == 1:
        arguments = [binder.require_boolean(arguments[0], e.expressions[0])]
    if len(arguments) > 1 and name != _COUNT and len(e.expressions) == 1:
        return binder.give_up(f"{name} of several columns", *arguments)
    return make_call(binder.terms, name, *arguments)


def bind_aggregate_modifier(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """Bind an aggregate function with FILTER, IGNORE NULLS or WITHIN GROUP."""
    inner = binder.bind(e.this, scope)
    if inner.tag not in AGGREGATES:
        return binder.give_up(f"{e.__class__.__name__} of something unknown", inner)
    extra: list[Any] = []
    scope.in_aggregate += 1
    try:
        for key, value in sorted(e.args.items()):
            if key != "this" and value is not None:
                part = binder.bind_argument(value, scope)
                filters = isinstance(e, exp.Filter) and part.__class__ is Node
                extra += [key, binder.check_condition(part, value) if filters else part]
    finally:
        scope.in_aggregate -= 1
    body = binder.terms.make(e.__class__.__name__, inner.parts[0], *extra)
    return binder.terms.make(inner.tag, body)


def _named_arguments(binder: Binder, e: exp.Anonymous, scope: Scope) -> list[Any]:
    parts: list[Any] = []
    for item in e.expressions:
        if is_star(item):
            for output in expand_star(binder, item, scope):
                parts += [output.written or output.name, output.node]
        elif isinstance(item, exp.Alias):
            parts += [item.alias, binder.bind(item.this, scope)]
            if scope.in_sets and not scope.in_aggregate:
                # Spark does not find the key of an expression that names a field.
                binder.give_up("a named field in a query of grouping sets")
        else:
            parts += [_function_name_in(item), binder.bind(item, scope)]
    return parts


def _function_name_in(e: exp.Expr) -> str | None:
    if isinstance(e, (exp.Column, exp.Identifier)):
        return e.name
    return e.expression.name if isinstance(e, exp.Dot) else None


def _named_struct(binder: Binder, e: exp.Anonymous, scope: Scope) -> Node:
    if any(map(is_star, e.expressions)):
        return make_call(binder.terms, "named_struct", *bind_arguments(binder, e, scope))
    parts: list[Any] = []
    for index, item in enumerate(e.expressions):
        name = None
        if not index % 2 and isinstance(item, exp.Literal):
            name = plain_string(item.this)
        parts.append(binder.bind(item, scope) if name is None else name)
    return make_call(binder.terms, "struct", *parts)


Maker = Callable[[Terms, str, Node, Node], Node]

DIVISIONS = (exp.Div, exp.Mod, exp.IntDiv)
COMPARISONS = {
    exp.EQ: "eq",
    exp.NEQ: "neq",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.NullSafeEQ: "nseq",
}


def make_call(terms: Terms, name: str, *arguments: Any) -> Node:
    return terms.make("call", spark_functions.ALIASES.get(name, name), *arguments)


def make_case(terms: Terms, parts: list[Node], other: Node | None) -> Node:
    """Create a CASE. `parts` contains each condition followed by its value."""
    if other is None or other.tag == "Null":
        return terms.make("case", *parts)
    return terms.make("case", *parts, other)


def make_cast(terms: Terms, this: Node, target: exp.Expr, *, safe: bool = False) -> Node:
    return terms.make("cast", safe, type_key(target), this)


BINARY: dict[type, tuple[Maker, str]] = {
    **{kind: (Terms.compare, op) for kind, op in COMPARISONS.items()},
    exp.NullSafeNEQ: (lambda terms, op, *sides: terms.negate(terms.compare(op, *sides)), "nseq"),
    exp.Add: (Terms.arithmetic, "add"),
    exp.Sub: (Terms.arithmetic, "sub"),
    exp.Mul: (Terms.arithmetic, "mul"),
    exp.RegexpLike: (make_call, "rlike"),
    exp.BitwiseLeftShift: (make_call, "shiftleft"),
    exp.BitwiseRightShift: (make_call, "shiftright"),
    exp.DPipe: (make_call, "concat"),
    exp.Mod: (make_call, "mod"),
}
"""Constructors of nodes with two operands, with the nodes' names."""
