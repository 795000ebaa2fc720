"""Calls of functions, operators and window functions as nodes of the algebra.

`spark_functions` lists the synonyms of functions, which were tested on Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import called, data_type, type_key
from vde_dagster.semantics.algebra.nodes import (
    AGGREGATES,
    Node,
    Terms,
    is_plain_date,
    plain_string,
)
from vde_dagster.semantics.binding.binder import Binder, Unsupported
from vde_dagster.semantics.binding.names import Ambiguous, NotFound, Scope, Unclear, resolve
from vde_dagster.semantics.binding.stars import expand
from vde_dagster.semantics.function_types import is_refused_cast
from vde_dagster.semantics.simplify.facts import Facts
from vde_dagster.semantics.types import (
    OF_ONE_TYPE,
    infer,
    list_arguments,
    refuses_arguments,
)
from vde_dagster.sql.grammar.tokens import WITH_UNIT
from vde_dagster.sql.reading import is_star, name_of_call

_NAMING = frozenset({"struct", "arrays_zip"})
"""Functions that name the fields of their result after their arguments."""
_COUNT = "count"
_LITERAL = " literal"
_TRIMMED = {"btrim": "trim", "trim both": "trim", "trim leading": "ltrim", "trim trailing": "rtrim"}
_INSTANTS = ("timestamp", "timestamp_ltz", "timestamp_ntz")
_MIDNIGHT = re.compile(r"[ T]00:00(:00(\.0{1,6})?)?'$")


def bind_call(binder: Binder, e: exp.Anonymous, scope: Scope) -> Node:
    """Bind a call in an expression."""
    name = called(e)
    if name.endswith(_LITERAL):
        return _typed_literal(binder, name[: -len(_LITERAL)], e.expressions[0].this)
    note_arguments(binder, e)
    return _accepted(binder, e, name, _called_node(binder, e, name, scope))


def _accepted(binder: Binder, e: exp.Anonymous, name: str, node: Node) -> Node:
    """Return a call's node, or an unknown node if Spark refuses the arguments."""
    arguments = list_arguments(e)
    if any(is_star(a) or isinstance(a, exp.Kwarg) for a in arguments):
        return node
    for chosen in _chosen(name, arguments):
        node = binder.common(node, chosen, ordered=name in ("greatest", "least"))
    for pair in _compared(name, arguments):
        node = binder.compared(node, pair)
    fixed = (arguments[at] for at in spark_functions.CONSTANTS.get(name, ()) if at < len(arguments))
    if name not in binder.functions and any(a.find(exp.Column) is not None for a in fixed):
        return binder.give_up(f"{name} of a column in place of a constant", node)
    if name not in binder.functions and refuses_arguments(name, arguments):
        return binder.give_up(f"{name} of types that it does not take", node)
    return node


def _chosen(name: str, arguments: list[exp.Expr]) -> list[list[exp.Expr]]:
    """Return the groups of a call's arguments that must have a common type in Spark."""
    if name in OF_ONE_TYPE:
        return [arguments]
    if name == "map":
        return [arguments[::2], arguments[1::2]]
    if name == "decode" and len(arguments) > 2:
        return [[*arguments[2::2], *(arguments[-1:] if len(arguments) % 2 == 0 else ())]]
    return [arguments[1:]] if name == "nvl2" else []


def _compared(name: str, arguments: list[exp.Expr]) -> list[list[exp.Expr]]:
    """Return the groups of a call's arguments that Spark compares with each other."""
    if name == "nullif":
        return [arguments]
    searched = arguments[1:-1:2] if name == "decode" else []
    return [[arguments[0], value] for value in searched]


def _called_node(binder: Binder, e: exp.Anonymous, name: str, scope: Scope) -> Node:
    kind = spark_functions.kind(name)
    if kind in AGGREGATES or kind == "grouping":
        return _aggregate(binder, e, name, scope, ordered=kind == "ordered aggregate")
    if name in _NAMING:
        return call(binder.terms, name, *_named_arguments(binder, e, scope))
    if name == "named_struct":
        return _named_struct(binder, e, scope)
    arguments = bound_arguments(binder, e, scope)
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
            binder.note("unknown function", e)
        return binder.give_up_call(f"function {name} is not declared as deterministic", arguments)
    if kind in ("ranking", "tie-breaking"):
        binder.note("no window", e)
    return binder.give_up_call(f"{kind} function {name} in an expression", arguments)


