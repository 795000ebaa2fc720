"""Checks for forms of queries that Spark's grammar accepts but its parser refuses.

The checks follow `QueryParsingErrors` and further checks of Spark 4.1 that do not depend on types:
https://github.com/apache/spark/blob/v4.1.0/sql/api/src/main/scala/org/apache/spark/sql/errors/QueryParsingErrors.scala
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import isinf

from sqlglot import exp

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import called_function
from vde_dagster.semantics.algebra.nodes import plain_string
from vde_dagster.semantics.errors import Finding, make_finding_at
from vde_dagster.semantics.types import MOST_DIGITS, infer
from vde_dagster.sql.grammar.tokens import WITH_UNIT
from vde_dagster.sql.reading import call_name

_RULE = "refused form"
_Refusals = Iterator[tuple[exp.Expr, str, str]]
"""A refused form: its place, the message and the hint."""

_LARGEST = {"Y": 2**7, "S": 2**15, "L": 2**63}
_MOST_OF_TIME = 6
_LARGEST_FLOAT = 3.4028235677973366e38


def refused_forms(parts: Iterable[exp.Expr]) -> Iterator[Finding]:
    """Report forms of a query that Spark's grammar allows but its parser refuses."""
    for e in parts:
        for where, message, hint in _FORMS[e.__class__](e) if e.__class__ in _FORMS else ():
            yield make_finding_at(_RULE, where, message, hint)


def _ctes(e: exp.With) -> _Refusals:
    seen: set[str] = set()
    for cte in e.expressions:
        if cte.alias in seen:
            yield cte.args["alias"], f"WITH names '{cte.alias}' twice", "rename one of them"
        seen.add(cte.alias)


def _query(e: exp.Query) -> _Refusals:
    ends = [key for key in ("order", "cluster", "distribute", "sort") if e.args.get(key)]
    if len(ends) > 1 and ends != ["distribute", "sort"]:
        words = " and ".join(f"{key.upper()} BY" for key in ends)
        yield e.args[ends[-1]], f"a query has {words}", "write one of them"
    seen: set[str] = set()
    windows = e.args.get("windows") or ()
    defined = {window.name for window in windows if not window.args.get("alias")}
    for window in windows:
        if window.name in seen:
            yield window, f"WINDOW defines '{window.name}' twice", "rename one of them"
        seen.add(window.name)
        other = window.args.get("alias")
        if other is not None and other.name not in defined:
            what = f"WINDOW {window.name} refers to '{other.name}', which WINDOW does not define"
            yield window, what, f"define it: WINDOW {window.name} AS (PARTITION BY … ORDER BY …)"


def _join(e: exp.Join) -> _Refusals:
    natural = e.method == "NATURAL"
    if natural and e.kind == "CROSS":
        yield e.this, "a join is either NATURAL or CROSS", "leave one of the words out"
    if not isinstance(e.this, exp.Lateral) or e.this.args.get("view"):
        return
    if natural or e.args.get("using"):
        word = "NATURAL" if natural else "USING"
        yield e.this, f"LATERAL cannot be joined by {word}", "write the condition after ON"
    if e.side in ("RIGHT", "FULL") or e.kind in ("SEMI", "ANTI"):
        word = e.side if e.side in ("RIGHT", "FULL") else e.kind
        yield e.this, f"{word} JOIN does not allow LATERAL", "write JOIN or LEFT JOIN"


def _lateral(e: exp.Lateral) -> _Refusals:
    if isinstance(e.this, exp.Identifier):
        what = f"LATERAL is written before the table '{e.this.name}'"
        yield e.this, what, "leave LATERAL out; it is for subqueries and functions"


def _sample(e: exp.TableSample) -> _Refusals:
    if not any(e.args.values()):
        yield e.parent or e, "TABLESAMPLE has no size", "write TABLESAMPLE (10 PERCENT)"
    percent = e.args.get("percent")
    if isinstance(percent, exp.Literal) and _number(percent) > 100:
        yield percent, "TABLESAMPLE takes at most 100 PERCENT", "write a smaller share"
    bucket = [e.args.get(f"bucket_{name}") for name in ("numerator", "denominator")]
    known = [part for part in bucket if isinstance(part, exp.Literal)]
    bucket_number, buckets = map(_number, known) if len(known) == 2 else (1, 1)
    if bucket_number > buckets or buckets == 0:
        what = f"there is no BUCKET {known[0].this} OUT OF {known[1].this}"
        yield known[0], what, "write TABLESAMPLE (10 PERCENT)"
    if e.args.get("bucket_field") is not None:
        what = "TABLESAMPLE does not allow a column after ON"
        yield e.args["bucket_field"], what, "leave ON out"


def _time_travel(e: exp.Version) -> _Refusals:
    column = e.expression.find(exp.Column, exp.Query) if e.this == "TIMESTAMP" else None
    if column is not None:
        what = "a query" if isinstance(column, exp.Query) else "a column"
        yield e.parent or e, f"TIMESTAMP AS OF cannot use {what}", "write a constant time"


def _quantified(e: exp.Any | exp.All) -> _Refusals:
    if isinstance(e.this, exp.Tuple) and not e.this.expressions:
        what = f"the brackets of {e.key.upper()} are empty"
        yield e.parent or e, what, "write patterns"


