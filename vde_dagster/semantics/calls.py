"""Reading calls of functions: by the name that was written, with what was written.

Which names mean the same is in `spark_functions`, proved there on Spark itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import data_type
from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.literals import is_plain_date, plain_string
from vde_dagster.semantics.names import Ambiguous, NotFound, Scope, Unclear, resolve
from vde_dagster.semantics.operators import call, cast, choice
from vde_dagster.sql.reading import name_of_call

if TYPE_CHECKING:
    from vde_dagster.semantics.binder import Binder

_NAMING = frozenset({"struct", "arrays_zip"})
"""Functions that make names of fields from the names of their arguments."""
_WITH_UNIT_OF_THREE = frozenset(
    {"timestampadd", "date_add", "timestampdiff", "timediff", "datediff"}
)
"""Functions that begin with a unit if they have three arguments."""
_COUNT = "count"
_TOTALS = ("sum", "avg")
_LITERAL = " literal"
_TRIMMED = {"btrim": "trim", "trim both": "trim", "trim leading": "ltrim", "trim trailing": "rtrim"}
_MIDNIGHT = re.compile(r"[ T]00:00(:00(\.0{1,6})?)?'$")
_AGGREGATES = ("aggregate", "ordered aggregate")


def called(e: exp.Expr) -> str:
    """The lower-case name of a call, one for all names that mean the same; "" for no call."""
    name = name_of_call(e)
    return spark_functions.ALIASES.get(name, name)


def bind_call(binder: Binder, e: exp.Anonymous, scope: Scope) -> Node:
    """The node of a call in an expression."""
    from vde_dagster.semantics.expressions import bind

    name = called(e)
    if name.endswith(_LITERAL):
        return _typed_literal(binder, name[: -len(_LITERAL)], e.expressions[0].this)
    kind = spark_functions.kind(name)
    if kind in _AGGREGATES or kind == "grouping":
        return _aggregate(binder, e, name, scope, ordered=kind == "ordered aggregate")
    if name in _NAMING:
        return call(binder.terms, name, _named_arguments(binder, e, scope))
    if name == "named_struct":
        return _named_struct(binder, e, scope)
    arguments = [bind(binder, a, scope) for a in e.expressions]
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
        return binder.give_up(f"function {name} is not declared as deterministic", *arguments)
    if kind in ("ranking", "tie-breaking"):
        binder.note("no window", e)
    return binder.give_up(f"{kind} function {name} in an expression", *arguments)


def _scalar(binder: Binder, e: exp.Anonymous, name: str, arguments: list[Node]) -> Node:
    if name in spark_functions.CASTS and len(arguments) == 1:
        target = data_type(spark_functions.CASTS[name])
        assert target is not None
        return cast(binder.terms, arguments[0], target)
    if name == "if" and len(arguments) == 3:
        return choice(binder.terms, arguments[:2], arguments[2])
    if name == "nvl" and len(arguments) == 2:
        name = "coalesce"
    if name == "left" and len(arguments) == 2:
        name = "substring"
        arguments.insert(1, binder.terms.make("lit", "n", "1"))
    if len(arguments) == 1:
        name = _TRIMMED.get(name, name)
    size = len(e.expressions)
    for index in spark_functions.UNITS.get(name, {}):
        if index < size and (name not in _WITH_UNIT_OF_THREE or size == 3):
            word = _word(e.expressions[index])
            same = spark_functions.unit(name, index, word) if word is not None else None
            if same is not None:
                arguments[index] = binder.terms.make("unit", same)
    return call(binder.terms, name, list(arguments))


def _word(e: exp.Expr) -> str | None:
    """The text of a string, or the word that stands for one."""
    if not isinstance(e, exp.Literal):
        return None
    text: str = e.this
    return text if text.isidentifier() else plain_string(text)


def _typed_literal(binder: Binder, name: str, text: str) -> Node:
    """`DATE '2024-01-01'`, `INTERVAL 1 DAY`, `X'1F'`: a type and a text."""
    from vde_dagster.semantics.literals import bind_literal

    if name == "date" and is_plain_date(text):
        target = data_type("DATE")
        assert target is not None
        return cast(binder.terms, bind_literal(binder.terms, text), target)
    if name == "x":
        text = text.upper()
    elif name == "timestamp" and is_plain_date(f"{text[:11]}'"):
        text = _MIDNIGHT.sub("'", text)
    return binder.terms.make("typed literal", name, text)


def session_value(binder: Binder, name: str, scope: Scope) -> Node:
    """What a word such as CURRENT_DATE means: a column of that name, or the function."""
    try:
        return resolve((name,), scope, binder.terms).node
    except NotFound:
        return binder.terms.make("session", name)
    except (Ambiguous, Unclear):
        return binder.give_up(f"{name} may be a column")


def _aggregate(binder: Binder, e: exp.Anonymous, name: str, scope: Scope, *, ordered: bool) -> Node:
    from vde_dagster.semantics.expressions import parts_of

    if scope.in_aggregate:
        binder.note("nested aggregate", e)
        return binder.give_up("nested aggregate functions", *parts_of(binder, e, scope))
    if name in ("window", "session_window"):
        return binder.give_up(f"{name} makes rows", *parts_of(binder, e, scope))
    if name == "grouping_id" and not e.expressions:
        return binder.give_up("GROUPING_ID() of unnamed keys")
    if scope.clause in ("where", "on", "group"):
        if scope.parent is None:
            binder.note("aggregate in clause", e, scope.clause)
        return binder.give_up(f"an aggregate function in {scope.clause.upper()}")
    scope.in_aggregate += 1
    try:
        body = aggregate_body(binder, e, scope)
    finally:
        scope.in_aggregate -= 1
    scope.has_aggregate = True
    return binder.terms.make("ordered aggregate" if ordered else "aggregate", body)


def aggregate_body(binder: Binder, e: exp.Anonymous, scope: Scope) -> Node:
    """An aggregate function with its arguments; COUNT(*) and COUNT of a literal count rows."""
    from vde_dagster.semantics.expressions import bind

    name = called(e)
    if name in _TOTALS:
        binder.to_check.append(e)
    if name == _COUNT and len(e.expressions) == 1:
        this = e.expressions[0]
        if isinstance(this, exp.Star):
            if this.args.get("except_") or this.args.get("replace"):
                return binder.give_up("COUNT(* EXCEPT …)")
            return binder.terms.make("count rows")
        if isinstance(this, (exp.Literal, exp.Boolean)):
            return binder.terms.make("count rows")
    if any(isinstance(a, exp.Column) and isinstance(a.this, exp.Star) for a in e.expressions):
        return binder.give_up(f"{name}(t.*)")
    return call(binder.terms, name, [bind(binder, a, scope) for a in e.expressions])


def modified_aggregate(binder: Binder, e: exp.Expr, scope: Scope) -> Node:
    """FILTER, IGNORE NULLS and WITHIN GROUP around an aggregate function."""
    from vde_dagster.semantics.expressions import bind, part_of

    inner = bind(binder, e.this, scope)
    if inner.tag not in _AGGREGATES:
        return binder.give_up(f"{e.__class__.__name__} of something unknown", inner)
    extra: list[Any] = []
    scope.in_aggregate += 1
    try:
        for key, value in sorted(e.args.items()):
            if key != "this" and value is not None:
                extra += [key, part_of(binder, value, scope)]
    finally:
        scope.in_aggregate -= 1
    body = binder.terms.make(e.__class__.__name__, inner.parts[0], *extra)
    return binder.terms.make(inner.tag, body)


def _named_arguments(binder: Binder, e: exp.Anonymous, scope: Scope) -> list[Any]:
    """Arguments with the names that Spark gives their fields, in their case; None where none."""
    from vde_dagster.semantics.expressions import bind
    from vde_dagster.semantics.stars import expand

    parts: list[Any] = []
    for item in e.expressions:
        if item.is_star:
            for output in expand(binder, item, scope):
                parts += [output.written or output.name, output.node]
        elif isinstance(item, exp.Alias):
            parts += [item.alias, bind(binder, item.this, scope)]
        else:
            parts += [_own_name(item), bind(binder, item, scope)]
    return parts


def _own_name(e: exp.Expr) -> str | None:
    if isinstance(e, (exp.Column, exp.Identifier)):
        return e.name
    return e.expression.name if isinstance(e, exp.Dot) else None


def _named_struct(binder: Binder, e: exp.Anonymous, scope: Scope) -> Node:
    from vde_dagster.semantics.expressions import bind

    parts: list[Any] = []
    for index, item in enumerate(e.expressions):
        name = None
        if not index % 2 and isinstance(item, exp.Literal):
            name = plain_string(item.this)
        parts.append(bind(binder, item, scope) if name is None else name)
    return call(binder.terms, "struct", parts)