def bound_arguments(binder: Binder, e: exp.Expr, scope: Scope) -> list[Node]:
    """Bind a call's arguments, with a star replaced by its columns."""
    nodes: list[Node] = []
    for item in e.expressions:
        if not is_star(item):
            nodes.append(binder.bind(item, scope))
            continue
        try:
            nodes += [output.node for output in expand(binder, item, scope)]
        except Unsupported as why:
            nodes.append(binder.give_up(str(why)))
    return nodes


def note_arguments(binder: Binder, e: exp.Expr) -> None:
    """Record a call with too few or too many arguments for a Spark function."""
    name = name_of_call(e)
    given = list_arguments(e)
    if name in binder.functions or any(a.is_star or isinstance(a, exp.Kwarg) for a in given):
        return
    if not spark_functions.takes(name, len(given)):
        binder.note("number of arguments", e, len(given))


_ARITHMETIC = frozenset(
    {"mod", "pmod", "try_add", "try_subtract", "try_multiply", "try_divide", "try_mod"}
)


def with_digits(binder: Binder, parts: Sequence[exp.Expr], sides: list[Node]) -> list[Node]:
    """Return operands' nodes, with an integer literal next to a DECIMAL cast to DECIMAL.

    Args:
        parts: The two operands of an arithmetic operator.
        sides: The nodes of the operands.
    """
    found = list(sides)
    for at, other in ((0, 1), (1, 0)):
        # Spark casts only a plain literal: `e + 3` and `e + (4 - 1)` have different types.
        number = _digits(parts[at].unnest())
        if not number or sides[at].tag != "lit":
            continue
        kind = infer(parts[other])
        if kind is None or kind.this == exp.DType.UNKNOWN:
            found[at] = binder.terms.make("digits", sides[at])
        elif kind.this == exp.DType.DECIMAL and (digits := data_type(f"DECIMAL({number}, 0)")):
            found[at] = cast(binder.terms, sides[at], digits)
    return found


def _digits(e: exp.Expr) -> int:
    """Return the number of digits of an integer literal, signed or not; 0 for other nodes."""
    literal = e.this if isinstance(e, exp.Neg) else e
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return 0
    text = str(literal.this).rstrip("LSYlsy")
    return len(text.lstrip("0") or "0") if text.isdigit() else 0


def _scalar(binder: Binder, e: exp.Anonymous, name: str, arguments: list[Node]) -> Node:
    if name in spark_functions.CASTS and len(arguments) == 1:
        target = data_type(spark_functions.CASTS[name])
        assert target is not None
        if is_refused_cast(infer(e.expressions[0]), target):
            return binder.give_up("a cast between types that Spark does not convert", *arguments)
        return cast(binder.terms, arguments[0], target)
    if name == "if" and len(arguments) == 3:
        condition = binder.boolean(arguments[0], e.expressions[0])
        chosen = choice(binder.terms, [condition, arguments[1]], arguments[2])
        return binder.common(chosen, e.expressions[1:])
    if name in _ARITHMETIC and len(arguments) == len(e.expressions) == 2:
        arguments = with_digits(binder, e.expressions, arguments)
    if name == "nvl" and len(arguments) == 2:
        name = "coalesce"
    if name in _BY_UNIT and len(arguments) == 3:
        name = _BY_UNIT[name]
    if name.startswith("trim ") and len(arguments) == 2 and _is_blank(arguments[0]):
        return call(binder.terms, _TRIMMED[name], arguments[1])
    if name == "left" and len(arguments) == 2:
        name = "substring"
        arguments.insert(1, binder.terms.number(1))
    if len(arguments) == 1:
        name = _TRIMMED.get(name, name)
    size = len(e.expressions)
    if len(arguments) != size:
        return call(binder.terms, name, *arguments)  # A star stands for some of them.
    for index in spark_functions.UNITS.get(name, {}):
        if index < size and (name not in WITH_UNIT or size == 3):
            word = _word(e.expressions[index])
            same = spark_functions.unit(name, index, word) if word is not None else None
            if same is not None:
                arguments[index] = binder.terms.make("unit", same)
    return call(binder.terms, name, *arguments)