def _escape(e: exp.Escape) -> _Refusals:
    character = e.expression
    text = plain_string(character.this) if isinstance(character, exp.Literal) else None
    if text is not None and len(text) != 1:
        yield character, f"ESCAPE takes one character, not {character.this}", "write one character"


def _literal(e: exp.Literal) -> _Refusals:
    text = e.this.upper()
    if e.is_string or (not text[:1].isdigit() and text[:1] != "."):
        return
    largest = _LARGEST.get(text[-1])
    if largest is not None and text[:-1].isdigit():
        wrong = int(text[:-1]) >= largest + isinstance(e.parent, exp.Neg)
    elif text.endswith("F"):
        wrong = _number(e) > _LARGEST_FLOAT
    elif not text.endswith("BD") and ("E" in text or text.endswith("D")):
        wrong = isinf(_number(e))
    else:
        wrong = infer(e) is None
    if wrong:
        yield e, f"{e.this} is out of the range of its type", "write it without a suffix, or CAST"


def _number(e: exp.Literal) -> float:
    try:
        return float(e.this.rstrip("DdFfBbLlSsYy"))
    except ValueError:
        return 0.0


def _type(e: exp.DataType) -> _Refusals:
    given = [part.this.this for part in e.expressions if isinstance(part, exp.DataTypeParam)]
    sizes = [int(text) for text in given if text.isdigit()]
    if e.this is exp.DType.TIME and sizes and sizes[0] > _MOST_OF_TIME:
        yield _placed(e), f"there is no TIME({sizes[0]})", f"write TIME({_MOST_OF_TIME}) at most"
    if e.this is not exp.DType.DECIMAL or not sizes:
        return
    if sizes[0] > MOST_DIGITS or sizes[-1] > sizes[0]:
        shown = f"DECIMAL({', '.join(map(str, sizes))})"
        hint = "write DECIMAL(precision, scale): at most 38 digits, scale of them after the point"
        yield _placed(e), f"there is no {shown}", hint


def _placed(e: exp.Expr) -> exp.Expr:
    return e.find_ancestor(exp.Cast) or e


def _call(e: exp.Anonymous) -> _Refusals:
    name = call_name(e)
    unit = e.expressions[0] if len(e.expressions) == 3 and name in WITH_UNIT else None
    if isinstance(unit, exp.Literal) and unit.is_string and unit.this[:1] in "'\"":
        word = plain_string(unit.this) or "DAY"
        hint = f"write it without quotes: {name}({word.upper()}, …)"
        yield e, f"the unit of '{name}' is a text, {unit.this}", hint
    if (
        isinstance(e.parent, exp.Filter)
        and spark_functions.function_kind(called_function(e)) == "scalar"
    ):
        yield e, f"'{name}' is not an aggregate function, but has FILTER", "write CASE WHEN … END"
    distinct = e.expressions and isinstance(e.expressions[0], exp.Distinct)
    if distinct and spark_functions.function_kind(called_function(e)) == "scalar":
        yield e, f"'{name}' is not an aggregate function, but has DISTINCT", "leave DISTINCT out"


def _window(e: exp.Window) -> _Refusals:
    if isinstance(e.this, exp.Identifier):  # It is a definition.
        return
    call = e.this.this if isinstance(e.this, exp.Filter) else e.this
    arguments = call.expressions if isinstance(call, exp.Anonymous) else ()
    if any(isinstance(argument, exp.Distinct) for argument in arguments):
        what = f"'{call_name(call)}' has both DISTINCT and OVER, which Spark does not support"
        hint = "group in a subquery and join it, or write size(collect_set(…) OVER (…)) for a count"
        yield call, what, hint
    used = e.args.get("alias")
    if used is None:
        return
    selects = e.root().find_all(exp.Select)  # A query around it may define the window.
    defined = {window.name for one in selects for window in one.args.get("windows") or ()}
    if used.name not in defined:
        hint = f"define it: WINDOW {used.name} AS (PARTITION BY … ORDER BY …)"
        yield call, f"no WINDOW defines '{used.name}'", hint


def _frame(e: exp.WindowSpec) -> _Refusals:
    for side in ("start", "end"):
        bound = e.args.get(side)
        if isinstance(bound, exp.Column):
            yield bound, "a column is the bound of a window's frame", "write a number of rows"


def _limit(e: exp.Limit | exp.Offset) -> _Refusals:
    value = e.expression
    if isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal):
        yield value.this, f"{e.key.upper()} is negative", "write 0 or more"
    elif isinstance(value, exp.Literal) and (value.is_string or "." in value.this):
        yield value, f"{e.key.upper()} {value.this} is not allowed", "write a whole number"


_FORMS: dict[type, Callable[..., _Refusals]] = {
    exp.With: _ctes,
    **dict.fromkeys((exp.Select, exp.Union, exp.Intersect, exp.Except), _query),
    exp.Join: _join,
    exp.Lateral: _lateral,
    exp.TableSample: _sample,
    exp.Version: _time_travel,
    exp.Any: _quantified,
    exp.All: _quantified,
    exp.Escape: _escape,
    exp.Literal: _literal,
    exp.DataType: _type,
    exp.Anonymous: _call,
    exp.Window: _window,
    exp.WindowSpec: _frame,
    exp.Limit: _limit,
    exp.Offset: _limit,
}