_BY_UNIT = {
    **dict.fromkeys(("date_add", "timestampadd"), "timestampadd"),
    **dict.fromkeys(("datediff", "timestampdiff", "timediff"), "timestampdiff"),
}
"""Functions that are equal in Spark if they have three arguments, the first of them a unit."""


def _is_blank(node: Node) -> bool:
    return node.tag == "lit" and node.parts[1] == "' '"


def _word(e: exp.Expr) -> str | None:
    if not isinstance(e, exp.Literal):
        return None
    text: str = e.this
    return text if text.isidentifier() else plain_string(text)


def _typed_literal(binder: Binder, name: str, text: str) -> Node:
    """Bind a typed literal, such as `DATE '2024-01-01'`, `INTERVAL 1 DAY` or `X'1F'`."""
    if name == "date" and is_plain_date(text):
        target = data_type("DATE")
        assert target is not None
        return cast(binder.terms, binder.terms.literal(text), target)
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
    """Return the normal form of an interval of whole units; other texts stay unchanged.

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


def session_value(binder: Binder, name: str, scope: Scope) -> Node:
    """Bind a word such as CURRENT_DATE as a column of this name or else as a function."""
    try:
        return resolve((name,), scope, binder.terms).node
    except NotFound:
        return binder.terms.make("session", name)
    except (Ambiguous, Unclear):
        return binder.give_up(f"{name} may be a column")


def _aggregate(binder: Binder, e: exp.Anonymous, name: str, scope: Scope, *, ordered: bool) -> Node:
    if scope.in_aggregate:
        binder.note("nested aggregate", e)
        return binder.give_up("nested aggregate functions", *binder.bind_children(e, scope))
    if name in ("window", "session_window"):
        return binder.give_up(f"{name} makes rows", *binder.bind_children(e, scope))
    if name == "grouping_id" and not e.expressions:
        return binder.give_up("GROUPING_ID() of unnamed keys")
    if scope.clause in ("where", "on", "group"):
        if scope.parent is None:
            binder.note("aggregate in clause", e, scope.clause)
        return binder.give_up(f"an aggregate function in {scope.clause.upper()}")
    scope.in_aggregate += 1
    try:
        body = _aggregate_body(binder, e, scope)
    finally:
        scope.in_aggregate -= 1
    scope.has_aggregate = True
    return binder.terms.make("ordered aggregate" if ordered else "aggregate", body)


_OF_CONDITIONS = ("count_if", "bool_and", "bool_or", "every", "some", "any")


def _aggregate_body(binder: Binder, e: exp.Anonymous, scope: Scope) -> Node:
    """Bind an aggregate function."""
    name = called(e)
    if name == _COUNT and len(e.expressions) == 1:
        this = e.expressions[0]
        if isinstance(this, exp.Star) and not this.args.get("except_"):
            return binder.terms.make("count rows")
        if isinstance(this, (exp.Literal, exp.Boolean)):
            return binder.terms.make("count rows")
    arguments = bound_arguments(binder, e, scope)
    if name in _OF_CONDITIONS and len(arguments) == len(e.expressions) == 1:
        arguments = [binder.boolean(arguments[0], e.expressions[0])]
    if len(arguments) > 1 and name != _COUNT and len(e.expressions) == 1:
        return binder.give_up(f"{name} of several columns", *arguments)
    return call(binder.terms, name, *arguments)


def modified_aggregate(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """Bind FILTER, IGNORE NULLS and WITHIN GROUP around an aggregate function."""
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
                extra += [key, binder.condition(part, value) if filters else part]
    finally:
        scope.in_aggregate -= 1
    body = binder.terms.make(e.__class__.__name__, inner.parts[0], *extra)
    return binder.terms.make(inner.tag, body)


def _named_arguments(binder: Binder, e: exp.Anonymous, scope: Scope) -> list[Any]:
    """Return, for each argument, the name of its struct field in Spark (or None) and its node."""

    parts: list[Any] = []
    for item in e.expressions:
        if is_star(item):
            for output in expand(binder, item, scope):
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
        return call(binder.terms, "named_struct", *bound_arguments(binder, e, scope))
    parts: list[Any] = []
    for index, item in enumerate(e.expressions):
        name = None
        if not index % 2 and isinstance(item, exp.Literal):
            name = plain_string(item.this)
        parts.append(binder.bind(item, scope) if name is None else name)
    return call(binder.terms, "struct", *parts)


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


def call(terms: Terms, name: str, *arguments: Any) -> Node:
    """Create a call of a Spark function that returns one value per row."""
    return terms.make("call", spark_functions.ALIASES.get(name, name), *arguments)


def choice(terms: Terms, parts: list[Node], other: Node | None) -> Node:
    """Create a CASE or IF from alternating conditions and values."""
    if other is None or other.tag == "Null":
        return terms.make("case", *parts)
    return terms.make("case", *parts, other)


def cast(terms: Terms, this: Node, target: exp.Expr, *, safe: bool = False) -> Node:
    """Create a cast, or a TRY_CAST if `safe`."""
    return terms.make("cast", safe, type_key(target), this)


BINARY: dict[type, tuple[Maker, str]] = {
    **{kind: (Terms.compare, op) for kind, op in COMPARISONS.items()},
    exp.NullSafeNEQ: (lambda terms, op, *sides: terms.negate(terms.compare(op, *sides)), "nseq"),
    exp.Add: (Terms.arithmetic, "add"),
    exp.Sub: (Terms.arithmetic, "sub"),
    exp.Mul: (Terms.arithmetic, "mul"),
    exp.RegexpLike: (call, "rlike"),
    exp.BitwiseLeftShift: (call, "shiftleft"),
    exp.BitwiseRightShift: (call, "shiftright"),
    exp.DPipe: (call, "concat"),
    exp.Mod: (call, "mod"),
}
"""Constructors of nodes with two operands, with the nodes' names."""


_STEADY = ("aggregate", "ranking")
_TELLING_APART = ("ordered aggregate", "tie-breaking")
_ORDERED = (spark_functions.RANKING | spark_functions.TIE_BREAKING) - {"nth_value"}
"""Functions that need a window with ORDER BY."""


_BY_ROWS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "ntile"})
"""Functions that always use the frame of all rows up to the current one."""
_FRAME_ARGS = {"kind", "start", "start_side", "end", "end_side"}
_SO_FAR = ("UNBOUNDED", "PRECEDING", "CURRENT ROW", None)
_WHOLE = ("UNBOUNDED", "PRECEDING", "UNBOUNDED", "FOLLOWING")


def bind_window(binder: Binder, e: exp.Window, scope: Scope) -> Node:
    """Bind a window function as a ``pending window``."""
    # `complete_windows` completes the window.
    if scope.clause in ("where", "on", "group", "having"):
        if scope.parent is None:
            binder.note("window in clause", e, scope.clause)
        return binder.give_up(f"a window function in {scope.clause.upper()}")
    definition = _inherit(binder, e, scope)
    if definition is None:
        return binder.give_up("an unknown window")
    partition, order, spec = definition
    if not order and called(e.this) in _ORDERED:
        binder.note("window without order", e)
    scope.in_window += 1
    try:
        body, ties = _function(binder, e.this, scope)
    finally:
        scope.in_window -= 1
    kind = spark_functions.kind(called(_bare(e.this)))
    keys = [sort_key(binder, o, scope) for o in order]
    whole = spec is not None and kind == "aggregate" and _bounds(spec) == _WHOLE
    facts = Facts(binder.terms)
    if whole and all(facts.never_fails(key.parts[-1]) for key in keys):
        keys, spec = [], None
    elif spec is not None and _is_default(spec, called(_bare(e.this)), ordered=bool(order)):
        spec = None
    frame: list[Any] = []
    if spec is not None:
        for key, value in sorted(spec.args.items()):
            if value is not None:
                frame += [key, binder.bind(value, scope) if isinstance(value, exp.Expr) else value]
        ties = ties or spec.args.get("kind") != "RANGE"
    if e.args.get("first"):
        return binder.give_up("a window with FIRST")
    scope.has_window = True
    terms = binder.terms
    return terms.make(
        "pending window",
        ties,
        body,
        terms.unordered("keys", [binder.bind(p, scope) for p in partition]),
        terms.make("order", *keys),
        terms.make("frame", *frame),
    )


def _bare(e: exp.Expr) -> exp.Expr:
    """Return the call inside of FILTER, IGNORE NULLS and RESPECT NULLS."""
    while isinstance(e, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        e = e.this
    return e


def _bounds(spec: exp.Expr) -> tuple[Any, ...]:
    parts = [spec.args.get(k) for k in ("start", "start_side", "end", "end_side")]
    return (*parts[:2], parts[2] or "CURRENT ROW", parts[3])


def _is_default(spec: exp.Expr, name: str, *, ordered: bool) -> bool:
    if {key for key, value in spec.args.items() if value} - _FRAME_ARGS:
        return False
    kind, bounds = spec.args.get("kind"), _bounds(spec)
    if spark_functions.kind(name) in ("ranking", "tie-breaking"):
        return name in _BY_ROWS and kind == "ROWS" and bounds == _SO_FAR
    if not ordered:
        return bounds == _WHOLE
    return kind == "RANGE" and bounds == _SO_FAR


def _inherit(
    binder: Binder, e: exp.Window, scope: Scope
) -> tuple[list[exp.Expr], list[exp.Expr], exp.Expr | None] | None:
    """Return PARTITION BY, ORDER BY and the frame, including parts of a named window."""
    partition = list(e.args.get("partition_by") or [])
    order_by = e.args.get("order")
    order = list(order_by.expressions) if order_by is not None else []
    spec = e.args.get("spec")
    name = e.args.get("alias")
    if name is None:
        return partition, order, spec
    base = scope.windows.get(name.name.lower())
    if base is None or base is e:
        return None
    inherited = _inherit(binder, base, scope)
    if inherited is None:
        return None
    return partition or inherited[0], order or inherited[1], spec or inherited[2]


def _function(binder: Binder, e: exp.Expr, scope: Scope) -> tuple[Node, bool]:
    """Return a window's function, and whether its result can differ within equal sort keys."""
    if isinstance(e, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        inner, ties = _function(binder, e.this, scope)
        condition = e.args.get("expression")
        if isinstance(condition, exp.Expr):
            return binder.give_up("FILTER of a window", inner, binder.bind(condition, scope)), ties
        return binder.terms.make(e.__class__.__name__, inner), ties
    if isinstance(e, exp.Anonymous):
        kind = spark_functions.kind(called(e))
        if kind in _STEADY or kind in _TELLING_APART:
            note_arguments(binder, e)
            # Aggregate functions in the arguments, as in SUM(SUM(x)) OVER (), are computed by the
            # grouped query that the window reads.
            body = _accepted(binder, e, called(e), _aggregate_body(binder, e, scope))
            if any(isinstance(argument, exp.Distinct) for argument in e.expressions):
                return binder.give_up("DISTINCT in a window", body), False
            return body, kind in _TELLING_APART
    return binder.give_up("an unknown window function", binder.bind(e, scope)), True


def sort_key(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """Bind an ORDER BY expression with its direction and the position of NULLs."""
    if not isinstance(e, exp.Ordered):
        return binder.terms.make("sort", False, True, binder.bind(e, scope))
    if e.args.get("with_fill"):
        return binder.give_up("WITH FILL")
    return binder.terms.make(
        "sort",
        bool(e.args.get("desc")),
        bool(e.args.get("nulls_first")),
        binder.bind(e.this, scope),
    )
